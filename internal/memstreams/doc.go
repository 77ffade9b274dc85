// Package memstreams is the service of streams in memory: slow, obvious and
// complete enough to test the protocols against. It satisfies httpapi.Streams,
// follows the same rules as the real thing (producers, conditions, closing,
// expiry, trimming, forks) and forgets everything when it is dropped.
//
// A fork is a copy of all that it inherits. What it has in common with its parent
// afterwards is one number: the parent's live forks, which keep the name of a
// parent that is deleted. What is due is removed before anything else at every
// call, forks that keep others included.
//
// What retention removes stays until a test calls [Streams.Retain], which stands
// for the background of the real thing and is exact to the record.
//
// Time is a manual clock that starts at [Epoch] and moves only by
// [Streams.Advance]. One mutex guards everything; waiting readers are woken by
// closing a channel at every change. A test may have the next calls fail
// through [Streams.FailWith].
package memstreams
