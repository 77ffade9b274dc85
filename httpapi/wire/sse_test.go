package wire_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/httpapi/wire"
)

func event(name, id, data string) []byte {
	return wire.EndEvent(wire.AppendEventData(wire.BeginEvent(nil, name, id), []byte(data)))
}

func TestGoldenEvents(t *testing.T) {
	assert.Equal(t, "event: data\nid: 7\ndata:[1]\n\n", string(event("data", "7", "[1]")))
	assert.Equal(t, "event: control\ndata:{}\n\n", string(event("control", "", "{}")))
	assert.Equal(t, "event: data\ndata:a\ndata:  b\ndata:\ndata:c\ndata:\n\n", string(event("data", "", "a\n b\r\n\rc\n")))
	assert.Equal(t, "event: data\ndata:\u2028\u0085\n\n", string(event("data", "", "\u2028\u0085")))
	assert.Equal(t, ": alive\n\n", string(wire.AppendComment(nil, "alive")))
}

// A stream that uses every freedom of the format, and what it means.
const freeStream = "\xef\xbb\xbf: comment\n\nevent: data\nid: 1\ndata: a\ndata:b\r\n\r\nid\rdata\r\rretry: 10\nunknown: x\ndata:  c\nid: 3\n\n" +
	"event: dropped\n\ndata: \nid: with\x00nul\n\ndata: cut off"

var freeEvents = []wire.Event{
	{Name: "data", ID: "1", Data: []byte("a\nb")},
	{Name: "message", ID: "", Data: []byte("")},
	{Name: "message", ID: "3", Data: []byte(" c")},
	{Name: "message", ID: "3", Data: []byte("")},
}

func TestEventReaderReadsWhatTheStandardAllows(t *testing.T) {
	for name, source := range map[string]func(io.Reader) io.Reader{
		"whole":           func(r io.Reader) io.Reader { return r },
		"byte by byte":    iotest.OneByteReader,
		"halves":          iotest.HalfReader,
		"data with error": iotest.DataErrReader,
	} {
		got, err := readEvents(wire.NewEventReader(source(strings.NewReader(freeStream)), 1<<10))
		assert.ErrorIs(t, err, io.EOF, name)
		assert.Equal(t, freeEvents, got, name)
	}
}

func TestEventReaderEndsALineAtCRWithoutWaiting(t *testing.T) {
	pipe, feed := io.Pipe()
	defer func() { require.NoError(t, feed.Close()) }()
	reader := wire.NewEventReader(pipe, 1<<10)
	go func() { _, _ = feed.Write([]byte("data: a\r\r")) }()
	got, err := reader.Next()
	require.NoError(t, err)
	assert.Equal(t, "a", string(got.Data))
	go func() { _, _ = feed.Write([]byte("\ndata: b\r\n\r\n")) }()
	got, err = reader.Next()
	require.NoError(t, err)
	assert.Equal(t, "b", string(got.Data))
}

func TestEventReaderRefusesLargeEvents(t *testing.T) {
	for name, text := range map[string]string{
		"one line":        "data:" + strings.Repeat("x", 100) + "\n\n",
		"a line unending": strings.Repeat("x", 200<<10),
		"many lines":      strings.Repeat("data:x\n", 20) + "\n",
	} {
		reader := wire.NewEventReader(strings.NewReader(text), 100)
		_, err := reader.Next()
		assert.ErrorIs(t, err, wire.ErrEventTooLarge, name)
		_, err = reader.Next()
		assert.ErrorIs(t, err, wire.ErrEventTooLarge, name)
	}
	many := strings.Repeat("data:x\n\n", 1000)
	got, err := readEvents(wire.NewEventReader(strings.NewReader(many), 10))
	assert.ErrorIs(t, err, io.EOF)
	assert.Len(t, got, 1000)
}

func TestEventReaderPassesOnTheSourcesError(t *testing.T) {
	broken := errors.New("connection reset")
	reader := wire.NewEventReader(io.MultiReader(strings.NewReader("data:a\n\ndata:b"), iotest.ErrReader(broken)), 100)
	_, err := reader.Next()
	require.NoError(t, err)
	_, err = reader.Next()
	assert.ErrorIs(t, err, broken)
}

func TestEventsSurviveTheRoundTrip(t *testing.T) {
	normal := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	rapid.Check(t, func(t *rapid.T) {
		var text []byte
		var want []wire.Event
		for range rapid.IntRange(0, 5).Draw(t, "events") {
			data := rapid.StringMatching("[ a:\r\n\u2028]{0,12}").Draw(t, "data")
			id := rapid.StringMatching("[0-9]{1,3}").Draw(t, "id")
			text = append(text, event("data", id, data)...)
			text = wire.AppendComment(text, "alive")
			want = append(want, wire.Event{Name: "data", ID: id, Data: []byte(normal.Replace(data))})
		}
		got, err := readEvents(wire.NewEventReader(strings.NewReader(string(text)), 1<<10))
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, want, got)
	})
}

func readEvents(r *wire.EventReader) ([]wire.Event, error) {
	var events []wire.Event
	for {
		e, err := r.Next()
		if err != nil {
			return events, err
		}
		e.Data = append([]byte{}, e.Data...)
		events = append(events, e)
	}
}
