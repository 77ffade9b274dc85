package client

import (
	"net/http"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// headerNames is how a protocol calls what both have.
type headerNames struct {
	ttl, expiresAt, closed, upToDate, cursor, next string
	producerID, producerEpoch, producerSeq         string
}

var picoNames = headerNames{
	ttl: wire.PicoTTL, expiresAt: wire.PicoExpiresAt, closed: wire.PicoClosed,
	upToDate: wire.PicoUpToDate, cursor: wire.PicoCursor, next: wire.PicoNextSeq,
	producerID: wire.PicoProducerID, producerEpoch: wire.PicoProducerEpoch, producerSeq: wire.PicoProducerSeq,
}

var durableNames = headerNames{
	ttl: wire.StreamTTL, expiresAt: wire.StreamExpiresAt, closed: wire.StreamClosed,
	upToDate: wire.StreamUpToDate, cursor: wire.StreamCursor, next: wire.StreamNextOffset,
	producerID: wire.ProducerID, producerEpoch: wire.ProducerEpoch, producerSeq: wire.ProducerSeq,
}

func (c *Client) headerNames() *headerNames {
	if c.options.Protocol == DurableStreams {
		return &durableNames
	}
	return &picoNames
}

// next is the position that an answer carries.
func (c *Client) next(header http.Header) Position {
	value := header.Get(c.headerNames().next)
	if c.options.Protocol == DurableStreams {
		return Token(value)
	}
	return At(stream.Offset(decimal(value)))
}
