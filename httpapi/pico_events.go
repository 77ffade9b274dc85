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
	dst = beginPicoEvent(dst, wire.EventData, c.Next)
	return wire.EndEvent(wire.AppendEventData(dst, records)), c.Next
}

func (picoEventFormat) appendControl(dst []byte, p place) []byte {
	dst = beginPicoEvent(dst, wire.EventControl, p.next)
	dst = append(dst, "data:"...)
	dst = wire.AppendControl(dst, wire.Control{NextSeq: p.next, UpToDate: p.upToDate, Closed: p.closed})
	return wire.EndEvent(append(dst, '\n'))
}

func beginPicoEvent(dst []byte, name string, next stream.Offset) []byte {
	var digits [20]byte // of any offset
	return wire.BeginEvent(dst, name, string(strconv.AppendUint(digits[:0], uint64(next), 10)))
}
