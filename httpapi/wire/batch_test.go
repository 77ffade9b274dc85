package wire_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// A batch of one record with a header, one that is not UTF-8 and an empty one,
// in every format. These bytes may never change.
var goldenRecords = []stream.Record{
	{Headers: []stream.Header{{Name: "k", Value: "v\n"}, {Name: "k", Value: ""}}, Body: []byte("a\"\\\x01\u2028é")},
	{Body: []byte{0xff, 0xfe}},
	{Body: []byte{}},
}

const (
	goldenBinaryAppend = "\x01\x00\x00\x00\x03" +
		"\x00\x00\x00\x02\x00\x00\x00\x01k\x00\x00\x00\x02v\n\x00\x00\x00\x01k\x00\x00\x00\x00\x00\x00\x00\x09a\"\\\x01\xe2\x80\xa8\xc3\xa9" +
		"\x00\x00\x00\x00\x00\x00\x00\x02\xff\xfe" +
		"\x00\x00\x00\x00\x00\x00\x00\x00"
	goldenJSONAppend = `{"records":[{"headers":{"k":"v\n","k":""},"body":"a\"\\\u0001` + "\u2028" + `é"},{"body_b64":"//4="},{"body":""}]}`
	goldenJSONRead   = `[{"seq":7,"timestamp":1700000000000,"headers":{"k":"v\n","k":""},"body":"a\"\\\u0001` + "\u2028" + `é"},` +
		`{"seq":8,"timestamp":1700000000000,"body_b64":"//4="},{"seq":9,"timestamp":-5,"body":""}]`
	goldenBinaryRead = "\x01\x00\x00\x00\x03" +
		"\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x01\x8b\xcf\xe5\x68\x00" +
		"\x00\x00\x00\x02\x00\x00\x00\x01k\x00\x00\x00\x02v\n\x00\x00\x00\x01k\x00\x00\x00\x00\x00\x00\x00\x09a\"\\\x01\xe2\x80\xa8\xc3\xa9" +
		"\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x01\x8b\xcf\xe5\x68\x00\x00\x00\x00\x00\x00\x00\x00\x02\xff\xfe" +
		"\x00\x00\x00\x00\x00\x00\x00\x09\xff\xff\xff\xff\xff\xff\xff\xfb\x00\x00\x00\x00\x00\x00\x00\x00"
)

func goldenRuns() []stream.Run {
	first := runOf(7, 1_700_000_000_000, false, goldenRecords[:2])
	return []stream.Run{first, runOf(9, -5, false, goldenRecords[2:])}
}

func goldenReadRecords() []wire.ReadRecord {
	return []wire.ReadRecord{
		{Seq: 7, Time: 1_700_000_000_000, Record: goldenRecords[0]},
		{Seq: 8, Time: 1_700_000_000_000, Record: goldenRecords[1]},
		{Seq: 9, Time: -5, Record: goldenRecords[2]},
	}
}

func TestGoldenAppendBatches(t *testing.T) {
	assert.Equal(t, goldenBinaryAppend, string(wire.EncodeBinaryAppend(nil, goldenRecords)))
	assert.Equal(t, goldenJSONAppend, string(wire.EncodeJSONAppend(nil, goldenRecords)))

	got, err := wire.DecodeBinaryAppend([]byte(goldenBinaryAppend), nil)
	require.NoError(t, err)
	assertSame(t, goldenRecords, got)
	got, err = wire.DecodeJSONAppend([]byte(goldenJSONAppend), nil)
	require.NoError(t, err)
	assertSame(t, goldenRecords, got)
}

func TestGoldenReadBatches(t *testing.T) {
	assert.Equal(t, goldenBinaryRead, string(wire.EncodeBinaryRead(nil, goldenRuns())))
	assert.Equal(t, goldenJSONRead, string(wire.EncodeJSONRead(nil, goldenRuns())))

	got, err := wire.DecodeBinaryRead([]byte(goldenBinaryRead))
	require.NoError(t, err)
	assertSame(t, goldenReadRecords(), got)
	got, err = wire.DecodeJSONRead([]byte(goldenJSONRead))
	require.NoError(t, err)
	assertSame(t, goldenReadRecords(), got)
}

