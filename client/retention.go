package client

import (
	"net/http"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// setRetention writes what a stream keeps into a request that creates it.
func (c *Client) setRetention(h http.Header, keep stream.Retention) error {
	if keep == (stream.Retention{}) {
		return nil
	}
	if c.options.Protocol == DurableStreams {
		return stream.Errorf(stream.CodeUnsupported, "Durable Streams has no retention; use the Pico protocol")
	}
	if keep.Age > 0 {
		h.Set(wire.PicoRetentionAge, strconv.FormatUint(keep.Age, 10))
	}
	if keep.Bytes > 0 {
		h.Set(wire.PicoRetentionBytes, strconv.FormatUint(keep.Bytes, 10))
	}
	return nil
}

// retentionOf is what the stream of an answer keeps; zero where it states no
// bound of its own or the protocol does not say.
func retentionOf(h http.Header) stream.Retention {
	return stream.Retention{Age: decimal(h.Get(wire.PicoRetentionAge)), Bytes: decimal(h.Get(wire.PicoRetentionBytes))}
}
