package httpapi

import (
	"net/http"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// picoEvents answers with an event stream. The caps of the query do not apply:
// events are shared by all readers of a place.
func (a *API) picoEvents(w http.ResponseWriter, r *http.Request, name stream.Name, q *picoReadRequest) error {
	chunk, err := a.locate(r.Context(), name, q.from)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", cacheNever)
	setStale(w.Header(), chunk.Info)
	return a.serveEvents(w, r, follower{name: name, info: chunk.Info, from: chunk.First, format: picoEventFormat{}})
}

// picoEventFormat is [eventFormat] for Pico: records as the JSON read format,
// and the id of both events is where to resume.
type picoEventFormat struct{}

func (picoEventFormat) key() string { return "pico" }

func (picoEventFormat) appendData(dst []byte, c *stream.Chunk) ([]byte, stream.Offset) {
	if c.Next == c.First {
		return dst, c.Next
	}
	records := wire.EncodeJSONRead(make([]byte, 0, encodedSize(c)), c.Runs)
	return appendPicoEvent(dst, wire.EventData, c.Next, records), c.Next
}

func (picoEventFormat) appendControl(dst []byte, p place) []byte {
	control := wire.AppendControl(nil, wire.Control{NextSeq: p.next, UpToDate: p.upToDate, Closed: p.closed})
	return appendPicoEvent(dst, wire.EventControl, p.next, control)
}

func appendPicoEvent(dst []byte, name string, next stream.Offset, data []byte) []byte {
	dst = wire.BeginEvent(dst, name, strconv.FormatUint(uint64(next), 10))
	return wire.EndEvent(wire.AppendEventData(dst, data))
}
