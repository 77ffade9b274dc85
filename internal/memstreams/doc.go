// Package memstreams is the service of streams in memory: slow, obvious and
// complete enough to test the protocols against. It satisfies httpapi.Streams,
// follows the same rules as the real thing (producers, conditions, closing,
// expiry, trimming) and forgets everything when it is dropped.
//
// Time is a manual clock that starts at [Epoch] and moves only by
// [Streams.Advance]. One mutex guards everything; waiting readers are woken by
// closing a channel at every change. A test may have the next calls fail
// through [Streams.FailWith].
package memstreams
