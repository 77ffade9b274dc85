package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
)

// writer is one client of an episode that writes.
type writer struct {
	episode *episode
	client  int // from 1: also the number of its producer
	random  *rand.Rand
	number  uint64 // of the producer's next request
	open    *input // the producer's request whose outcome is unknown
}

// work makes the writer's calls. One in two writers of a stream that stays has a
// producer; all others send each request once.
func (w *writer) work(ctx context.Context) error {
	idempotent := !w.episode.mortal && w.client%2 == 1
	for i := range callsOfWriter {
		in := w.single(i)
		if idempotent {
			in = w.next(i)
		}
		if in == nil {
			return nil
		}
		if err := w.send(ctx, in); err != nil {
			return err
		}
		if w.episode.over() || !sleep(ctx, pause(w.random)) {
			return nil
		}
	}
	return nil
}

// send makes a call; one with a producer again and again, through one node after
// the other, until its outcome is known.
func (w *writer) send(ctx context.Context, in *input) error {
	for range mostAttempts {
		out, err := w.episode.call(ctx, w.client, in, w.random)
		if err != nil {
			return err
		}
		if in.producer == 0 {
			return nil
		}
		w.open = in
		if out.verdict != unknown {
			w.open = nil
			return nil
		}
		if !sleep(ctx, pause(w.random)) {
			return nil
		}
	}
	return nil
}

// next is the producer's next request; nil when the last one was not decided.
func (w *writer) next(i int) *input {
	if w.open != nil {
		return nil
	}
	in := w.records()
	in.producer, in.number = w.client, w.number
	w.number++
	in.closes = i == callsOfWriter-1 && w.client == 1 && w.random.IntN(4) == 0
	return in
}

// single is a request that is sent once: of each kind some.
func (w *writer) single(i int) *input {
	if w.episode.mortal && w.random.IntN(6) == 0 {
		return &input{kind: [...]kind{deleting, creating}[w.random.IntN(2)]}
	}
	in := w.records()
	switch w.random.IntN(4) {
	case 0, 1:
		match := w.episode.tail.Load()
		in.match = &match
	case 2:
		in.seq, in.count = fmt.Sprintf("%06d", w.episode.seq.Add(1)), 1
	default:
	}
	if i > callsOfWriter/2 && w.random.IntN(30) == 0 {
		in.closes = true
		if in.seq == "" && w.random.IntN(2) == 0 {
			in.count = 0
		}
	}
	return in
}

// records is an append of one to three records that no other has.
func (w *writer) records() *input {
	count := uint64(1 + w.random.IntN(3))
	return &input{kind: appending, id: w.episode.run.ids.Add(count) - count + 1, count: count}
}
