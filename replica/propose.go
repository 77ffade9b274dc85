package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// Enqueue proposes commands that are applied together, in order, and calls
// done with what came of them. Groups are inserted in the order of their
// Enqueue. The error, if any, means that nothing was written and that done is
// not called.
func (r *Replica) Enqueue(cmds []commands.Command, done Done) error {
	return r.queue.add(r.newItem(cmds, done))
}

func (r *Replica) newItem(cmds []commands.Command, done Done) *item {
	it := &item{commands: cmds, bytes: estimate(cmds), expires: r.cfg.Now().Add(r.cfg.QueueTimeout), done: done}
	for _, c := range cmds {
		if bound(c) {
			it.epoch = r.first
		}
	}
	return it
}

// Propose proposes commands that are applied together and waits for their
// results. When ctx ends first the error says whether the commands may still
// be applied.
func (r *Replica) Propose(ctx context.Context, cmds ...commands.Command) (Decision, error) {
	return r.propose(ctx, nil, cmds, 0)
}

// ProposeWithin is Propose for at most a time, which costs less than a context
// that ends by then: such a one is known to all that it comes from.
func (r *Replica) ProposeWithin(ctx context.Context, limit time.Duration, cmds ...commands.Command) (Decision, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	return r.propose(ctx, timer.C, cmds, 0)
}

// propose is Propose until late has a value, and under an epoch; 0: as newItem
// has it.
func (r *Replica) propose(ctx context.Context, late <-chan time.Time, cmds []commands.Command, epoch commands.Epoch) (Decision, error) {
	type answer struct {
		decision Decision
		err      error
	}
	answers := make(chan answer, 1)
	it := r.newItem(cmds, func(d Decision, err error) { answers <- answer{d, err} })
	if epoch != 0 {
		it.epoch = epoch
	}
	if err := r.queue.add(it); err != nil {
		return Decision{}, err
	}
	select {
	case a := <-answers:
		return a.decision, a.err
	case <-ctx.Done():
	case <-late:
	}
	if r.queue.remove(it) {
		return Decision{}, stream.Errorf(stream.CodeUnavailable, "the log did not take the command in time; nothing was written, try again")
	}
	select {
	case a := <-answers: // it was decided while we looked
		return a.decision, a.err
	default:
		return Decision{}, outcomeUnknown()
	}
}

func outcomeUnknown() *stream.Error {
	return stream.Errorf(stream.CodeOutcomeUnknown, "the log did not answer in time: the change may have happened or may still happen; "+
		"read the stream, or repeat the request with the same producer sequence")
}

// estimate is about how many bytes commands take in a row.
func estimate(cmds []commands.Command) int {
	size := 16
	for _, c := range cmds {
		size += 48
		switch c := c.(type) {
		case *commands.CommitSegment:
			size += len(c.IDs) + len(c.Records) + len(c.Bytes) + len(c.Flags) + len(c.Producers) + len(c.Matches) + len(c.StreamSeqs)
			for _, id := range c.ProducerIDs {
				size += len(id) + 3
			}
			for i := range c.Creates {
				size += 32 + len(c.Creates[i].Name) + len(c.Creates[i].Config.ContentType)
			}
		case *commands.Close:
			if c.Producer != nil {
				size += len(c.Producer.ID) + 20
			}
			if c.StreamSeq != nil {
				size += len(*c.StreamSeq)
			}
		case *commands.Create:
			size += len(c.Name) + len(c.Config.ContentType)
		case *commands.Touch:
			size += 8 * len(c.IDs)
		case *commands.Expire:
			size += 8 * len(c.IDs)
		}
	}
	return size
}

// drain inserts rows until nothing waits.
func (r *Replica) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		if r.departed {
			return nil // the loop registers anew first
		}
		// A row costs the same for one as for many: those who are about to propose,
		// and would wait for it to end, go first. Where nobody is, this takes no time.
		runtime.Gosched()
		items := r.queue.take(r.cfg.GroupBytes)
		if len(items) == 0 {
			return nil
		}
		if items = r.timely(items); len(items) == 0 {
			continue
		}
		r.seq++
		if err := r.commit(ctx, commands.Origin{Node: r.self.Node, Epoch: r.epoch, Seq: r.seq}, items); err != nil {
			r.queue.signal() // for what still waits: the loop goes on unless it must end
			return err
		}
		// Here too, since under load this loop never finds the queue empty.
		r.maybeSnapshot(ctx)
	}
	return nil
}

