package httpapi

import (
	"net/http"
	"unicode/utf8"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

func durableExpiry(h http.Header) (stream.Expiry, error) {
	ttl, hasTTL, err := oneHeader(h, wire.StreamTTL)
	if err != nil {
		return stream.Expiry{}, err
	}
	at, hasAt, err := oneHeader(h, wire.StreamExpiresAt)
	switch {
	case err != nil:
		return stream.Expiry{}, err
	case hasTTL && hasAt:
		return stream.Expiry{}, stream.Errorf(stream.CodeBadRequest,
			"%s and %s exclude each other; send one of them", wire.StreamTTL, wire.StreamExpiresAt)
	case hasTTL:
		seconds, err := parseCanonical(wire.StreamTTL, ttl, stream.MaxTTL)
		return stream.Expiry{Kind: stream.ExpiresIdle, TTL: seconds}, err
	case hasAt:
		instant, err := parseInstant(wire.StreamExpiresAt, at)
		return stream.Expiry{Kind: stream.ExpiresAt, At: instant}, err
	default:
		return stream.Expiry{}, nil
	}
}

// producerHeaders are the names under which a protocol sends a producer.
type producerHeaders struct{ id, epoch, seq string }

var durableProducerHeaders = producerHeaders{wire.ProducerID, wire.ProducerEpoch, wire.ProducerSeq}

// read is the producer of a request, or nil when it names none: all three
// headers are there or none is.
func (p producerHeaders) read(h http.Header) (*stream.Producer, error) {
	id, hasID, err := oneHeader(h, p.id)
	if err != nil {
		return nil, err
	}
	epoch, hasEpoch, err := oneHeader(h, p.epoch)
	if err != nil {
		return nil, err
	}
	seq, hasSeq, err := oneHeader(h, p.seq)
	switch {
	case err != nil:
		return nil, err
	case !hasID && !hasEpoch && !hasSeq:
		return nil, nil
	case !hasID || !hasEpoch || !hasSeq:
		return nil, stream.Errorf(stream.CodeBadRequest, "%s, %s and %s go together; send all three or none", p.id, p.epoch, p.seq)
	case id == "" || len(id) > stream.MaxProducerID || !utf8.ValidString(id):
		return nil, stream.Errorf(stream.CodeBadRequest, "%s must be 1 to %d bytes of UTF-8", p.id, stream.MaxProducerID)
	}
	producer := &stream.Producer{ID: id}
	if producer.Epoch, err = parseDecimal(p.epoch, epoch, stream.MaxProducerNumber); err != nil {
		return nil, err
	}
	if producer.Seq, err = parseDecimal(p.seq, seq, stream.MaxProducerNumber); err != nil {
		return nil, err
	}
	return producer, nil
}

// streamSeq is the Stream-Seq of a request, or nil without one.
func streamSeq(h http.Header) (*string, error) {
	value, present, err := oneHeader(h, wire.StreamSeq)
	switch {
	case err != nil || !present:
		return nil, err
	case value == "" || len(value) > stream.MaxStreamSeq:
		return nil, stream.Errorf(stream.CodeBadRequest, "%s must be 1 to %d bytes", wire.StreamSeq, stream.MaxStreamSeq)
	default:
		return &value, nil
	}
}

// durableClosed tells whether a request closes.
func durableClosed(h http.Header) (bool, error) {
	value, _, err := oneHeader(h, wire.StreamClosed)
	return isTrue(value), err
}

func setDurableOffset(h http.Header, o stream.Offset) {
	h.Set(wire.StreamNextOffset, wire.FormatToken(o))
}

func setDurableClosed(h http.Header, closed bool) {
	if closed {
		h.Set(wire.StreamClosed, "true")
	}
}
