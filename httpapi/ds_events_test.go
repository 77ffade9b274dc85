package httpapi

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// The control events of Durable Streams as text.
func controlEvent(offset int, rest string) string {
	return "event: control\ndata:{\"streamNextOffset\":\"" + token(offset) + "\"" + rest + "}\n\n"
}

const (
	ofCursor   = `,"streamCursor":"` + testCursor + `"`
	isUpToDate = ofCursor + `,"upToDate":true`
	isClosed   = `,"upToDate":true,"streamClosed":true`
)

// wholeEvents creates a closed stream of some appends and reads its events.
func wholeEvents(t *testing.T, contentType, query string, appends ...string) answer {
	t.Helper()
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", contentType)
	for _, body := range appends {
		s.must(http.MethodPost, "/v1/stream/a", body, "Content-Type", contentType)
	}
	s.must(http.MethodPost, "/v1/stream/a", "", wire.StreamClosed, "true")
	return s.do(http.MethodGet, "/v1/stream/a?live=sse&"+query, "")
}

func TestDurableEventsOfAClosedStream(t *testing.T) {
	for _, row := range []struct {
		name, typ, query string
		appends          []string
		events           string
	}{
		{"empty", typeText, "offset=-1", nil, controlEvent(0, isClosed)},
		{
			"one append is one pair", typeText, "offset=-1",
			[]string{"hello"},
			"event: data\ndata:hello\n\n" + controlEvent(1, isClosed),
		},
		{
			"several appends in one event", typeText, "offset=-1",
			[]string{"a", "b"},
			"event: data\ndata:ab\n\n" + controlEvent(2, isClosed),
		},
		{
			"from inside", typeText, "offset=" + token(1),
			[]string{"a", "b"},
			"event: data\ndata:b\n\n" + controlEvent(2, isClosed),
		},
		{"from the tail", typeText, "offset=" + token(2), []string{"a", "b"}, controlEvent(2, isClosed)},
		{"from now", typeText, "offset=now", []string{"a", "b"}, controlEvent(2, isClosed)},
		{
			"a leading space has one more", typeText, "offset=-1",
			[]string{" world"},
			"event: data\ndata:  world\n\n" + controlEvent(1, isClosed),
		},
		{
			"lines", typeText, "offset=-1",
			[]string{"a\nb\r\nc\rd\n e"},
			"event: data\ndata:a\ndata:b\ndata:c\ndata:d\ndata:  e\n\n" + controlEvent(1, isClosed),
		},
		{
			"no event can be forged", typeText, "offset=-1",
			[]string{"x\n\nevent: control\ndata: y"},
			"event: data\ndata:x\ndata:\ndata:event: control\ndata:data: y\n\n" + controlEvent(1, isClosed),
		},
		{
			"other line separators stay", typeText, "offset=-1",
			[]string{"a\u2028b\u2029c\u0085d"},
			"event: data\ndata:a\u2028b\u2029c\u0085d\n\n" + controlEvent(1, isClosed),
		},
		{
			"a character in two appends", typeText, "offset=-1",
			[]string{"caf\xc3", "\xa9!"},
			"event: data\ndata:café!\n\n" + controlEvent(2, isClosed),
		},
		{
			"bytes that are never valid", typeText, "offset=-1",
			[]string{"a\xffb\xc3"},
			"event: data\ndata:a\uFFFDb\uFFFD\n\n" + controlEvent(1, isClosed),
		},
		{
			"JSON", typeJSON, "offset=-1",
			[]string{`[1,2]`, `{"a": "b"}`},
			"event: data\ndata:[1,2,{\"a\": \"b\"}]\n\n" + controlEvent(3, isClosed),
		},
		{
			"JSON on several lines", typeJSON, "offset=-1",
			[]string{"{\n \"a\": 1\r\n}"},
			"event: data\ndata:[{\ndata:  \"a\": 1\ndata:}]\n\n" + controlEvent(1, isClosed),
		},
		{
			"bytes", "application/octet-stream", "offset=-1",
			[]string{"\x00\xff", "\n\r~"},
			"event: data\ndata:AP8KDX4=\n\n" + controlEvent(2, isClosed),
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := wholeEvents(t, row.typ, row.query, row.appends...)
			assert.Equal(t, 200, got.status)
			assert.Equal(t, row.events, got.body)
		})
	}
}

func TestDurableEventHeaders(t *testing.T) {
	for _, row := range []struct{ typ, encoding string }{
		{"text/plain", ""},
		{"text/html; charset=utf-8", ""},
		{"application/json", ""},
		{"application/octet-stream", "base64"},
		{"application/x+json", "base64"},
		{"image/png", "base64"},
	} {
		got := wholeEvents(t, row.typ, "offset=-1")
		assert.Equal(t, "text/event-stream", got.header.Get("Content-Type"))
		assert.Equal(t, "no-cache", got.header.Get("Cache-Control"))
		assert.Equal(t, "no", got.header.Get("X-Accel-Buffering"))
		assert.Equal(t, row.encoding, got.header.Get(wire.StreamSSEDataEncoding), row.typ)
		assert.Empty(t, got.header.Get("Content-Length"))
	}
}

