package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// maxResubmits bounds how often an append follows its name to a new stream
// when the one it was encoded for is deleted meanwhile.
const maxResubmits = 3

// appendOverhead is what an append costs in memory beside its records, in bytes.
const appendOverhead = 512

// pending is an append on its way: the tag of its blobwal.Append.
type pending struct {
	blobwal.Append
	create *commands.Create // set when the append creates its stream
	req    *stream.AppendRequest
	size   int64
	out    outcome       // to be read after done
	done   chan struct{} // capacity 1
	left   atomic.Bool   // nobody waits for it any more
}

// outcome is what came of a pending append.
type outcome struct {
	result statemachine.AppendResult
	time   stream.Time
	err    error
}

// Append appends records to a stream, or closes it, or both. Once it has returned
// without an error nothing refers to the records any more; else something still may.
func (e *Engine) Append(ctx context.Context, name stream.Name, r *stream.AppendRequest) (stream.Appended, error) {
	if err := checkAppend(r); err != nil {
		return stream.Appended{}, err
	}
	for range maxResubmits {
		st, err := e.current(ctx, name)
		if err != nil {
			if stream.CodeOf(err) == stream.CodeNotFound {
				err = stream.Errorf(stream.CodeNotFound, "there is no stream %q; create it first", name)
			}
			return stream.Appended{}, err
		}
		if err := e.checkType(ctx, &st, r); err != nil {
			return stream.Appended{}, err
		}
		var out outcome
		if len(r.Records) == 0 {
			out = e.close(ctx, st.ID, r)
		} else {
			out = e.submit(ctx, &pending{
				Append: blobwal.Append{Stream: st.ID, Name: name, JSON: stream.IsJSON(st.Config.ContentType), Records: r.Records}, req: r,
			})
		}
		if out.err != nil {
			return stream.Appended{}, out.err
		}
		if out.result.Verdict == statemachine.NotFound {
			continue // deleted or expired meanwhile: the name may be bound anew
		}
		return appended(name, r, &out)
	}
	return stream.Appended{}, stream.Errorf(stream.CodeUnavailable, "the stream %q was deleted and created again while the append was under way; nothing was written, try again", name)
}

// checkAppend refuses what no stream takes.
func checkAppend(r *stream.AppendRequest) error {
	switch {
	case len(r.Records) == 0 && !r.Close:
		return stream.Errorf(stream.CodeBadRequest, "the append has no records; send at least one, or close the stream")
	case r.Producer != nil && (r.Producer.ID == "" || len(r.Producer.ID) > stream.MaxProducerID):
		return stream.Errorf(stream.CodeBadRequest, "the producer id has %d bytes; 1 to %d are allowed", len(r.Producer.ID), stream.MaxProducerID)
	case r.Producer != nil && max(r.Producer.Epoch, r.Producer.Seq) > stream.MaxProducerNumber:
		return stream.Errorf(stream.CodeBadRequest, "producer epoch and sequence are at most %d", stream.MaxProducerNumber)
	case r.StreamSeq != nil && len(*r.StreamSeq) > stream.MaxStreamSeq:
		return stream.Errorf(stream.CodeBadRequest, "the stream sequence has %d bytes; at most %d are allowed", len(*r.StreamSeq), stream.MaxStreamSeq)
	}
	return nil
}

// checkType refuses records that do not belong into a stream of this type. A
// closed stream refuses as closed before that.
func (e *Engine) checkType(ctx context.Context, st *statemachine.Stream, r *stream.AppendRequest) error {
	if len(r.Records) == 0 {
		return nil
	}
	if r.ContentType != "" && stream.MediaType(r.ContentType) != stream.MediaType(st.Config.ContentType) {
		fresh, err := e.settled(ctx, st.Name)
		if err != nil {
			return err
		}
		if fresh.Closed {
			return closedError(fresh.Name, fresh.Tail)
		}
		if stream.MediaType(r.ContentType) != stream.MediaType(fresh.Config.ContentType) {
			return stream.Errorf(stream.CodeTypeMismatch, "the stream %q holds %s, not %s; send records of its type", fresh.Name, fresh.Config.ContentType, r.ContentType)
		}
		*st = fresh
	}
	if !stream.IsJSON(st.Config.ContentType) || r.JSONChecked {
		return nil
	}
	refused := checkJSON(r.Records)
	if refused == nil {
		return nil
	}
	fresh, err := e.settled(ctx, st.Name) // the name may have been bound anew
	switch {
	case err != nil:
		return err
	case fresh.Closed:
		return closedError(fresh.Name, fresh.Tail)
	case stream.IsJSON(fresh.Config.ContentType):
		return refused
	}
	*st = fresh
	return nil
}

