package jsontext

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var texts = []string{
	``, ` `, `0`, `-0`, `-`, `01`, `1.`, `1.5e`, `1.5E+07`, `-1e-0`, `.5`, `+1`, `1e5 `, `1 2`, `0x1`,
	`true`, `tru`, `truex`, `false`, `null`, `nul`, `True`,
	`""`, `"`, `"a`, `"é"`, "\"\xff\"", "\xff", "\"\x1f\"", "\"\x7f\"", `"\u12aF"`, `"\u12g4"`, `"\u12`, `"\x"`, `"\`, `"\"`, `"\\"`, `"\/\b\f\n\r\t"`,
	`"1234567"`, `"12345678"`, `"123456789"`, `"1234567\"9"`, "\"1234567\n9\"", `"\ud800"`,
	`[]`, `[ ]`, `[1]`, `[1,]`, `[,1]`, `[1 2]`, `[1,[2,[3]]]`, `[}`, `[1}`, `[`, `]`, `[[]`, `[]]`,
	`{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{a:1}`, `{"a":}`, `{"a":1 "b":2}`, `{"a" : [ {"b":{} } , 1 ] }`, `{1:2}`, `{"a":1]`, `{`, `}`, `{,}`,
	" \t\r\n1 \t\r\n", "\v1", "1\x00", "\xef\xbb\xbf1",
}

// valid is what Valid must say.
func valid(text []byte) bool { return json.Valid(text) && utf8.Valid(text) }

func TestValid(t *testing.T) {
	for _, text := range texts {
		assert.Equal(t, valid([]byte(text)), Valid([]byte(text), StandardDepth), "%q", text)
		// Wherever it lies in a word, and whatever follows it in memory.
		for pad := range 9 {
			padded := []byte(`["` + strings.Repeat("x", pad) + `",` + text + `]` + `"]`)
			padded = padded[:len(padded)-2]
			assert.Equal(t, valid(padded), Valid(padded, StandardDepth), "%q", padded)
		}
	}
}

// TestEveryByteOfAString, at every place of a word.
func TestEveryByteOfAString(t *testing.T) {
	for at := range 20 {
		for c := range 256 {
			text := []byte(`"` + strings.Repeat("x", 20) + `"`)
			text[1+at] = byte(c)
			require.Equal(t, valid(text), Valid(text, StandardDepth), "%q", text)
		}
	}
}

// TestCutAndSpoiled: texts that are nearly JSON.
func TestCutAndSpoiled(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) string { return drawValue(t, 4) })
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(value.Draw(t, "value"))
		require.True(t, Valid(text, StandardDepth), "%q", text)
		cut := text[:rapid.IntRange(0, len(text)).Draw(t, "cut")]
		require.Equal(t, valid(cut), Valid(cut, StandardDepth), "%q", cut)
		spoiled := append([]byte(nil), text...)
		spoiled[rapid.IntRange(0, len(text)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		require.Equal(t, valid(spoiled), Valid(spoiled, StandardDepth), "%q", spoiled)
	})
}

func drawValue(t *rapid.T, depth int) string {
	space := rapid.SampledFrom([]string{"", " ", "\r\n\t"})
	kinds := 4
	if depth == 0 {
		kinds = 2
	}
	var b strings.Builder
	b.WriteString(space.Draw(t, "space"))
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		b.WriteString(rapid.SampledFrom([]string{"0", "-12.5e+3", "true", "false", "null", "123456789012345678901234567890"}).Draw(t, "scalar"))
	case 1:
		text, _ := json.Marshal(rapid.String().Draw(t, "string"))
		b.Write(text)
	case 2:
		elements := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return drawValue(t, depth-1) }), 0, 4).Draw(t, "array")
		b.WriteString("[" + strings.Join(elements, ",") + space.Draw(t, "space") + "]")
	default:
		var members []string
		for i := range rapid.IntRange(0, 4).Draw(t, "members") {
			members = append(members, fmt.Sprintf("%s%q%s:%s", space.Draw(t, "space"), strings.Repeat("k", i), space.Draw(t, "space"), drawValue(t, depth-1)))
		}
		b.WriteString("{" + strings.Join(members, ",") + space.Draw(t, "space") + "}")
	}
	b.WriteString(space.Draw(t, "space"))
	return b.String()
}

func TestDepth(t *testing.T) {
	nested := func(open, inner, shut string, depth int) []byte {
		return []byte(strings.Repeat(open, depth) + inner + strings.Repeat(shut, depth))
	}
	for _, limit := range []int{0, 1, 63, 64, freeDepth, freeDepth + 1, 3 * freeDepth} {
		for _, depth := range []int{limit, limit + 1} {
			for _, text := range [][]byte{nested("[", "1", "]", depth), nested(`{"a":`, "1", "}", depth)} {
				s := New(text, limit)
				assert.Equal(t, depth <= limit, s.Value() && s.End())
				assert.Equal(t, depth > limit, s.TooDeep())
			}
		}
	}
	// What is open is known at every level.
	mixed := []byte(strings.Repeat(`[{"a":`, freeDepth) + "1" + strings.Repeat("}]", freeDepth))
	assert.True(t, Valid(mixed, 2*freeDepth))
	mixed[len(mixed)-2] = ']'
	assert.False(t, Valid(mixed, 2*freeDepth))
}

func TestValuesOneAfterTheOther(t *testing.T) {
	text := []byte(` [1 , "]" ,{"a":[ ]}]`)
	s := New(text, 2)
	s.Space()
	require.True(t, s.Take('['))
	var values []string
	for more := true; more; more = s.Take(',') {
		s.Space()
		start := s.Pos()
		require.True(t, s.Value())
		values = append(values, string(text[start:s.Pos()]))
		s.Space()
	}
	require.True(t, s.Take(']') && s.End())
	assert.Equal(t, []string{`1`, `"]"`, `{"a":[ ]}`}, values)
}

// FuzzValid compares with encoding/json.
func FuzzValid(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if want := valid(text); want != Valid(text, StandardDepth) {
			t.Fatalf("of %q it says %v", text, !want)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	for name, value := range map[string]string{
		"prose":  `{"text":"` + strings.Repeat("Some words and more. ", 4000) + `"}`,
		"events": "[" + strings.Repeat(`{"service":"orders","status":200,"path":"/v1/orders/1042","tags":["eu-west","web"],"ms":17.25},`, 1000) + "null]",
		"dense":  "[" + strings.Repeat(`[1,2,3],{"a":1},`, 5000) + "0]",
		"umlaut": `["` + strings.Repeat("äöüß", 10_000) + `"]`,
	} {
		b.Run(name, func(b *testing.B) {
			text := []byte(value)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if !Valid(text, StandardDepth) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