func TestLargeTextAndBytesSurviveEvents(t *testing.T) {
	t.Run("text in many events", func(t *testing.T) {
		// Every append but the last ends inside a character.
		whole := strings.Repeat("€", eventBytes)
		var appends []string
		for rest := whole; rest != ""; {
			cut := min(len(rest), 100_000)
			appends, rest = append(appends, rest[:cut]), rest[cut:]
		}
		got := wholeEvents(t, typeText, "offset=-1", appends...)
		assert.Equal(t, whole, strings.Join(dataOf(t, got.body), ""))
	})
	t.Run("one append", func(t *testing.T) {
		whole := strings.Repeat("0123456789", eventBytes/5)
		got := wholeEvents(t, "application/octet-stream", "offset=-1", whole)
		events := dataOf(t, got.body)
		require.Len(t, events, 1)
		decoded, err := base64.StdEncoding.DecodeString(events[0])
		require.NoError(t, err)
		assert.Equal(t, whole, string(decoded))
	})
}

// dataOf is the data of the data events in a text. It checks that each is
// followed by a control event.
func dataOf(t *testing.T, text string) []string {
	t.Helper()
	reader := wire.NewEventReader(strings.NewReader(text), 16<<20)
	var data []string
	for paired := true; ; {
		e, err := reader.Next()
		if errors.Is(err, io.EOF) {
			require.True(t, paired, "a data event without its control event")
			return data
		}
		require.NoError(t, err)
		if paired = e.Name == wire.EventControl; !paired {
			data = append(data, string(e.Data))
		}
	}
}

// eventReader reads a live event stream.
type eventReader struct {
	t    *testing.T
	body io.Reader
}

func (s *service) events(query string) *eventReader {
	s.t.Helper()
	response := s.open(context.Background(), "/v1/stream/a?live=sse&"+query)
	require.Equal(s.t, 200, response.status)
	return &eventReader{t: s.t, body: response.Body}
}

// expect reads exactly the text.
func (r *eventReader) expect(text string) {
	r.t.Helper()
	buffer := make([]byte, len(text))
	n, err := io.ReadFull(r.body, buffer)
	require.Equal(r.t, text, string(buffer[:n]))
	require.NoError(r.t, err)
}

// expectEnd reads the end of the response.
func (r *eventReader) expectEnd() {
	r.t.Helper()
	rest, err := io.ReadAll(r.body)
	require.NoError(r.t, err)
	require.Empty(r.t, string(rest))
}

func TestDurableEventsFollowAStream(t *testing.T) {
	for _, offset := range []string{"-1", "now", token(0)} {
		s := newService(t)
		s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
		events := s.events("offset=" + offset)
		events.expect(controlEvent(0, isUpToDate))
		s.must(http.MethodPost, "/v1/stream/a", "one", "Content-Type", typeText)
		events.expect("event: data\ndata:one\n\n" + controlEvent(1, isUpToDate))
		s.must(http.MethodPost, "/v1/stream/a", "last", "Content-Type", typeText, wire.StreamClosed, "true")
		events.expect("event: data\ndata:last\n\n" + controlEvent(2, isClosed))
		events.expectEnd()
	}
}

func TestACharacterIsHeldBackUntilItIsWhole(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	post := func(body string, headers ...string) {
		s.must(http.MethodPost, "/v1/stream/a", body, append(headers, "Content-Type", typeText)...)
	}
	post("a")
	post("b\xe2")
	events := s.events("offset=-1")
	// The offset stays before the record that is cut, and nobody is up to date.
	events.expect("event: data\ndata:a\n\n" + controlEvent(1, ofCursor))
	post("\x82")
	post("\xacc")
	events.expect("event: data\ndata:b€c\n\n" + controlEvent(4, isUpToDate))
	post("d\xf0\x9f")
	s.awaitWaiting(1)
	post("", wire.StreamClosed, "true")
	events.expect("event: data\ndata:d\uFFFD\n\n" + controlEvent(5, isClosed))
	events.expectEnd()
}

func TestAReaderWhoComesWhileACharacterIsHeldBack(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "\xc3", "Content-Type", typeText)
	events := s.events("offset=-1")
	events.expect(controlEvent(0, ofCursor))
	s.must(http.MethodPost, "/v1/stream/a", "\xa9", "Content-Type", typeText)
	events.expect("event: data\ndata:é\n\n" + controlEvent(2, isUpToDate))
}

