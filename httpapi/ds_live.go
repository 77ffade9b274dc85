package httpapi

import (
	"net/http"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// durableLongPoll answers at once with what exists, and otherwise waits for it.
func (a *API) durableLongPoll(w http.ResponseWriter, r *http.Request, name stream.Name, query durableQuery) error {
	request := stream.ReadRequest{From: query.from, MaxBytes: maxReadBytes, MaxRecords: maxReadRecords}
	chunk, err := a.readOrWait(w, r, name, request)
	if err != nil {
		return err
	}
	return a.answerDurableLongPoll(w, chunk, query)
}

func (a *API) answerDurableLongPoll(w http.ResponseWriter, chunk *stream.Chunk, query durableQuery) error {
	h := w.Header()
	h.Set(wire.StreamCursor, a.newCursor(query.cursor).String())
	h.Set("Cache-Control", longPollCaching(chunk, query))
	if len(chunk.Runs) == 0 {
		setDurablePlace(h, chunk)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	setDurableChunk(h, chunk)
	return a.writeDurableChunk(w, chunk)
}

// longPollCaching lets caches collapse the polls of one interval: those that
// carry its cursor. Nothing that came without data is kept.
func longPollCaching(c *stream.Chunk, query durableQuery) string {
	if len(c.Runs) == 0 || query.cursor == "" || query.isNow() || c.StaleMillis > 0 {
		return cacheNever
	}
	return cacheInterval
}

// durableEvents answers with an event stream.
func (a *API) durableEvents(w http.ResponseWriter, r *http.Request, name stream.Name, query durableQuery) error {
	chunk, err := a.locate(r.Context(), name, query.from)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Cache-Control", cacheChecks)
	if !stream.IsText(chunk.Config.ContentType) {
		h.Set(wire.StreamSSEDataEncoding, "base64")
	}
	return a.serveEvents(w, r, follower{
		name:   name,
		info:   chunk.Info,
		from:   chunk.First,
		format: durableFormat(chunk.Config.ContentType, a.newCursor(query.cursor)),
	})
}
