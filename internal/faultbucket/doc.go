// Package faultbucket is a bucket that misbehaves on purpose and repeatably: it
// wraps any gocloud bucket and makes its operations slow, refuses them, does
// them and loses the answer, and cuts or spoils what is read.
//
//	bucket, faults := faultbucket.Wrap(memblob.OpenBucket(nil), faultbucket.Random{
//		Seed: 1, Latency: 5 * time.Millisecond, Jitter: 20 * time.Millisecond,
//		PutBefore: 0.02, PutAfter: 0.02, GetBefore: 0.05,
//	}.Plan())
//
// A [Plan] is a function from an operation to a [Decision]. The operation says
// how often its kind was asked of its key before, so that a plan needs no state
// and decides the same whatever the goroutines' order. [Random] makes plans
// from a seed, of which [ParseRandom] reads the parameters; tests of one fault
// write their own.
//
// Delays use the time package and end early when the context does, so they
// work in a testing/synctest bubble.
package faultbucket
