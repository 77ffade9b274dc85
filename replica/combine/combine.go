package combine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/commands"
)

const (
	// MaxParts is how many parts one row has at most.
	MaxParts = 64
	// MaxBytes is how much payload the parts of one row have together at most.
	MaxBytes = 4 << 20
	// MaxWaiting is how many parts wait at most.
	MaxWaiting = 1024
	// insertTimeout bounds one insert into the log; the log's own bound is less.
	insertTimeout = 10 * time.Second
)

// Log is where rows are inserted. What its errors mean is said at
// [commands.ErrUnknown].
type Log interface {
	Append(ctx context.Context, in commands.Insert) (commands.Inserted, error)
}

// Combiner inserts what several nodes ask for. Its methods are safe for
// concurrent use.
type Combiner struct {
	log Log

	rows, parts, others atomic.Uint64 // see Stats

	mu      sync.Mutex
	waiting []*request
	busy    bool // a goroutine inserts, and takes what waits when it has done so
	closed  bool
	running sync.WaitGroup
}

// request is one insert that somebody waits for.
type request struct {
	in     commands.Insert
	answer chan answer // capacity 1
}

type answer struct {
	row commands.Row
	err error
}

// New makes a combiner. Close it.
func New(log Log) *Combiner { return &Combiner{log: log} }

// Stats is what a combiner inserted since it was made.
type Stats struct {
	Rows   uint64 // of this node's own proposals, of others', or both
	Parts  uint64 // in them: Parts/Rows is how many proposers share a row
	Others uint64 // parts that other nodes asked for
}

// Stats is a snapshot.
func (c *Combiner) Stats() Stats {
	return Stats{Rows: c.rows.Load(), Parts: c.parts.Load(), Others: c.others.Load()}
}

// InsertForOther is Insert for another node.
func (c *Combiner) InsertForOther(ctx context.Context, in commands.Insert) (commands.Row, error) {
	row, err := c.Insert(ctx, in)
	if err == nil {
		c.others.Add(1)
	}
	return row, err
}

// Insert inserts what one proposer asks for, in a row of its own or with others,
// and returns the whole row. When ctx ends first the outcome is unknown.
func (c *Combiner) Insert(ctx context.Context, in commands.Insert) (commands.Row, error) {
	r := &request{in: in, answer: make(chan answer, 1)}
	if err := c.add(r); err != nil {
		return commands.Row{}, err
	}
	select {
	case a := <-r.answer:
		return a.row, a.err
	case <-ctx.Done():
	}
	if c.withdraw(r) {
		return commands.Row{}, fmt.Errorf("%w: it still waited for others: %w", commands.ErrNotSent, ctx.Err())
	}
	return commands.Row{}, fmt.Errorf("%w: %w", commands.ErrUnknown, ctx.Err())
}

func (c *Combiner) add(r *request) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.waiting) >= MaxWaiting {
		return fmt.Errorf("%w: the combiner is closed or has too much to do", commands.ErrNotSent)
	}
	c.waiting = append(c.waiting, r)
	if !c.busy {
		c.busy = true
		c.running.Go(c.work)
	}
	return nil
}

// withdraw takes a request back that was not begun.
func (c *Combiner) withdraw(r *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, other := range c.waiting {
		if other == r {
			c.waiting = slices.Delete(c.waiting, i, i+1)
			return true
		}
	}
	return false
}

// Waiting is how many inserts wait for the row under way to end.
func (c *Combiner) Waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting)
}

// Close takes nothing more and waits for what was taken.
func (c *Combiner) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.running.Wait()
}

// work inserts until nothing waits.
func (c *Combiner) work() {
	for {
		batch := c.take()
		if len(batch) == 0 {
			return
		}
		c.insert(batch)
	}
}

// take removes what fits one row, in order, and ends the work when nothing waits.
// A proposer that asks again for what it asked before gets another row, whose
// refusal answers it.
func (c *Combiner) take() []*request {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, bytes := 0, 0
	origins := make(map[commands.Origin]bool)
	for n < len(c.waiting) && n < MaxParts {
		in := &c.waiting[n].in
		if bytes += len(in.Payload); n > 0 && (bytes > MaxBytes || origins[in.Origin]) {
			break
		}
		origins[in.Origin] = true
		n++
	}
	// The array keeps nothing of what is done: a payload may be megabytes.
	batch := slices.Clone(c.waiting[:n])
	clear(c.waiting[:n])
	c.waiting = c.waiting[n:]
	if n == 0 {
		c.busy = false
	}
	return batch
}

// insert inserts a batch as one row, or one by one where that is refused for one
// of them, and answers each.
func (c *Combiner) insert(batch []*request) {
	if len(batch) > 1 {
		joined, err := join(batch)
		if err == nil {
			var row commands.Row
			if row, err = c.append(joined); !forOne(err) {
				answerAll(batch, row, err)
				return
			}
		}
	}
	for _, r := range batch {
		row, err := c.append(r.in)
		r.answer <- answer{row, err}
	}
}

// forOne tells errors that may be of one part alone from those of all.
func forOne(err error) bool {
	return err != nil && !errors.Is(err, commands.ErrNotSent) && !errors.Is(err, commands.ErrUnknown)
}

func answerAll(batch []*request, row commands.Row, err error) {
	for _, r := range batch {
		r.answer <- answer{row, err}
	}
}

// join is one insert of all requests. Its clock is the latest of theirs, so that log
// time is what it would be if each had inserted for itself: a clock that is behind,
// were it this node's, holds it back for nobody else. The error is of a payload that
// cannot be read.
func join(batch []*request) (in commands.Insert, err error) {
	var joined commands.Payload
	for _, r := range batch {
		payload, err := commands.DecodePayload(r.in.Payload)
		if err != nil {
			return in, err
		}
		joined.Clock = max(joined.Clock, payload.Clock)
		joined.Proposals = append(joined.Proposals, payload.Proposals...)
		in.Parts = append(in.Parts, r.in.Shares()...)
	}
	in.Origin, in.Applied = in.Parts[0].Origin, in.Parts[0].Applied
	in.Payload, in.Summary = joined.Encode(), joined.Summary()
	return in, nil
}

// append inserts one row. Nobody's context may end it: it is for several.
func (c *Combiner) append(in commands.Insert) (commands.Row, error) {
	ctx, cancel := context.WithTimeout(context.Background(), insertTimeout)
	defer cancel()
	at, err := c.log.Append(ctx, in)
	if err != nil {
		return commands.Row{}, err
	}
	c.rows.Add(1)
	c.parts.Add(uint64(max(len(in.Parts), 1)))
	return RowOf(&in, at), nil
}

// RowOf is the row that an insert became.
func RowOf(in *commands.Insert, at commands.Inserted) commands.Row {
	return commands.Row{
		Index: at.Index, ID: at.Row, Previous: at.Previous, DatabaseTime: at.DatabaseTime,
		Payload: in.Payload, Origin: in.Origin, Summary: in.Summary,
	}
}
