package replica

import (
	"cmp"
	"context"
	"errors"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// Bounds of one read from the log.
const (
	readRows  = 1024
	readBytes = 8 << 20
)

// tail applies every row after the applied one that was in the log just now.
func (r *Replica) tail(ctx context.Context) error {
	for {
		asked := r.clock()
		rows, err := r.readRows(ctx, r.applied.Index)
		switch {
		case errors.Is(err, commands.ErrTruncated):
			if err := r.tailArchive(ctx); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		case len(rows) == 0:
			r.freshen(asked)
			return r.fenced
		}
		for _, row := range rows {
			if err := r.apply(row); err != nil {
				return err
			}
		}
	}
}

// tailTo applies up to an index that was in the log a moment ago, however long
// the log takes to answer. A log that answers and no longer has it lost it.
func (r *Replica) tailTo(ctx context.Context, index commands.Index) error {
	for try := 0; ; try++ {
		err := r.tail(ctx)
		if err == nil && r.applied.Index < index {
			err = r.checkHas(ctx, index)
		}
		if err != nil && r.mustEnd(err) {
			return err
		}
		if r.applied.Index >= index {
			return nil
		}
		r.dropExpired()
		if !pause(ctx, try) {
			return ctx.Err()
		}
	}
}

// checkHas finds out whether the log still has a row that it acknowledged.
func (r *Replica) checkHas(ctx context.Context, index commands.Index) error {
	head, err := r.readHead(ctx)
	if err != nil {
		return err
	}
	if head.Index < index {
		return lostTail(commands.Position{Index: index}, head)
	}
	return nil
}

func (r *Replica) readRows(ctx context.Context, after commands.Index) ([]commands.Row, error) {
	call, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	rows, err := r.log.Read(call, after, readRows, readBytes)
	if err != nil {
		return nil, err
	}
	r.answered()
	return rows, nil
}

// readHead asks the log for its last row.
func (r *Replica) readHead(ctx context.Context) (commands.Position, error) {
	call, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	head, err := r.log.Head(call)
	if err != nil {
		return head, err
	}
	r.answered()
	r.saw(head.Index)
	return head, nil
}

// checkHead compares the log's head with what is applied.
func (r *Replica) checkHead(ctx context.Context) error {
	head, err := r.readHead(ctx)
	if err != nil {
		return err
	}
	if head.Index < r.applied.Index || (head.Index == r.applied.Index && head.Row != r.applied.Row) {
		return lostTail(r.applied, head)
	}
	return nil
}

// lostTail describes a head that is behind, or beside, what was applied.
func lostTail(applied, head commands.Position) *commands.LostTailError {
	err := &commands.LostTailError{Applied: applied, Head: head}
	if head.Index >= applied.Index {
		err.Found = head.Row
	}
	return err
}

// decode checks that a row follows a position and decodes it.
func decode(row commands.Row, after commands.Position) (commands.Entry, error) {
	if row.Index != after.Index+1 {
		return commands.Entry{}, fatalf("the log answered row %d where row %d follows", row.Index, after.Index+1)
	}
	if row.Previous != after.Row {
		return commands.Entry{}, &commands.LostTailError{Applied: after, Found: row.Previous, Head: row.Position()}
	}
	payload, err := commands.DecodePayload(row.Payload)
	if err != nil {
		return commands.Entry{}, fatalf("row %d of the log cannot be read: %w", row.Index, err)
	}
	return commands.Entry{Index: row.Index, DatabaseTime: row.DatabaseTime, Payload: payload}, nil
}

// apply applies the next row, publishes it, and answers its proposals if they
// are this node's.
func (r *Replica) apply(row commands.Row) error {
	entry, err := decode(row, r.applied)
	if err != nil {
		return err
	}
	return r.applyEntry(&entry, row)
}

// applyEntry is apply for a row that was checked and decoded.
func (r *Replica) applyEntry(entry *commands.Entry, row commands.Row) error {
	outcome := r.state.Apply(entry)
	if outcome.OutOfOrder {
		return fatalf("row %d does not follow the state, which is at row %d", entry.Index, r.state.Index())
	}
	r.applied = row.Position()
	r.snapshot.applied(len(row.Payload))
	if r.view.Level() > commands.Level {
		return levelError(r.view) // what follows means something else by then
	}
	if err := r.checkReports(entry, outcome); err != nil {
		return err
	}
	r.cfg.Published(outcome)
	r.publish()
	r.follow(entry, outcome)
	r.answerOwn(entry, outcome)
	r.report()
	return nil
}

// publish wakes those who wait for an index.
func (r *Replica) publish() {
	r.appliedIndex.Store(uint64(r.applied.Index))
	r.mu.Lock()
	r.published = r.applied
	close(r.progress)
	r.progress = make(chan struct{})
	r.mu.Unlock()
}

// answerOwn hands results to the callbacks of the row in flight.
func (r *Replica) answerOwn(entry *commands.Entry, outcome *statemachine.Outcome) {
	if r.inFlight == nil {
		return
	}
	for i := range entry.Proposals {
		if entry.Proposals[i].Origin != r.inFlight.origin {
			continue
		}
		items, proposal := r.inFlight.items, outcome.Proposals[i]
		r.inFlight = nil
		if proposal.Status == statemachine.Fenced && r.departed && r.fenced == nil {
			r.bounce(items)
			return
		}
		if proposal.Status != statemachine.Applied {
			if proposal.Status == statemachine.Fenced {
				r.fenced = cmp.Or(r.fenced, fatalf("another process registered as node %d: this one is fenced and stops", r.self.Node))
			}
			answerAll(items, stream.Errorf(stream.CodeUnavailable, "the log refused this node's proposal (%v); nothing was written", proposal.Status))
			return
		}
		results := proposal.Results
		for _, it := range items {
			n := len(it.commands)
			r.acknowledge(it, Decision{Index: outcome.Index, Time: outcome.Time, Results: results[:n:n]})
			results = results[n:]
		}
		return
	}
}
