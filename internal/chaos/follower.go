package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

// follower reads a stream live, by events or by long polls, and goes to another
// node now and then: on from where it was.
type follower struct {
	name  stream.Name
	polls bool
	seen  []uint64
}

// follow reads until ctx ends.
func (f *follower) follow(ctx context.Context, r *run, random *rand.Rand) error {
	for ctx.Err() == nil {
		visit, leave := context.WithTimeout(ctx, 200*time.Millisecond+time.Duration(random.Int64N(int64(2*time.Second))))
		end, err := f.visit(visit, r.door(random), random.IntN(8))
		leave()
		r.visits.Add(1)
		if err != nil || end {
			return err
		}
		sleep(ctx, pause(random))
	}
	return nil
}

// visit follows through one node until ctx ends, that node fails, or, if most is
// not 0, so many chunks came. end says that the stream is closed and all of it was
// read.
func (f *follower) visit(ctx context.Context, d *door, most int) (end bool, err error) {
	request := client.TailRequest{From: client.At(stream.Offset(len(f.seen))), Live: client.LiveEvents}
	if f.polls {
		request.Live = client.LivePoll
	}
	chunks := 0
	for chunk, err := range d.pico.Tail(ctx, f.name, request) {
		if err != nil {
			return false, f.ended(ctx, err)
		}
		ids, err := decode(chunk, uint64(len(f.seen)))
		if err != nil {
			return false, fmt.Errorf("%s, followed: %w", f.name, err)
		}
		f.seen = append(f.seen, ids...)
		if chunks++; chunk.Closed || chunks == most {
			return chunk.Closed, nil
		}
	}
	return false, nil
}

// ended tells what an error of a live read means: nil for one that another node,
// or a later time, mends.
func (f *follower) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil || mayPass(err) {
		return nil
	}
	return fmt.Errorf("%s, followed from %d: %w", f.name, len(f.seen), err)
}

// finish reads on to a tail that was read otherwise: no follower is left behind.
func (f *follower) finish(ctx context.Context, r *run, tail uint64, random *rand.Rand) error {
	for uint64(len(f.seen)) < tail {
		visit, leave := context.WithTimeout(ctx, time.Second)
		_, err := f.visit(visit, r.door(random), 1)
		leave()
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: a follower stays at %d of %d: %w", f.name, len(f.seen), tail, context.Cause(ctx))
		}
	}
	return nil
}

// verify compares what was followed with the content in the end, of which it must
// be the beginning.
func (f *follower) verify(content []uint64) error {
	if len(f.seen) > len(content) {
		return fmt.Errorf("%s: a follower saw %d records, %d are there", f.name, len(f.seen), len(content))
	}
	for i, id := range f.seen {
		if content[i] != id {
			return fmt.Errorf("%s: a follower saw record %d at %d, which is %d", f.name, id, i, content[i])
		}
	}
	return nil
}