func TestEncodersAppend(t *testing.T) {
	for name, encode := range map[string]func(dst []byte) []byte{
		"binary append": func(dst []byte) []byte { return wire.EncodeBinaryAppend(dst, goldenRecords) },
		"json append":   func(dst []byte) []byte { return wire.EncodeJSONAppend(dst, goldenRecords) },
		"binary read":   func(dst []byte) []byte { return wire.EncodeBinaryRead(dst, goldenRuns()) },
		"json read":     func(dst []byte) []byte { return wire.EncodeJSONRead(dst, goldenRuns()) },
	} {
		assert.Equal(t, "before"+string(encode(nil)), string(encode([]byte("before"))), name)
	}
}

func TestAReadMayBeEmpty(t *testing.T) {
	assert.Equal(t, "[]", string(wire.EncodeJSONRead(nil, nil)))
	assert.Equal(t, "\x01\x00\x00\x00\x00", string(wire.EncodeBinaryRead(nil, nil)))

	got, err := wire.DecodeJSONRead([]byte(" [ ] "))
	require.NoError(t, err)
	assert.Empty(t, got)
	got, err = wire.DecodeBinaryRead([]byte("\x01\x00\x00\x00\x00"))
	require.NoError(t, err)
	assert.Empty(t, got)
}

func TestRunsOfAJSONStreamLoseTheirCommas(t *testing.T) {
	run := runOf(0, 1, true, []stream.Record{{Body: []byte(`{"a":1}`)}, {Body: []byte(`2`)}, {Body: []byte(`"x"`)}})
	require.Equal(t, `{"a":1},2,"x"`, string(run.Bodies))
	assert.Equal(t, `[{"seq":1,"timestamp":1,"body":"2"},{"seq":2,"timestamp":1,"body":"\"x\""}]`,
		string(wire.EncodeJSONRead(nil, []stream.Run{run.Slice(1, 3)})))
}

func TestJSONBatchesThatAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []stream.Record
	}{
		"white space everywhere": {
			" { \"records\" : [ { \"headers\" : { \"a\" : \"b\" , \"c\" : \"d\" } , \"body\" : \"x\" } , {\"body_b64\":\"\"} ] }\n",
			[]stream.Record{{Headers: []stream.Header{{Name: "a", Value: "b"}, {Name: "c", Value: "d"}}, Body: []byte("x")}, {}},
		},
		"unknown keys of every kind": {
			`{"v":[[1,{"records":2}],"\"}"],"records":[{"key":"k","n":-1.5e3,"x":{"body":[]},"body":"a","t":true}],"z":null}`,
			[]stream.Record{{Body: []byte("a")}},
		},
		"null is absent": {
			`{"records":[{"headers":null,"body":"a","body_b64":null}]}`,
			[]stream.Record{{Body: []byte("a")}},
		},
		"every escape": {
			`{"records":[{"body":"\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00 end"}]}`,
			[]stream.Record{{Body: []byte("\"\\/\b\f\n\r\tAé€😀 end")}},
		},
		"an escaped key": {
			`{"\u0072ecords":[{"b\u006fdy":"a"}]}`,
			[]stream.Record{{Body: []byte("a")}},
		},
	} {
		got, err := wire.DecodeJSONAppend([]byte(c.text), nil)
		require.NoError(t, err, name)
		assert.Empty(t, cmp.Diff(c.want, got, cmpopts.EquateEmpty()), name)
	}
}

