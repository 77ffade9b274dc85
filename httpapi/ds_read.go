package httpapi

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// Bounds of one answer of a read: record bytes, unless one record is larger (in
// Pico the client may ask for less), and records, because they may have no bytes.
const (
	maxReadBytes   = 4 << 20
	maxReadRecords = 1 << 16
)

// durableHead is HEAD: the stream's metadata. It does not keep a stream from
// expiring.
func (a *API) durableHead(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	info, err := a.config.Streams.Head(r.Context(), name)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", info.Config.ContentType)
	h.Set("Cache-Control", cacheNever)
	setDurableOffset(h, info.Tail)
	setDurableClosed(h, info.Closed)
	setStale(h, info)
	switch expiry := info.Config.Expiry; expiry.Kind {
	case stream.ExpiresIdle:
		h.Set(wire.StreamTTL, strconv.FormatUint(expiry.TTL, 10))
	case stream.ExpiresAt:
		h.Set(wire.StreamExpiresAt, formatInstant(expiry.At))
	case stream.ExpiresNever:
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// durableQuery is what a GET asks for.
type durableQuery struct {
	from   stream.Position
	live   string // "long-poll", "sse"; anything else is a catch-up read
	cursor string // as the client echoes it; empty if it does not
}

// isNow tells whether the read begins at the tail, wherever that is.
func (q durableQuery) isNow() bool { return q.from.Kind == stream.FromTail }

func parseDurableQuery(r *http.Request) (durableQuery, error) {
	query, err := queryOf(r)
	if err != nil {
		return durableQuery{}, err
	}
	from, given, err := durablePosition(query)
	if err != nil {
		return durableQuery{}, err
	}
	live, isLive, err := oneParameter(query, "live")
	if err != nil {
		return durableQuery{}, err
	}
	if isLive && !given {
		return durableQuery{}, stream.Errorf(stream.CodeBadRequest,
			"a live read needs an offset; send offset=-1 for the beginning or offset=now")
	}
	return durableQuery{from: from, live: live, cursor: query.Get("cursor")}, nil
}

func durablePosition(query url.Values) (from stream.Position, given bool, err error) {
	text, given, err := oneParameter(query, "offset")
	switch {
	case err != nil:
		return from, given, err
	case !given || text == "-1":
		return stream.Position{Kind: stream.FromStart}, given, nil
	case text == "now":
		return stream.Position{Kind: stream.FromTail}, given, nil
	}
	offset, err := wire.ParseToken(text)
	return stream.At(offset), given, err
}

// durableRead is GET in its three ways.
func (a *API) durableRead(w http.ResponseWriter, r *http.Request, name stream.Name) error {
	query, err := parseDurableQuery(r)
	if err != nil {
		return err
	}
	switch query.live {
	case "sse":
		return a.durableEvents(w, r, name, query)
	case "long-poll":
		return a.durableLongPoll(w, r, name, query)
	default:
		return a.durableCatchUp(w, r, name, query)
	}
}

// durableCatchUp answers with what exists.
func (a *API) durableCatchUp(w http.ResponseWriter, r *http.Request, name stream.Name, query durableQuery) error {
	chunk, err := a.config.Streams.Read(r.Context(), name, stream.ReadRequest{
		From: query.from, MaxBytes: maxReadBytes, MaxRecords: maxReadRecords,
	})
	if err != nil {
		return err
	}
	h := w.Header()
	setDurableChunk(h, chunk)
	h.Set("Cache-Control", durableCaching(chunk, query))
	if !query.isNow() {
		tag := chunkETag(chunk, "")
		h.Set("ETag", tag)
		if noneMatches(r, tag) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	return a.writeDurableChunk(w, chunk)
}

// durableCaching lets shared caches keep what can never be answered otherwise.
func durableCaching(c *stream.Chunk, query durableQuery) string {
	switch {
	case query.isNow() || c.StaleMillis > 0:
		return cacheNever
	case c.UpToDate:
		return cacheChecks
	default:
		return cacheShared
	}
}

// setDurableChunk sets the headers that describe a chunk.
func setDurableChunk(h http.Header, c *stream.Chunk) {
	h.Set("Content-Type", c.Config.ContentType)
	setDurablePlace(h, c)
}

// setDurablePlace sets the headers that say how far a chunk goes.
func setDurablePlace(h http.Header, c *stream.Chunk) {
	setDurableOffset(h, c.Next)
	setStale(h, c.Info)
	if c.UpToDate && c.StaleMillis == 0 {
		h.Set(wire.StreamUpToDate, "true")
	}
	setDurableClosed(h, c.AtEnd())
}

// writeDurableChunk writes a chunk's bodies: one array in a JSON stream, end to
// end otherwise.
func (a *API) writeDurableChunk(w http.ResponseWriter, c *stream.Chunk) error {
	return a.writeWhole(w, chunkBodies(c))
}

// The parts of a JSON array around and between runs.
var openArray, closeArray, comma = []byte{'['}, []byte{']'}, []byte{','}

// chunkBodies are the pieces that make a chunk's body, copying none.
func chunkBodies(c *stream.Chunk) [][]byte {
	json := stream.IsJSON(c.Config.ContentType)
	parts := make([][]byte, 0, 2*len(c.Runs)+2)
	if json {
		parts = append(parts, openArray)
	}
	for i := range c.Runs {
		if json && i > 0 {
			parts = append(parts, comma)
		}
		parts = append(parts, c.Runs[i].Bodies)
	}
	if json {
		parts = append(parts, closeArray)
	}
	return parts
}