// commit puts items into the log as one row and applies everything up to it.
// Every item's callback has run when it returns nil, and also when it returns
// an error: then with one.
func (r *Replica) commit(ctx context.Context, origin commands.Origin, items []*item) error {
	proposal := commands.Proposal{Origin: origin}
	for _, it := range items {
		proposal.Commands = append(proposal.Commands, it.commands...)
	}
	payload := commands.Payload{Clock: stream.Time(r.cfg.Now().UnixMilli()), Proposals: []commands.Proposal{proposal}}
	insert := commands.Insert{Origin: origin, Payload: payload.Encode(), Applied: r.applied, Summary: payload.Summary()}
	// What goes in is what comes out, for ever: a row that cannot be read would
	// stop every node, now and at each start.
	decoded, err := commands.DecodePayload(insert.Payload)
	if err != nil {
		r.cfg.Logger.Error("commands were dropped: they cannot be read back", "error", err, "commands", insert.Summary.Kinds)
		answerAll(items, stream.Errorf(stream.CodeInternal, "the change cannot be written so that it can be read again; nothing was written"))
		return nil
	}
	r.inFlight = &flight{origin: origin, items: items}
	defer func() {
		if r.inFlight != nil { // could not be applied: the replica ends, or the context did
			r.refuse(outcomeUnknown())
		}
	}()
	row, err := r.insert(ctx, &insert)
	if err != nil {
		r.refuse(refusalOf(err))
		if errors.Is(err, commands.ErrNotSent) {
			return nil // said to the proposers; the next round tries with what comes then
		}
		return err
	}
	r.stats.rows.Add(1)
	r.stats.groups.Add(uint64(len(items)))
	if r.inFlight == nil {
		return nil
	}
	if row.Payload == nil || row.Index != r.applied.Index+1 || row.Previous != r.applied.Row {
		return r.tailTo(ctx, row.Index)
	}
	if !bytes.Equal(row.Payload, insert.Payload) { // others' proposals are in it
		if entry, err := decode(row, r.applied); err == nil {
			return r.applyEntry(&entry, row)
		}
		return r.tailTo(ctx, row.Index) // the log's own answer counts
	}
	return r.applyEntry(&commands.Entry{Index: row.Index, DatabaseTime: row.DatabaseTime, Payload: decoded}, row)
}

func answerAll(items []*item, err error) {
	for _, it := range items {
		it.done(Decision{}, err)
	}
}

// refuse answers the row in flight, unless it was applied.
func (r *Replica) refuse(err error) {
	if r.inFlight != nil {
		answerAll(r.inFlight.items, err)
		r.inFlight = nil
	}
}

// refusalOf is what proposers are told of an insert that failed.
func refusalOf(err error) error {
	var refusal *stream.Error
	switch {
	case errors.Is(err, commands.ErrUnknown): // first: whatever else it says, it may stand
		return outcomeUnknown()
	case errors.As(err, &refusal):
		return refusal
	case errors.Is(err, commands.ErrNotSent):
		return stream.Errorf(stream.CodeUnavailable, "the log is out of reach; nothing was written, try again")
	default:
		return stream.Errorf(stream.CodeUnavailable, "the log refused the change; nothing was written")
	}
}

// insert brings the row in flight into the log and finds out where it stands; its
// payload is nil when it was only looked up. It may have been read, applied and
// answered by then. It returns an error only when the row certainly is not there
// (ErrNotSent, a refusal), or when that cannot be known (ErrUnknown): ctx ended, or
// a try was refused while an earlier one is in doubt.
func (r *Replica) insert(ctx context.Context, in *commands.Insert) (commands.Row, error) {
	r.inserting.Store(int64(r.clock()))
	defer r.inserting.Store(0)
	giveUp := r.cfg.Now().Add(r.cfg.QueueTimeout)
	doubt := false // an earlier try may still come to stand
	for try := 0; ; try++ {
		row, err := r.appendOnce(ctx, in, doubt)
		doubt = doubt || inDoubt(err)
		if err != nil && doubt {
			row, err = r.lookUp(ctx, in, err)
		}
		if errors.Is(err, commands.ErrTruncated) {
			err = r.catchUpInFlight(ctx, in)
		}
		again := inDoubt(err) || errors.Is(err, commands.ErrNotSent)
		switch {
		case err == nil:
			r.refusal.Worked()
			return row, nil
		case !again && doubt && !errors.Is(err, errForeign):
			// This try is refused, but an earlier one may stand.
			return commands.Row{}, fmt.Errorf("%w: %w", commands.ErrUnknown, err)
		case !again, !doubt && r.cfg.Now().After(giveUp):
			return commands.Row{}, err
		}
		r.stats.retries.Add(1)
		r.refusal.Failed("origin", in.Origin.String(), "try", try+1, "error", err)
		r.dropExpired()
		if !pause(ctx, try) {
			if doubt {
				return commands.Row{}, commands.ErrUnknown
			}
			return commands.Row{}, commands.ErrNotSent
		}
	}
}

