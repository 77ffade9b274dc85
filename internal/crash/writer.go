package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// source decides what a writer sends. It belongs to its writer's goroutine.
type source interface {
	// next is the next request; nil when there are no more. All before it were
	// answered or given up.
	next() *write
	// learn is told the answer to a request.
	learn(w *write, a answer)
}

// writer sends the requests of a source one after the other, across the lives
// of the server. A request whose answer was lost is sent again in the next life
// when the server can tell that it is the same one, else it is left open.
type writer struct {
	id       int
	protocol protocol
	source   source // nil for one that only sends what is set as pending
	random   *rand.Rand
	tally    *tally
	pending  *write // sent and not decided
}

// errLost says that no answer was received, as happens when the server dies.
var errLost = errors.New("the connection ended without an answer")

// Bounds on how long a writer asks a server that says it is unavailable.
const (
	retryAfter  = 20 * time.Millisecond
	mostRetries = 500
)

// repeatOneIn is how often a writer repeats a request that was answered, as a
// client does that missed the answer.
const repeatOneIn = 8

// live sends requests until there are no more, an answer is lost, which is
// [errLost], or one is wrong.
func (w *writer) live(ctx context.Context, s *server) error {
	for {
		if w.pending == nil {
			w.pending = w.source.next()
		}
		if w.pending == nil {
			return nil
		}
		if err := w.resolve(ctx, s); err != nil {
			return err
		}
	}
}

// resolve sends the pending request, if there is one, until it is answered.
func (w *writer) resolve(ctx context.Context, s *server) error {
	pending := w.pending
	if pending == nil {
		return nil
	}
	pending.stream.touch() // a check may have come between, and seen nothing of it
	if pending.sentOnce() {
		w.pending = nil // answered or not, it is not sent again
	}
	a, err := w.exchange(ctx, s, pending)
	if err != nil {
		return err
	}
	if w.source != nil {
		w.source.learn(pending, a)
	}
	if pending.repeatable() && pending.fate == acknowledged && w.random.IntN(repeatOneIn) == 0 {
		if _, err := w.exchange(ctx, s, pending); err != nil {
			return err
		}
	}
	w.pending = nil
	return nil
}

// exchange sends a request and enters its answer in the ledger. While the
// server is unavailable it tries again, unless the request may only be sent
// once.
func (w *writer) exchange(ctx context.Context, s *server, r *write) (answer, error) {
	for range mostRetries {
		a, lost, err := s.send(ctx, w.protocol, r)
		switch {
		case lost != nil:
			r.lost++
			return a, fmt.Errorf("%w: %w", errLost, lost)
		case err != nil:
			return a, err
		case a.verdict != tryLater:
			return a, w.enter(r, a)
		}
		r.lost++ // the outcome may be unknown
		w.tally.unavailable.Add(1)
		if r.sentOnce() {
			return a, nil
		}
		select {
		case <-time.After(retryAfter):
		case <-ctx.Done():
			return a, fmt.Errorf("%v: %w", r, context.Cause(ctx))
		}
	}
	return answer{}, fmt.Errorf("%v: the server stayed unavailable through %d tries", r, mostRetries)
}

// enter puts an answer into the ledger, or says why it is wrong.
func (w *writer) enter(r *write, a answer) error {
	before := *r
	r.stream.hear(a.next)
	if problem := r.decide(a); problem != "" {
		return fmt.Errorf("%v (lost %d times, found %v, fate %d, start %d): %s; status %d, start %d, next %d, %s",
			r, before.lost, before.found, before.fate, before.start, problem, a.status, a.start, a.next, a.text)
	}
	w.tally.count(&before, r, a)
	return nil
}

// decide sets the fate of a request from an answer. The text says what is
// wrong with the answer; it is empty when nothing is.
func (w *write) decide(a answer) (problem string) {
	switch a.verdict {
	case accepted:
		return w.decideAccepted(a)
	case duplicate:
		return w.decideDuplicate(a)
	case conditionFail:
		return w.decideConditionFail(a)
	case streamClosed:
		return w.decideClosed()
	case streamGone:
		return w.decideGone(a)
	default:
		return "no answer that this request may get"
	}
}

func (w *write) decideAccepted(a answer) string {
	// A bare close does not say whether it was the first.
	telling := w.count > 0 || w.creates || w.deletes
	switch {
	case telling && w.found:
		return "accepted, but it had been committed before"
	case telling && w.fate == acknowledged:
		return "accepted a second time"
	case w.closes && !a.closed:
		return "accepted, but the stream is not said to be closed"
	case w.startKnown(a) && a.start+offset(w.count) != a.next:
		return "the offsets do not span the records"
	case w.match != nil && a.start != *w.match:
		return "accepted at another tail than was asked for"
	case w.creates:
		w.fate = acknowledged
		return w.decideCreated(a)
	}
	w.fate = acknowledged
	if a.startKnown {
		w.start = a.start
	} else if w.count == 0 {
		w.start = a.next
	}
	return ""
}

// decideCreated learns where a stream's own records begin from the first answer
// to its create, before which nobody appends to it.
func (w *write) decideCreated(a answer) string {
	if a.next < offset(w.count) {
		return "created with a tail below its own records"
	}
	w.start = a.next - offset(w.count)
	return w.stream.beginAt(w.start)
}

func (w *write) startKnown(a answer) bool { return a.startKnown && w.count > 0 }

func (w *write) decideDuplicate(a answer) string {
	known := w.found || w.fate == acknowledged
	switch {
	case w.lost == 0 && !known:
		return "a duplicate, but it was sent for the first time"
	case known && a.startKnown && a.start != w.start:
		return "a duplicate with another offset than the original's"
	case known && a.next < w.start+offset(w.count):
		return "a duplicate with a tail before the original's"
	case w.closes && !a.closed:
		return "a duplicate, but the stream is not said to be closed"
	}
	first := w.fate != acknowledged
	w.fate = acknowledged
	switch {
	case first && w.creates && w.stream.fork != nil:
		return w.decideCreated(a)
	case !known: // unavailable at first, then committed after all
		w.start, w.startUnknown = a.start, !a.startKnown && !w.creates && !w.deletes
	}
	return ""
}

func (w *write) decideConditionFail(a answer) string {
	switch {
	case w.match == nil && w.streamSeq == "":
		return "a condition failed that was not made"
	case w.match != nil && a.next == *w.match:
		return "refused for another tail than the one it has"
	case w.streamSeq != "" && w.lost == 0:
		return "its stream sequence is new and was refused"
	case w.found:
		w.fate = acknowledged
	case w.streamSeq != "":
		return "its stream sequence was taken, but it was not found"
	default:
		w.fate = refused
	}
	return ""
}

func (w *write) decideClosed() string {
	switch {
	case !w.stream.closeSent():
		return "the stream is said to be closed; nobody closed it"
	case w.fate == acknowledged, w.found && w.producer != nil:
		return "refused as closed, but it had been committed before"
	case w.found: // a condition does not tell that it is the same request
		w.fate = acknowledged
	default:
		w.fate = refused
	}
	return ""
}

func (w *write) decideGone(a answer) string {
	switch {
	case w.stream.deletion() == nil:
		return "the stream is said to be gone; nobody deleted it"
	case w.creates:
		return "a create is said to have no stream"
	case a.status != http.StatusGone && w.stream.heldForSure():
		return "deleted and said to be free, but a fork of it lives"
	}
	w.fate = refused
	return ""
}
