package httpapi

import (
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// picoNumber is a header that holds a plain decimal number of at most limit.
func picoNumber(r *http.Request, name string, limit uint64) (n uint64, given bool, err error) {
	text, given, err := oneHeader(r.Header, name)
	if err != nil || !given {
		return 0, given, err
	}
	n, err = parseDecimal(name, text, limit)
	return n, true, err
}

// picoClosed tells whether a request closes. Only "true" and "false", in any
// case, are values: to take another one for either would surprise somebody.
func picoClosed(r *http.Request) (bool, error) {
	text, given, err := oneHeader(r.Header, wire.PicoClosed)
	switch {
	case err != nil || !given:
		return false, err
	case strings.EqualFold(text, "true"):
		return true, nil
	case strings.EqualFold(text, "false"):
		return false, nil
	default:
		return false, stream.Errorf(stream.CodeBadRequest, "%s is %q; send true, or leave it out", wire.PicoClosed, text)
	}
}

// picoExpiry is how the stream of a PUT goes by itself.
func picoExpiry(r *http.Request) (stream.Expiry, error) {
	ttl, idle, err := picoNumber(r, wire.PicoTTL, stream.MaxTTL)
	if err != nil {
		return stream.Expiry{}, err
	}
	text, absolute, err := oneHeader(r.Header, wire.PicoExpiresAt)
	switch {
	case err != nil:
		return stream.Expiry{}, err
	case idle && absolute:
		return stream.Expiry{}, stream.Errorf(stream.CodeBadRequest,
			"%s and %s exclude each other; send one", wire.PicoTTL, wire.PicoExpiresAt)
	case idle:
		return stream.Expiry{Kind: stream.ExpiresIdle, TTL: ttl}, nil
	case absolute:
		at, err := parsePicoInstant(text)
		return stream.Expiry{Kind: stream.ExpiresAt, At: at}, err
	default:
		return stream.Expiry{}, nil
	}
}

// lastInstant is the last millisecond that RFC 3339 can write.
var lastInstant = time.Date(9999, time.December, 31, 23, 59, 59, 999_000_000, time.UTC).UnixMilli()

// parsePicoInstant reads RFC 3339 or plain Unix milliseconds.
func parsePicoInstant(text string) (stream.Time, error) {
	if millis, err := wire.ParseDecimal(text); err == nil && millis <= uint64(lastInstant) {
		return stream.Time(millis), nil
	}
	at, err := parseInstant(wire.PicoExpiresAt, text)
	if err != nil {
		return 0, stream.Errorf(stream.CodeBadRequest, "%w, nor Unix milliseconds up to the year 9999", err)
	}
	return at, nil
}

// setExpiry tells how a stream goes by itself.
func setExpiry(h http.Header, e stream.Expiry) {
	switch e.Kind {
	case stream.ExpiresIdle:
		setNumber(h, wire.PicoTTL, e.TTL)
	case stream.ExpiresAt:
		h.Set(wire.PicoExpiresAt, formatInstant(e.At))
	case stream.ExpiresNever:
	}
}

// picoRetention is what the stream of a PUT keeps.
func picoRetention(r *http.Request) (keep stream.Retention, err error) {
	if keep.Age, err = picoBound(r, wire.PicoRetentionAge, stream.MaxTTL); err != nil {
		return keep, err
	}
	keep.Bytes, err = picoBound(r, wire.PicoRetentionBytes, stream.MaxRetentionBytes)
	return keep, err
}

// picoBound is a header with a bound, 0 when there is none. To send 0 is refused:
// it may be meant as no bound at all or as nothing kept, and is neither.
func picoBound(r *http.Request, name string, limit uint64) (uint64, error) {
	n, given, err := picoNumber(r, name, limit)
	if err == nil && given && n == 0 {
		return 0, stream.Errorf(stream.CodeBadRequest, "%s is 0, which bounds nothing; leave it out, then what the server keeps by default applies", name)
	}
	return n, err
}

// setRetention tells what bounds a stream has of its own.
func setRetention(h http.Header, keep stream.Retention) {
	if keep.Age > 0 {
		setNumber(h, wire.PicoRetentionAge, keep.Age)
	}
	if keep.Bytes > 0 {
		setNumber(h, wire.PicoRetentionBytes, keep.Bytes)
	}
}

var picoProducerHeaders = producerHeaders{wire.PicoProducerID, wire.PicoProducerEpoch, wire.PicoProducerSeq}

func setPicoProducer(h http.Header, p *stream.Producer) {
	if p == nil {
		return
	}
	h.Set(wire.PicoProducerID, p.ID)
	setNumber(h, wire.PicoProducerEpoch, p.Epoch)
	setNumber(h, wire.PicoProducerSeq, p.Seq)
}

// picoMatch is the tail that an append requires, nil when it requires none.
func picoMatch(r *http.Request) (*stream.Offset, error) {
	n, given, err := picoNumber(r, wire.PicoMatchSeq, math.MaxUint64)
	if err != nil || !given {
		return nil, err
	}
	match := stream.Offset(n)
	return &match, nil
}