// inDoubt tells whether the row of a try that failed may stand all the same.
func inDoubt(err error) bool {
	return errors.Is(err, commands.ErrUnknown) || errors.Is(err, commands.ErrDuplicateOrigin)
}

// appendOnce asks the combiner, if there is one, and the log when nobody inserts
// for others. What is in doubt goes straight to the log: it decides. So it does
// where another node says that its log refuses this: that need not be this node's,
// whose refusal may end it.
func (r *Replica) appendOnce(ctx context.Context, in *commands.Insert, doubt bool) (commands.Row, error) {
	call, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	if r.cfg.Combiner != nil && !doubt && in.Origin.Node != 0 {
		row, err := r.cfg.Combiner.Insert(call, *in)
		switch {
		case err == nil:
			r.answered()
			return row, nil
		case inDoubt(err):
			return row, err
		}
	}
	at, err := r.log.Append(call, *in)
	if err == nil {
		r.answered()
	}
	return commands.Row{
		Index: at.Index, ID: at.Row, Previous: at.Previous, DatabaseTime: at.DatabaseTime,
		Payload: in.Payload, Origin: in.Origin, Summary: in.Summary,
	}, err
}

// lookUp asks the log whether a row of this origin stands, and whether it is
// ours. Where it does not stand, or the log does not answer, the error is that of
// the last try, and the caller repeats it: the unique origin makes that harmless.
func (r *Replica) lookUp(ctx context.Context, in *commands.Insert, last error) (commands.Row, error) {
	call, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	at, digest, found, err := r.log.FindOrigin(call, in.Origin, in.Applied.Index)
	switch {
	case errors.Is(err, commands.ErrTruncated):
		return commands.Row{}, err
	case err != nil || !found:
		return commands.Row{}, last
	case digest != commands.PayloadDigest(in.Payload):
		return commands.Row{}, fatalf("row %d of the log carries this node's origin %s but another payload: %w", at.Index, in.Origin, errForeign)
	}
	r.answered()
	return commands.Row{Index: at.Index, ID: at.Row, Previous: at.Previous}, nil
}

var errForeign = errors.New("another process writes as this node; stop it, or start with another node id")

// catchUpInFlight applies what left the log before this node read it, the row in
// flight perhaps among it: then that is answered. If it was not, the next try is
// of a node that lags no more, and the log's answers are certain again.
func (r *Replica) catchUpInFlight(ctx context.Context, in *commands.Insert) error {
	err := r.tail(ctx)
	if err != nil && r.mustEnd(err) {
		return err
	}
	if r.inFlight == nil {
		return nil
	}
	in.Applied = r.applied
	return fmt.Errorf("%w: this node was behind the log", commands.ErrNotSent)
}

// dropExpired answers proposals that waited too long; they were not sent.
func (r *Replica) dropExpired() {
	answerAll(r.queue.expired(r.cfg.Now()), stream.Errorf(stream.CodeUnavailable, "the log did not take the command in time; nothing was written, try again"))
}

// longestPause is how long the log is left alone at most before it is tried again:
// every proposer waits as long for one that works again.
const longestPause = 100 * time.Millisecond

// pause waits a little longer with each try, up to longestPause, with jitter.
func pause(ctx context.Context, try int) bool {
	limit := min(longestPause, 10*time.Millisecond<<min(try, 4))
	timer := time.NewTimer(limit/2 + rand.N(limit/2))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
