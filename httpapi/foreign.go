package httpapi

import (
	"net/http"
	"strings"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// spoken are the request headers that say something to a method of Pico.
var spoken = map[string]map[string]bool{
	http.MethodPut: canonical(wire.PicoTTL, wire.PicoExpiresAt, wire.PicoRetentionAge, wire.PicoRetentionBytes, wire.PicoClosed,
		wire.PicoForkedFrom, wire.PicoForkSeq),
	http.MethodPost: canonical(wire.PicoClosed, wire.PicoMatchSeq, wire.PicoTrimSeq,
		wire.PicoProducerID, wire.PicoProducerEpoch, wire.PicoProducerSeq),
}

// durableOnly are the request headers of Durable Streams. Sent to Pico they mean
// that a client believes in a guarantee that it would not get.
var durableOnly = canonical(wire.ProducerID, wire.ProducerEpoch, wire.ProducerSeq, wire.StreamSeq, wire.StreamTTL,
	wire.StreamExpiresAt, wire.StreamClosed, wire.StreamForkedFrom, wire.StreamForkOffset, wire.StreamForkSubOffset)

func canonical(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[http.CanonicalHeaderKey(name)] = true
	}
	return set
}

// refuseForeign refuses a write that carries a header of either protocol's
// families which says nothing here: one of the other protocol, of another
// method, or misspelled. Who sends a condition or a producer and is not heard
// finds out when it is too late.
func refuseForeign(r *http.Request, durable bool) error {
	for name := range r.Header {
		switch {
		case durable && strings.HasPrefix(name, "Pico-"):
			return stream.Errorf(stream.CodeBadRequest, "%s belongs to the Pico protocol and says nothing below %s; use the header of Durable Streams", name, durableRoot)
		case !durable && durableOnly[name]:
			return stream.Errorf(stream.CodeBadRequest, "%s belongs to Durable Streams, below %s; here the headers begin with Pico-", name, durableRoot)
		case !durable && strings.HasPrefix(name, "Pico-") && !spoken[r.Method][name]:
			return stream.Errorf(stream.CodeBadRequest, "%s says nothing to %s; check its spelling, or leave it out", name, r.Method)
		}
	}
	return nil
}
