package wire

// Headers of the Pico protocol.
const (
	PicoTTL            = "Pico-TTL"             // request, response: seconds
	PicoExpiresAt      = "Pico-Expires-At"      // request, response: RFC 3339; requests may send Unix milliseconds
	PicoClosed         = "Pico-Closed"          // "true"
	PicoRetentionAge   = "Pico-Retention-Age"   // request, response: seconds
	PicoRetentionBytes = "Pico-Retention-Bytes" // request, response
	PicoForkedFrom     = "Pico-Forked-From"     // request: the path of a stream in Pico, percent-encoded
	PicoForkSeq        = "Pico-Fork-Seq"        // request; both also answer HEAD
	PicoForkSubOffset  = "Pico-Fork-Sub-Offset" // answers HEAD: bytes or messages beyond Pico-Fork-Seq
	PicoForks          = "Pico-Forks"           // answers HEAD: live forks
	PicoProducerID     = "Pico-Producer-Id"
	PicoProducerEpoch  = "Pico-Producer-Epoch"
	PicoProducerSeq    = "Pico-Producer-Seq"
	PicoExpectedSeq    = "Pico-Expected-Seq" // response to a sequence gap
	PicoReceivedSeq    = "Pico-Received-Seq" // response to a sequence gap
	PicoMatchSeq       = "Pico-Match-Seq"    // request: the tail must be exactly here
	PicoTrimSeq        = "Pico-Trim-Seq"     // request: drop everything below
	PicoStartSeq       = "Pico-Start-Seq"    // response: of an append its first record, else the first retained
	PicoNextSeq        = "Pico-Next-Seq"     // response: of a read where to resume, else the tail
	PicoTimestamp      = "Pico-Timestamp"    // response: Unix milliseconds
	PicoUpToDate       = "Pico-Up-To-Date"   // response: "true"
	PicoCursor         = "Pico-Cursor"       // response of a long poll
	PicoStaleMs        = "Pico-Stale-Ms"     // response answered while the log could not be asked
	LastEventID        = "Last-Event-ID"     // request of an EventSource that reconnects
)

// Headers of Durable Streams.
const (
	StreamTTL             = "Stream-TTL"
	StreamExpiresAt       = "Stream-Expires-At"
	StreamClosed          = "Stream-Closed"
	StreamSeq             = "Stream-Seq"
	StreamNextOffset      = "Stream-Next-Offset"
	StreamUpToDate        = "Stream-Up-To-Date"
	StreamCursor          = "Stream-Cursor"
	StreamSSEDataEncoding = "Stream-SSE-Data-Encoding"
	StreamForkedFrom      = "Stream-Forked-From"
	StreamForkOffset      = "Stream-Fork-Offset"
	StreamForkSubOffset   = "Stream-Fork-Sub-Offset"
	ProducerID            = "Producer-Id"
	ProducerEpoch         = "Producer-Epoch"
	ProducerSeq           = "Producer-Seq"
	ProducerExpectedSeq   = "Producer-Expected-Seq"
	ProducerReceivedSeq   = "Producer-Received-Seq"
)

// Media types.
const (
	TypeJSON        = "application/json"
	TypeEventStream = "text/event-stream"
	TypeBatchJSON   = "application/vnd.picomq.batch+json" // records to append, as JSON
	TypeBatch       = "application/vnd.picomq.batch"      // records to append or read, binary
)

// Names of events in an event stream of either protocol.
const (
	EventData    = "data"
	EventControl = "control"
)
