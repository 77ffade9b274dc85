package wire

import (
	"strconv"

	"github.com/picomq/picomq/stream"
)

// Error codes of the Pico protocol: the "error" of an [ErrorBody].
const (
	ErrorBadRequest       = "bad_request"
	ErrorUnauthorized     = "unauthorized"
	ErrorForbidden        = "forbidden"
	ErrorFenced           = "fenced"
	ErrorNotFound         = "not_found"
	ErrorMethodNotAllowed = "method_not_allowed"
	ErrorConflict         = "conflict"
	ErrorClosed           = "closed"
	ErrorSequenceGap      = "sequence_gap"
	ErrorGone             = "gone"
	ErrorMatchFailed      = "match_failed"
	ErrorTooLarge         = "too_large"
	ErrorOverloaded       = "overloaded"
	ErrorUnavailable      = "unavailable"
	ErrorInternal         = "internal"
	ErrorNotImplemented   = "not_implemented" // with status 501: a feature that this release lacks
)

// What became of a write that was answered with 503, as both protocols say it.
const (
	WrittenNo      = "no"      // nothing was written, nor will be: whoever repeats the request writes once
	WrittenUnknown = "unknown" // it may have been carried out, or may still be
)

// ErrorBody is the body of every refusal of the Pico protocol.
type ErrorBody struct {
	Error       string         `json:"error"`                  // for programs: one of the Error constants
	Message     string         `json:"message"`                // for people: what happened and what to do
	NextSeq     *stream.Offset `json:"next_seq,omitempty"`     // the tail, where it helps
	EarliestSeq *stream.Offset `json:"earliest_seq,omitempty"` // the first retained, with gone
	RequestID   string         `json:"request_id,omitempty"`   // that the server's log carries, with internal
	Written     string         `json:"written,omitempty"`      // with 503 to a write: one of the Written constants
}

// ListedStream is a stream in a [ListBody].
type ListedStream struct {
	Name        string        `json:"name"` // with its leading slash
	ContentType string        `json:"content_type"`
	StartSeq    stream.Offset `json:"start_seq"`
	NextSeq     stream.Offset `json:"next_seq"`
	Closed      bool          `json:"closed"`
	TTL         *uint64       `json:"ttl,omitempty"`        // seconds
	ExpiresAt   string        `json:"expires_at,omitempty"` // RFC 3339
}

// ListBody is the answer to a list.
type ListBody struct {
	Streams []ListedStream `json:"streams"`
	HasMore bool           `json:"has_more"`
}

// Control is the data of a Pico control event.
type Control struct {
	NextSeq  stream.Offset `json:"next_seq"`
	UpToDate bool          `json:"up_to_date"`
	Closed   bool          `json:"closed,omitempty"`
}

// AppendControl appends the JSON of a control event's data.
func AppendControl(dst []byte, c Control) []byte {
	dst = append(dst, `{"next_seq":`...)
	dst = strconv.AppendUint(dst, uint64(c.NextSeq), 10)
	dst = append(dst, `,"up_to_date":`...)
	dst = strconv.AppendBool(dst, c.UpToDate)
	if c.Closed {
		dst = append(dst, `,"closed":true`...)
	}
	return append(dst, '}')
}

// StreamDetail is a stream as the admin listener shows it.
type StreamDetail struct {
	Name        string        `json:"name"` // with its leading slash
	ID          stream.ID     `json:"id"`
	ContentType string        `json:"content_type"`
	Created     string        `json:"created"` // RFC 3339 with milliseconds
	StartSeq    stream.Offset `json:"start_seq"`
	NextSeq     stream.Offset `json:"next_seq"`
	Closed      bool          `json:"closed"`
	Deleted     bool          `json:"deleted"`              // its name is kept while forks of it live
	TTL         *uint64       `json:"ttl,omitempty"`        // seconds
	ExpiresAt   string        `json:"expires_at,omitempty"` // RFC 3339
	// The stream's own bounds of retention; absent: the server's apply.
	RetentionAge   uint64 `json:"retention_age,omitempty"` // seconds
	RetentionBytes uint64 `json:"retention_bytes,omitempty"`
	// The bounds that apply by default, as this server has them; absent: the stream
	// states its own, or there are none.
	DefaultRetentionAge   uint64 `json:"default_retention_age,omitempty"` // seconds
	DefaultRetentionBytes uint64 `json:"default_retention_bytes,omitempty"`

	Extents   int         `json:"extents"`        // pieces of segments that its records lie in
	Fork      *ForkDetail `json:"fork,omitempty"` // how it began; absent: empty
	LiveForks uint32      `json:"live_forks"`
}

// ForkDetail is how a fork began.
type ForkDetail struct {
	From      string        `json:"from"`      // the parent's name when the fork was made, with its leading slash
	ParentID  stream.ID     `json:"parent_id"` // the parent may be gone
	Seq       stream.Offset `json:"seq"`
	SubOffset uint64        `json:"sub_offset,omitempty"` // bytes, or messages of a JSON stream, beyond Seq
}

// Cluster is what the nodes of a cluster are and how they are.
type Cluster struct {
	ID      string  `json:"id"`              // hexadecimal
	Label   string  `json:"label,omitempty"` // --cluster-id of the node that answers
	Head    uint64  `json:"head"`            // index of the log's last row
	Level   uint32  `json:"level"`           // the feature level in force
	Release string  `json:"release"`         // of the node that answers
	Node    uint32  `json:"node"`            // that answers
	Leases  []Lease `json:"leases"`
	Nodes   []Node  `json:"nodes"` // ascending by number
}

// Lease is who does a kind of work for all nodes.
type Lease struct {
	Name      string `json:"name"`
	Node      uint32 `json:"node"`
	Epoch     uint64 `json:"epoch"`
	ExpiresMs int64  `json:"expires_ms"` // from now; negative: it ran out, and the next that asks has it
}

// Node is a node as the log and the others know it.
type Node struct {
	Node    uint32    `json:"node"`
	Epoch   uint64    `json:"epoch"` // index of its registration
	State   NodeState `json:"state"`
	Address string    `json:"address,omitempty"` // where other nodes reach it
	Release string    `json:"release"`
	Level   uint32    `json:"level"` // highest feature level that it understands
	// Applied is the index of its last applied row: as it is now for the node that
	// answers, and for another as its last heartbeat said. Absent without a heartbeat
	// of this epoch, and for a node that is gone.
	Applied *uint64 `json:"applied,omitempty"`
	// Behind is the rows from there to the log's head as it is now: exact for the
	// node that answers, and for another with what was written since its heartbeat.
	// Absent unless the node is live.
	Behind *uint64 `json:"behind,omitempty"`
	BeatMs *int64  `json:"beat_ms,omitempty"` // since that heartbeat; absent as Applied is
}

// NodeState says how a node is.
type NodeState string

// The states of a node.
const (
	NodeLive   NodeState = "live"   // its heartbeats come
	NodeSilent NodeState = "silent" // they do not, but it was not taken for gone yet
	NodeGone   NodeState = "gone"   // it left, or was taken for gone; what it writes is refused
)
