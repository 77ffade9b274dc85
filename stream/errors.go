package stream

import (
	"errors"
	"fmt"
	"time"
)

// Code names the rule that refused a request. Codes are for programs; the
// protocols map each to a status.
type Code uint8

// The refusals. The comment after each says which fields of [Error] are set.
const (
	CodeInternal       Code = iota // a fault of ours: bytes that do not match their checksum, a broken invariant
	CodeBadRequest                 // malformed input
	CodeNotFound                   // no such stream, or it has expired
	CodeDeleted                    // the stream was deleted, and its name is kept while forks of it live
	CodeTrimmed                    // the offset lies below the start: Start
	CodeBeyondTail                 // the offset lies beyond the tail: Tail
	CodeConflict                   // the name is taken by a stream of another configuration
	CodeTypeMismatch               // the content type is not the stream's
	CodeClosed                     // the stream is closed: Tail, Closed
	CodeFenced                     // producer epoch older than the current: Epoch
	CodeEpochStart                 // a new producer epoch must begin at sequence 0: Epoch
	CodeSequenceGap                // producer sequence skipped: Expected, Received
	CodeMatchFailed                // the tail is not where the request requires it: Tail
	CodeStreamSeq                  // Stream-Seq does not grow: Tail
	CodeTooLarge                   // a body or record above its limit
	CodeOverloaded                 // a bounded queue is full; nothing was written: RetryAfter
	CodeUnavailable                // storage or log out of reach; nothing was written: RetryAfter
	CodeOutcomeUnknown             // whether the write happened could not be found out: RetryAfter
	CodeUnsupported                // this release does not do that yet
)

var codeNames = [...]string{
	CodeInternal: "internal", CodeBadRequest: "bad_request", CodeNotFound: "not_found", CodeDeleted: "deleted", CodeTrimmed: "trimmed",
	CodeBeyondTail: "beyond_tail", CodeConflict: "conflict", CodeTypeMismatch: "type_mismatch", CodeClosed: "closed",
	CodeFenced: "fenced", CodeEpochStart: "epoch_start", CodeSequenceGap: "sequence_gap", CodeMatchFailed: "match_failed",
	CodeStreamSeq: "stream_seq", CodeTooLarge: "too_large", CodeOverloaded: "overloaded", CodeUnavailable: "unavailable",
	CodeOutcomeUnknown: "outcome_unknown", CodeUnsupported: "unsupported",
}

// String is the code's name in metrics and logs.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code_%d", uint8(c))
}

// Error is a refused request. Message says what happened, to what, and what to
// do; the fields that its code names are set, the others are zero.
type Error struct {
	Code       Code
	Message    string
	Start      Offset
	Tail       Offset
	Closed     bool
	Epoch      uint64
	Expected   uint64
	Received   uint64
	RetryAfter time.Duration
	cause      error
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap is the error behind this one, if any.
func (e *Error) Unwrap() error { return e.cause }

// Errorf makes a refusal; one that may pass gets [DefaultRetryAfter]. A %w verb keeps the error it wraps reachable by
// errors.Is and errors.As.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	e := &Error{Code: code, Message: err.Error(), cause: errors.Unwrap(err)}
	switch code {
	case CodeOverloaded, CodeUnavailable, CodeOutcomeUnknown:
		e.RetryAfter = DefaultRetryAfter
	default:
	}
	return e
}

// DefaultRetryAfter is when a refusal that may pass invites to try again: about
// as long as a full queue needs to shrink noticeably.
const DefaultRetryAfter = time.Second

// CodeOf is the code of the [*Error] in err's chain, and [CodeInternal] for
// any other error.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
