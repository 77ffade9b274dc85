package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/stream"
)

// Content types of the streams: the three ways in which bodies are kept and
// shown.
const (
	textPlain       = "text/plain"
	applicationJSON = "application/json"
	octets          = stream.DefaultContentType
)

// lifecyclesPerProtocol is how many writers take short streams from create to
// close.
const lifecyclesPerProtocol = 2

// round is a set of streams with the writers and followers at them, who live
// through several lives of the server.
type round struct {
	prefix    string
	ids       int // of writers, given so far
	tally     *tally
	seed      uint64
	shared    []*ledger // several writers each
	writers   []*writer
	creators  []*writer // of the shared streams
	followers []*follower

	mu    sync.Mutex // guards short
	short []*ledger  // the others, forks after what they are forks of
}

func newRound(seed uint64, number int, t *tally) *round {
	r := &round{prefix: fmt.Sprintf("crash/%d", number), tally: t, seed: seed + uint64(number)<<32}
	for _, contentType := range []string{applicationJSON, textPlain, octets} {
		r.share(newLedger(stream.Name(r.prefix+"/"+contentType), contentType))
	}
	for range lifecyclesPerProtocol {
		r.lifecycle(pico{}, octets)
		r.lifecycle(durable{}, applicationJSON)
		r.lifecycle(pico{}, textPlain, applicationJSON)
	}
	for _, contentType := range []string{applicationJSON, textPlain} {
		r.branches(pico{}, contentType, nil)
		r.branches(durable{}, contentType, nil)
	}
	return r
}

// share adds a stream with a writer of every kind in both protocols, and two
// followers.
func (r *round) share(l *ledger) {
	r.shared = append(r.shared, l)
	creator := r.newWriter(pico{})
	creator.pending = l.begin(&write{writer: creator.id, creates: true})
	r.creators = append(r.creators, creator)
	for _, p := range []protocol{pico{}, durable{}} {
		_, native := p.(pico)
		for kind := range appendKinds {
			w := r.newWriter(p)
			w.source = &appends{
				stream: l, writer: w.id, kind: kind, random: w.random,
				batch: native || stream.IsJSON(l.contentType), seqs: !native,
			}
			r.writers = append(r.writers, w)
		}
		r.branches(p, l.contentType, l)
		r.followers = append(r.followers, &follower{stream: l, protocol: p})
	}
}

// branches adds a writer that forks a shared stream, or streams of its own.
func (r *round) branches(p protocol, contentType string, shared *ledger) {
	w := r.newWriter(p)
	_, native := p.(pico)
	w.source = &branches{
		prefix: r.prefix, writer: w.id, contentType: contentType, root: shared, random: w.random, add: r.addShort,
		batch: native || stream.IsJSON(contentType), subs: !native,
	}
	r.writers = append(r.writers, w)
}

// lifecycle adds a writer of streams of its own. Where it may choose the type
// of a stream, the create has one record.
func (r *round) lifecycle(p protocol, types ...string) {
	w := r.newWriter(p)
	w.source = &lifecycle{
		prefix: r.prefix, writer: w.id, types: types, random: w.random, add: r.addShort,
		batch: len(types) == 1,
	}
	r.writers = append(r.writers, w)
}

func (r *round) newWriter(p protocol) *writer {
	w := &writer{id: r.ids, protocol: p, random: rand.New(rand.NewPCG(r.seed, uint64(r.ids))), tally: r.tally}
	r.ids++
	return w
}

func (r *round) addShort(l *ledger) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.short = append(r.short, l)
}

// streams are all streams of the round, or those written to since their last
// check.
func (r *round) streams(all bool) []*ledger {
	ledgers := append([]*ledger(nil), r.shared...)
	for _, l := range r.short {
		if all || l.touched {
			ledgers = append(ledgers, l)
		}
	}
	return ledgers
}

// create creates the shared streams that are not there yet, and closes those
// whose close was lost.
func (r *round) create(ctx context.Context, c *clients) error {
	return each(ctx, r.creators, func(ctx context.Context, w *writer, i int) error {
		return w.resolve(ctx, c.pick(i))
	})
}

// resolve decides every request that a kill left open and that may be sent
// again.
func (r *round) resolve(ctx context.Context, c *clients) error {
	return each(ctx, r.writers, func(ctx context.Context, w *writer, i int) error {
		return w.resolve(ctx, c.pick(i))
	})
}

// close closes a shared stream with a last record, unless it was done before.
func (r *round) close(ctx context.Context, c *clients, i int) error {
	l, w := r.shared[i], r.creators[i]
	if w.pending == nil && !l.closeSent() {
		w.pending = l.begin(&write{writer: w.id, request: 1, count: 1, closes: true, producer: &stream.Producer{ID: "closer"}})
	}
	return w.resolve(ctx, c.pick(i))
}

// check reads streams back and compares them, and then what followers saw.
func (r *round) check(ctx context.Context, c *clients, all bool) error {
	if err := check(ctx, c, r.streams(all)); err != nil {
		return err
	}
	for _, f := range r.followers {
		if err := f.verify(); err != nil {
			return err
		}
	}
	return nil
}

// catchUp follows to the end of every shared stream, which must be exactly
// what was read back.
func (r *round) catchUp(ctx context.Context, c *clients) error {
	err := each(ctx, r.followers, func(ctx context.Context, f *follower, i int) error {
		return f.live(ctx, c.pick(i), func(int) bool { return f.closed })
	})
	if err != nil {
		return err
	}
	for _, f := range r.followers {
		if len(f.content) != len(f.stream.content) {
			return fmt.Errorf("%s: a reader saw %d records before the close, there are %d", f.stream.name, len(f.content), len(f.stream.content))
		}
		if err := f.verify(); err != nil {
			return err
		}
	}
	return nil
}

// mostAtOnce bounds what works on a server at the same time.
const mostAtOnce = 64

// each does something with every item at once, and returns the first error.
func each[T any](ctx context.Context, items []T, do func(ctx context.Context, item T, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(mostAtOnce)
	for i, item := range items {
		g.Go(func() error { return do(ctx, item, i) })
	}
	return g.Wait()
}
