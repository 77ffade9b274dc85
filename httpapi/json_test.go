package httpapi

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

func TestSplitJSON(t *testing.T) {
	for _, row := range []struct {
		body     string
		messages []string
	}{
		{`{"a":[1,2],"b":"],}"}`, []string{`{"a":[1,2],"b":"],}"}`}},
		{`"[1,2]"`, []string{`"[1,2]"`}},
		{"\t true \r\n", []string{"true"}},
		{`[]`, nil},
		{"[ \n]", nil},
		{`[[]]`, []string{`[]`}},
		{`[1,2]`, []string{`1`, `2`}},
		{` [ 1 , {"k" : [2, 3]} , "a,b]\"\\" ] `, []string{`1`, `{"k" : [2, 3]}`, `"a,b]\"\\"`}},
		{`["\\",1]`, []string{`"\\"`, `1`}},
		{`["é\ud800"]`, []string{`"é\ud800"`}},
	} {
		records, err := splitJSON([]byte(row.body), nil)
		require.NoError(t, err, row.body)
		assert.Equal(t, row.messages, bodiesOf(records), row.body)
	}
}

func bodiesOf(records []stream.Record) []string {
	var bodies []string
	for _, record := range records {
		bodies = append(bodies, string(record.Body))
	}
	return bodies
}

func TestSplitJSONIsBounded(t *testing.T) {
	nested := func(depth int) []byte {
		return []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
	}
	// The outer array is taken apart: a message may be as deep as the limit.
	_, err := splitJSON(nested(maxJSONDepth+1), nil)
	assert.NoError(t, err)
	for _, depth := range []int{maxJSONDepth + 2, 1_000_000} {
		_, err = splitJSON(nested(depth), nil)
		assert.Equal(t, stream.CodeBadRequest, stream.CodeOf(err))
	}
	_, err = splitJSON([]byte(strings.Repeat(`{"a":`, maxJSONDepth+1)+"1"+strings.Repeat("}", maxJSONDepth+1)), nil)
	assert.ErrorContains(t, err, "deeper")

	array := func(elements int) []byte {
		return []byte("[" + strings.Repeat("1,", elements-1) + "1]")
	}
	records, err := splitJSON(array(stream.MaxRecords), nil)
	require.NoError(t, err)
	assert.Len(t, records, stream.MaxRecords)
	_, err = splitJSON(array(stream.MaxRecords+1), nil)
	assert.Equal(t, stream.CodeTooLarge, stream.CodeOf(err))
}

func TestSplitJSONSaysWhatIsWrong(t *testing.T) {
	for body, message := range map[string]string{
		`{"a":}`:   "invalid character '}'",
		`[1,`:      "unexpected end",
		"\"\xff\"": "not valid UTF-8",
	} {
		_, err := splitJSON([]byte(body), nil)
		assert.Equal(t, stream.CodeBadRequest, stream.CodeOf(err))
		assert.ErrorContains(t, err, message)
	}
}

// space is what JSON calls insignificant white space.
const space = " \t\r\n"

// FuzzSplitJSON compares with encoding/json: the same bodies are refused, and
// the messages, joined again, mean the same.
func FuzzSplitJSON(f *testing.F) {
	for _, seed := range []string{`[1,"a",{"b":[null,true]}]`, ` [ ] `, `{}`, `"\\\""`, `[[[1.10]]]`, `[1,]`, "\xff", `-0e1`, `[1e700]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		records, err := splitJSON(body, nil)
		if err != nil {
			if stream.CodeOf(err) != stream.CodeBadRequest {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		whole, err := decodeJSON(body)
		if err != nil {
			t.Fatalf("took what is not JSON: %v", err)
		}
		array := bytes.TrimLeft(body, space)[0] == '['
		for _, record := range records {
			if !json.Valid(record.Body) || len(bytes.Trim(record.Body, space)) != len(record.Body) {
				t.Fatalf("a message %q of %q", record.Body, body)
			}
		}
		joined := []byte(strings.Join(bodiesOf(records), ","))
		if array {
			joined = append(append([]byte{'['}, joined...), ']')
		}
		again, err := decodeJSON(joined)
		if err != nil {
			t.Fatalf("%q became %q: %v", body, joined, err)
		}
		assert.Equal(t, whole, again)
	})
}

// decodeJSON keeps numbers as they are written: 1e700 is JSON, though no float64.
func decodeJSON(text []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

func BenchmarkSplitJSON(b *testing.B) {
	for name, message := range map[string]string{
		"small": `{"id":12345,"name":"a name","tags":["x","y"]}`,
		"1KiB":  `{"id":12345,"tags":["x","y"],"text":"` + strings.Repeat("Some words and more. ", 46) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			const messages = 100
			body := []byte("[" + strings.Repeat(message+",", messages-1) + message + "]")
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := splitJSON(body, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(testing.AllocsPerRun(10, func() { _, _ = splitJSON(body, nil) }))/messages, "allocs/record")
		})
	}
}
