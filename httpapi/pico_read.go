package httpapi

import (
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// picoDefaultBytes bounds a read that names no cap. A cap above maxReadBytes or
// maxReadRecords is lowered, because a read may always return less than was
// asked for.
const picoDefaultBytes = 64 << 10

// The values of the parameter live.
const (
	picoLongPoll = "long-poll"
	picoSSE      = "sse"
)

// picoReadRequest is the query of a GET.
type picoReadRequest struct {
	from     stream.Position
	byHeader bool // from is, or could have been, Last-Event-ID's
	count    int
	bytes    int
	format   picoFormat
	live     string
	cursor   string
}

// picoRead answers GET of a stream.
func (a *API) picoRead(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	q, err := parsePicoRead(r)
	if err != nil {
		return err
	}
	switch q.live {
	case picoLongPoll:
		return a.picoLongPoll(w, r, name, q)
	case picoSSE:
		return a.picoEvents(w, r, name, q)
	default:
		return a.picoCatchUp(w, r, name, q)
	}
}

func parsePicoRead(r *http.Request) (*picoReadRequest, error) {
	query, err := queryOf(r)
	if err != nil {
		return nil, err
	}
	q := new(picoReadRequest)
	if err := q.parseMode(query); err != nil {
		return nil, err
	}
	if err := q.parsePosition(r, query); err != nil {
		return nil, err
	}
	if err := q.parseCaps(query); err != nil {
		return nil, err
	}
	q.cursor, _, err = oneParameter(query, "cursor")
	return q, err
}

// parsePosition reads where a read begins: seq or timestamp, else
// Last-Event-ID, else 0; an event stream then begins at the first record there
// is. An EventSource must name no place, or it could not resume, and cannot act
// on a 410 that tells it where a trimmed stream begins.
func (q *picoReadRequest) parsePosition(r *http.Request, query url.Values) error {
	seq, hasSeq, err := oneParameter(query, "seq")
	if err != nil {
		return err
	}
	timestamp, hasTime, err := oneParameter(query, "timestamp")
	switch {
	case err != nil:
		return err
	case hasSeq && hasTime:
		return stream.Errorf(stream.CodeBadRequest, "seq and timestamp exclude each other; give one")
	case hasSeq:
		q.from, err = parsePicoSeq(seq)
		return err
	case hasTime:
		at, err := parseDecimal("timestamp", timestamp, math.MaxInt64)
		q.from = stream.Position{Kind: stream.FromTime, Time: stream.Time(at)}
		return err
	}
	q.byHeader = true
	id, _, err := oneHeader(r.Header, wire.LastEventID)
	if err != nil || id == "" {
		if q.live == picoSSE {
			q.from = stream.Position{Kind: stream.FromStart}
		}
		return err // else At(0), the zero position
	}
	at, err := parseDecimal(wire.LastEventID, id, math.MaxUint64)
	q.from = stream.At(stream.Offset(at))
	return err
}

// parsePicoSeq reads a sequence, "now", or how far to go back from the tail.
func parsePicoSeq(text string) (stream.Position, error) {
	if strings.EqualFold(text, "now") {
		return stream.Position{Kind: stream.FromTail}, nil
	}
	if back, negative := strings.CutPrefix(text, "-"); negative {
		n, err := parseDecimal("seq", back, math.MaxUint64)
		return stream.Position{Kind: stream.FromTail, Back: n}, err
	}
	n, err := wire.ParseDecimal(text)
	if err != nil {
		return stream.Position{}, stream.Errorf(stream.CodeBadRequest, "seq is %q; give a sequence, now, or -N to count back from the end", text)
	}
	return stream.At(stream.Offset(n)), nil
}

// numberParameter is a plain decimal parameter of at most limit, or otherwise
// when it is absent.
func numberParameter(query url.Values, name string, limit, otherwise uint64) (uint64, error) {
	text, given, err := oneParameter(query, name)
	if err != nil || !given {
		return otherwise, err
	}
	return parseDecimal(name, text, limit)
}

func (q *picoReadRequest) parseCaps(query url.Values) error {
	count, err := numberParameter(query, "count", math.MaxUint64, 0)
	if err != nil {
		return err
	}
	bytes, err := numberParameter(query, "bytes", math.MaxUint64, picoDefaultBytes)
	if err != nil {
		return err
	}
	q.count, q.bytes = maxReadRecords, int(max(1, min(bytes, maxReadBytes)))
	if count > 0 { // 0 is no cap, as when it is absent
		q.count = int(min(count, maxReadRecords))
	}
	return nil
}

func (q *picoReadRequest) parseMode(query url.Values) error {
	format, given, err := oneParameter(query, "format")
	if err != nil {
		return err
	}
	if !given {
		format = formatJSON.name
	}
	if q.format, err = picoFormatOf(format); err != nil {
		return err
	}
	q.live, given, err = oneParameter(query, "live")
	switch {
	case err != nil:
		return err
	case given && q.live != picoLongPoll && q.live != picoSSE:
		return stream.Errorf(stream.CodeBadRequest, "live is %q; give %s or %s, or leave it out", q.live, picoLongPoll, picoSSE)
	case q.live == picoSSE && q.format.name != formatJSON.name:
		return stream.Errorf(stream.CodeBadRequest, "an event stream has format json only, not %s; use live=%s", format, picoLongPoll)
	}
	return nil
}

// picoCatchUp answers with what exists.
func (a *API) picoCatchUp(w http.ResponseWriter, r *http.Request, name stream.Name, q *picoReadRequest) error {
	chunk, err := a.config.Streams.Read(r.Context(), name, q.request())
	if err != nil {
		return err
	}
	h := w.Header()
	tag := chunkETag(chunk, q.format.name)
	h.Set("ETag", tag)
	h.Set("Cache-Control", q.cacheControl(chunk))
	if q.byHeader {
		h.Set("Vary", wire.LastEventID)
	}
	setPicoProgress(h, chunk)
	if noneMatches(r, tag) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return a.writePicoChunk(w, q.format, chunk)
}

func (q *picoReadRequest) request() stream.ReadRequest {
	return stream.ReadRequest{From: q.from, MaxBytes: q.bytes, MaxRecords: q.count}
}

// cacheControl lets caches keep records that cannot be followed by others in
// the same answer. A position counted from the tail is another one tomorrow.
func (q *picoReadRequest) cacheControl(c *stream.Chunk) string {
	switch {
	case c.StaleMillis > 0:
		return cacheNever
	case c.UpToDate || q.from.Kind == stream.FromTail:
		return cacheChecks
	default:
		return cacheShared
	}
}

// picoLongPoll answers with what exists, or waits for it.
func (a *API) picoLongPoll(w http.ResponseWriter, r *http.Request, name stream.Name, q *picoReadRequest) error {
	chunk, err := a.readOrWait(w, r, name, q.request())
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", cacheNever)
	h.Set(wire.PicoCursor, a.newCursor(q.cursor).String())
	setPicoProgress(h, chunk)
	if chunk.Next == chunk.First {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return a.writePicoChunk(w, q.format, chunk)
}

// setPicoProgress tells how far a read has come. A stale answer cannot say that
// nothing more exists.
func setPicoProgress(h http.Header, c *stream.Chunk) {
	setNumber(h, wire.PicoNextSeq, c.Next)
	setTrue(h, wire.PicoUpToDate, c.UpToDate && c.StaleMillis == 0)
	setTrue(h, wire.PicoClosed, c.AtEnd())
	setStale(h, c.Info)
}