// submit hands an append to the writer and waits for what comes of it, for
// AppendTimeout and until ctx ends.
func (e *Engine) submit(ctx context.Context, p *pending) outcome {
	p.done = make(chan struct{}, 1)
	p.size = appendOverhead + stream.MemoryOf(p.Records)
	if held := e.inFlight.Add(p.size); held > e.cfg.InFlightBytes && held > p.size {
		e.inFlight.Add(-p.size)
		return outcome{err: stream.Errorf(stream.CodeOverloaded, "%d bytes of appends are under way; nothing was written, try again", held-p.size)}
	}
	p.Tag, p.Extra = p, commandBytes(p)
	err := e.admit(ctx, 0)
	if err == nil {
		err = e.add(ctx, &p.Append)
	}
	if err != nil {
		e.inFlight.Add(-p.size)
		return outcome{err: err}
	}
	timer := e.timers.Get().(*time.Timer)
	defer e.timers.Put(timer)
	timer.Reset(e.cfg.AppendTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return p.out
	case <-ctx.Done():
		p.left.Store(true)
		return outcome{err: unknownOutcome(context.Cause(ctx))}
	case <-timer.C:
		p.left.Store(true)
		return outcome{err: unknownOutcome(context.DeadlineExceeded)}
	}
}

// newTimer makes a stopped one. A context with a deadline would cost every append
// five objects, and nearly none comes to its end.
func newTimer() any {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return timer
}

// commandBytes is about what an append takes in its commit: a row is bounded, too.
func commandBytes(p *pending) int {
	n := 48
	if p.create != nil {
		n += len(p.create.Name) + len(p.create.Config.ContentType)
		if p.create.Fork != nil {
			n += 48
		}
	}
	if p.req != nil && p.req.Producer != nil {
		n += len(p.req.Producer.ID) + 20
	}
	if p.req != nil && p.req.StreamSeq != nil {
		n += len(*p.req.StreamSeq)
	}
	return n
}

func unknownOutcome(why error) error {
	return stream.Errorf(stream.CodeOutcomeUnknown, "the append was not decided in time (%w): it may have happened or may still happen; "+
		"read the stream, or repeat the request with the same producer sequence", why)
}

// finish answers a pending append.
func (e *Engine) finish(p *pending, out outcome) {
	e.inFlight.Add(-p.size)
	p.out = out
	p.done <- struct{}{}
}

// close proposes a close without records.
func (e *Engine) close(ctx context.Context, id stream.ID, r *stream.AppendRequest) outcome {
	return e.decide(ctx, &commands.Close{ID: id, Producer: r.Producer, Match: r.Match, StreamSeq: r.StreamSeq})
}

// decide proposes one command about one stream.
func (e *Engine) decide(ctx context.Context, c commands.Command) outcome {
	d, err := e.propose(ctx, c)
	if err != nil {
		return outcome{err: err}
	}
	return outcome{time: d.Time, result: d.Results[0].AppendResult}
}

// propose proposes one command and waits as long as an append waits, and until
// ctx ends.
func (e *Engine) propose(ctx context.Context, c commands.Command) (replica.Decision, error) {
	return e.replica.ProposeWithin(ctx, e.cfg.AppendTimeout, c)
}

// appended turns a result into the answer, or into the refusal.
func appended(name stream.Name, r *stream.AppendRequest, out *outcome) (stream.Appended, error) {
	res := &out.result
	a := stream.Appended{First: res.First, FirstKnown: res.FirstKnown, Next: res.Tail, Time: out.time, Closed: res.Closed}
	if r.Producer != nil {
		a.Producer = stream.Producer{ID: r.Producer.ID, Epoch: res.ProducerEpoch, Seq: res.ProducerSeq}
	}
	switch res.Verdict {
	case statemachine.Accepted:
		a.FirstKnown = true
	case statemachine.Duplicate:
		a.Duplicate = true
	default:
		return stream.Appended{}, refusal(name, r, res)
	}
	return a, nil
}