func TestDurableEventsEndWithTheStream(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "old", "Content-Type", typeText)
	events := s.events("offset=now")
	events.expect(controlEvent(1, isUpToDate))
	s.awaitWaiting(1)
	s.must(http.MethodDelete, "/v1/stream/a", "")
	s.must(http.MethodPut, "/v1/stream/a", "new", "Content-Type", typeText)
	events.expectEnd()
	assert.Empty(t, s.log.String())
}

// TestHoldBack compares with the obvious: decode what was sent so far and see
// whether anything was replaced that the whole text has not.
func TestHoldBack(t *testing.T) {
	alphabet := []string{"a", "é", "€", "🙂", "\xff", "\xe2\x82"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var whole strings.Builder
		for range 1 + random.IntN(8) {
			whole.WriteString(alphabet[random.IntN(len(alphabet))])
		}
		checkHoldBack(t, cutAtRandom(random, whole.String()))
	}
}

func cutAtRandom(random *rand.Rand, whole string) [][]byte {
	var records [][]byte
	for whole != "" {
		cut := 1 + random.IntN(min(4, len(whole)))
		records, whole = append(records, []byte(whole[:cut])), whole[cut:]
	}
	return records
}

// checkHoldBack sends records to the text format the way an event stream does
// and checks what comes out.
func checkHoldBack(t *testing.T, records [][]byte) {
	t.Helper()
	var whole, sent []byte
	first := 0
	for i, record := range records {
		whole = append(whole, record...)
		chunk := textChunk(records[first:i+1], stream.Offset(first), i == len(records)-1)
		data, next := durableText{}.appendData(nil, chunk)
		require.GreaterOrEqual(t, next, chunk.First)
		require.LessOrEqual(t, next, chunk.Next)
		if next == chunk.First {
			require.Empty(t, data)
			continue
		}
		first = int(next)
		sent = append(sent, strings.Join(dataOf(t, string(data)+controlEvent(first, "")), "")...)
	}
	require.Equal(t, len(records), first, "a closed stream holds nothing back")
	require.True(t, utf8.Valid(sent))
	if utf8.Valid(whole) {
		require.Equal(t, string(whole), string(sent))
	}
}

// textChunk is a chunk of records in two runs.
func textChunk(records [][]byte, first stream.Offset, closed bool) *stream.Chunk {
	c := &stream.Chunk{First: first, Next: first + stream.Offset(len(records)), UpToDate: true}
	c.Config.ContentType = typeText
	c.Tail, c.Closed = c.Next, closed
	half := len(records) / 2
	for _, part := range [][][]byte{records[:half], records[half:]} {
		run := stream.Run{First: first}
		for _, body := range part {
			run.Bodies = append(run.Bodies, body...)
			run.Ends = append(run.Ends, uint32(len(run.Bodies)))
			first++
		}
		if run.Len() > 0 {
			c.Runs = append(c.Runs, run)
		}
	}
	return c
}

func TestHoldingBackGivesUp(t *testing.T) {
	// Every record ends inside a character, for ever.
	records := [][]byte{[]byte("\xe2")}
	for range 2 * maxHeldRecords {
		records = append(records, []byte("\x82\xac\xe2"))
	}
	data, next := durableText{}.appendData(nil, textChunk(records, 0, false))
	assert.EqualValues(t, len(records), next)
	assert.Contains(t, string(data), "€\uFFFD\n")
}

func FuzzHoldBack(f *testing.F) {
	f.Add([]byte("a€b"), []byte{1, 1, 1})
	f.Add([]byte("\xf0\x9f\x99\x82\xc3"), []byte{2, 1})
	f.Fuzz(func(t *testing.T, whole, cuts []byte) {
		if len(whole) > 4096 {
			return
		}
		// The text format sends text as lines: line breaks are not at stake here.
		whole = []byte(strings.NewReplacer("\r", "r", "\n", "n").Replace(string(whole)))
		var records [][]byte
		for i := 0; len(whole) > 0; i++ {
			cut := len(whole)
			if i < len(cuts) {
				cut = min(cut, 1+int(cuts[i])%8)
			}
			records, whole = append(records, whole[:cut]), whole[cut:]
		}
		if len(records) == 0 || len(records) >= maxHeldRecords {
			return
		}
		checkHoldBack(t, records)
	})
}

func TestKeepaliveIsACommentLine(t *testing.T) {
	s := newService(t, func(c *Config) { c.Keepalive = 5 * time.Millisecond })
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	events := s.events("offset=-1")
	events.expect(controlEvent(0, isUpToDate) + ": keep-alive\n\n: keep-alive\n\n")
}

func TestAnEventStreamEndsAfterItsTime(t *testing.T) {
	s := newService(t, func(c *Config) { c.SSEMaxDuration = 20 * time.Millisecond })
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	events := s.events("offset=-1")
	events.expect(controlEvent(0, isUpToDate))
	events.expectEnd()
}