func TestJSONBatchesThatAreRefused(t *testing.T) {
	for text, message := range map[string]string{
		``:                                    "not valid at byte 0",
		`{"records":[{"body":"a"}]} x`:        "not valid at byte",
		`{"records":[{"body":"a"}`:            "not valid at byte",
		"{\"records\":[{\"body\":\"\xff\"}]}": "not UTF-8",
		`[]`:                                  "the batch is not an object",
		`null`:                                "the batch is not an object",
		`{}`:                                  `no "records"`,
		`{"records":null}`:                    `no "records"`,
		`{"Records":[{"body":"a"}]}`:          `no "records"`,
		`{"records":{}}`:                      "records is not an array",
		`{"records":[]}`:                      "no records",
		`{"records":[1]}`:                     "a record is not an object",
		`{"records":[null]}`:                  "a record is not an object",
		`{"records":[{}]}`:                    "exactly one of",
		`{"records":[{"body":null}]}`:         "exactly one of",
		`{"records":[{"body":"a","body_b64":""}]}`:             "exactly one of",
		`{"records":[{"body":1}]}`:                             "body is not a string",
		`{"records":[{"body_b64":"a"}]}`:                       "base64",
		`{"records":[{"body_b64":"YQ"}]}`:                      "base64",
		`{"records":[{"body_b64":"YR=="}]}`:                    "base64",
		`{"records":[{"body_b64":"YQ-_"}]}`:                    "base64",
		`{"records":[{"body_b64":"YWFh\nYWFh"}]}`:              "line break",
		`{"records":[{"body":"a","headers":[]}]}`:              "headers is not an object",
		`{"records":[{"body":"a","headers":{"k":1}}]}`:         "a header value is not a string",
		`{"records":[{"body":"a","headers":{"k":null}}]}`:      "a header value is not a string",
		`{"records":[{"body":"a","body":"b"}]}`:                `"body" is there twice`,
		`{"records":[{"body":"a","headers":{},"headers":{}}]}`: `"headers" is there twice`,
		`{"records":[{"body":"a"}],"records":[{"body":"b"}]}`:  `"records" is there twice`,
		`{"records":[{"body":"\ud83d"}]}`:                      "half of a surrogate pair",
		`{"records":[{"body":"\ude00\ud83d"}]}`:                "half of a surrogate pair",
		`{"records":[{"body":"a","headers":{"\ud800":"v"}}]}`:  "half of a surrogate pair",
	} {
		_, err := wire.DecodeJSONAppend([]byte(text), nil)
		assert.Equal(t, stream.CodeBadRequest, codeOf(t, err), text)
		assert.ErrorContains(t, err, message, text)
	}
}

func TestJSONReadsThatAreRefused(t *testing.T) {
	for _, text := range []string{
		`{}`, `[{"body":"a"}]`, `[{"seq":1,"body":"a"}]`, `[{"seq":1,"timestamp":2}]`, `[{"seq":-1,"timestamp":2,"body":""}]`,
		`[{"seq":1.0,"timestamp":2,"body":""}]`, `[{"seq":"1","timestamp":2,"body":""}]`, `[{"seq":99999999999999999999,"timestamp":2,"body":""}]`,
		`[{"seq":1,"timestamp":9e9,"body":""}]`, `[{"seq":1,"seq":1,"timestamp":2,"body":""}]`, `[{"seq":null,"timestamp":2,"body":""}]`,
	} {
		_, err := wire.DecodeJSONRead([]byte(text))
		assert.Error(t, err, text)
	}
}

func TestBinaryBatchesThatAreRefused(t *testing.T) {
	for _, c := range []struct{ name, data, message string }{
		{"nothing", "", "the version takes 1 bytes where 0 remain"},
		{"another version", "\x02\x00\x00\x00\x00", "version 2"},
		{"no records", "\x01\x00\x00\x00\x00", "no records"},
		{"cut count", "\x01\x00\x00", "the number of records"},
		{"more records than bytes", "\x01\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00", "4294967295 records do not fit"},
		{"more headers than bytes", "\x01\x00\x00\x00\x01\xff\xff\xff\xff\x00\x00\x00\x00", "4294967295 headers do not fit"},
		{"long name", "\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x00", "a header name takes 9 bytes"},
		{"long body", "\x01\x00\x00\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff", "a body takes 4294967295 bytes"},
		{"name not UTF-8", "\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\xff\x00\x00\x00\x00\x00\x00\x00\x00", "a header name is not UTF-8"},
		{"value not UTF-8", "\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\xff\x00\x00\x00\x00", "a header value is not UTF-8"},
		{"trailing byte", "\x01\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00!", "1 bytes follow the last record"},
	} {
		_, err := wire.DecodeBinaryAppend([]byte(c.data), nil)
		assert.Equal(t, stream.CodeBadRequest, codeOf(t, err), c.name)
		assert.ErrorContains(t, err, c.message, c.name)
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	for cut := range len(goldenBinaryAppend) {
		_, err := wire.DecodeBinaryAppend([]byte(goldenBinaryAppend[:cut]), nil)
		assert.Error(t, err, "cut at %d", cut)
	}
	for cut := range len(goldenBinaryRead) {
		_, err := wire.DecodeBinaryRead([]byte(goldenBinaryRead[:cut]))
		assert.Error(t, err, "cut at %d", cut)
	}
	for cut := range len(goldenJSONAppend) {
		_, err := wire.DecodeJSONAppend([]byte(goldenJSONAppend[:cut]), nil)
		assert.Error(t, err, "cut at %d", cut)
	}
	for cut := range len(goldenJSONRead) {
		_, err := wire.DecodeJSONRead([]byte(goldenJSONRead[:cut]))
		assert.Error(t, err, "cut at %d", cut)
	}
}

func TestBatchesSurviveTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := rapid.SliceOfN(anyRecord(), 1, 20).Draw(t, "records")
		got, err := wire.DecodeBinaryAppend(wire.EncodeBinaryAppend(nil, records), nil)
		require.NoError(t, err)
		assertSame(t, records, got)
		text := wire.EncodeJSONAppend(nil, records)
		require.True(t, json.Valid(text), "%s", text)
		got, err = wire.DecodeJSONAppend(text, nil)
		require.NoError(t, err)
		assertSame(t, records, got)
	})
}

func TestReadsSurviveTheRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var runs []stream.Run
		var want []wire.ReadRecord
		next := stream.Offset(rapid.Uint64Range(0, 1<<53).Draw(t, "first"))
		for range rapid.IntRange(0, 4).Draw(t, "runs") {
			at := stream.Time(rapid.Int64().Draw(t, "time"))
			records := rapid.SliceOfN(anyRecord(), 1, 6).Draw(t, "records")
			runs = append(runs, runOf(next, at, rapid.Bool().Draw(t, "json"), records))
			for _, r := range records {
				want = append(want, wire.ReadRecord{Seq: next, Time: at, Record: r})
				next++
			}
		}
		got, err := wire.DecodeBinaryRead(wire.EncodeBinaryRead(nil, runs))
		require.NoError(t, err)
		assertSame(t, want, got)
		text := wire.EncodeJSONRead(nil, runs)
		require.NotContains(t, string(text), "\n", "the read goes on one line of an event")
		got, err = wire.DecodeJSONRead(text)
		require.NoError(t, err)
		assertSame(t, want, got)
	})
}

// The standard library's reading of our JSON is the independent judge of our
// escaping.
func TestTextBodiesReadTheSameByEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.String().Draw(t, "body")
		text := wire.EncodeJSONAppend(nil, []stream.Record{{Body: []byte(body)}})
		var batch struct {
			Records []struct{ Body string }
		}
		require.NoError(t, json.Unmarshal(text, &batch))
		require.Equal(t, strings.ToValidUTF8(body, "\ufffd"), batch.Records[0].Body)
	})
}

func anyRecord() *rapid.Generator[stream.Record] {
	return rapid.Custom(func(t *rapid.T) stream.Record {
		header := rapid.Custom(func(t *rapid.T) stream.Header {
			return stream.Header{Name: validText(t, "name"), Value: validText(t, "value")}
		})
		body := rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 40), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }))
		return stream.Record{Headers: rapid.SliceOfN(header, 0, 3).Draw(t, "headers"), Body: body.Draw(t, "body")}
	})
}

func validText(t *rapid.T, label string) string {
	return rapid.String().Filter(utf8.ValidString).Draw(t, label)
}

// runOf lays records out as a run lies in a segment.
func runOf(first stream.Offset, at stream.Time, isJSON bool, records []stream.Record) stream.Run {
	const base = 100
	run := stream.Run{First: first, Time: at, JSON: isJSON, Base: base}
	for i, r := range records {
		if isJSON && i > 0 {
			run.Bodies = append(run.Bodies, ',')
		}
		run.Bodies = append(run.Bodies, r.Body...)
		run.Ends = append(run.Ends, base+uint32(len(run.Bodies)))
		run.Headers = append(run.Headers, r.Headers)
	}
	return run
}

type reporter interface {
	Helper()
	Errorf(format string, args ...any)
}

// assertSame compares records, taking nil and empty slices for the same.
func assertSame(t reporter, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("records differ (-want +got):\n%s", diff)
	}
}
