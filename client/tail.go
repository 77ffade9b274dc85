package client

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/picomq/picomq/stream"
)

// Live is how a tail waits for records.
type Live uint8

// The ways to wait.
const (
	// LiveDefault is [LiveEvents] with Pico and [LivePoll] with Durable
	// Streams, whose events do not keep every byte of text: line ends become
	// LF, and bytes that are not UTF-8 are replaced.
	LiveDefault Live = iota
	LiveEvents       // server-sent events on one connection
	LivePoll         // one request after the other, each waiting for records
)

// TailRequest asks for the records from a position on, those to come included.
type TailRequest struct {
	From Position
	Live Live
}

// Tail yields the records from a position on, and those that are appended
// later, until the stream is closed and read to its end, the context ends (its
// error is yielded), or a request is refused. Chunks that hold no record are
// not yielded, except a last one that only says that the stream is closed.
//
// A connection that breaks after the first answer is made anew from the last
// chunk's Next, however long the server is away: there is no gap and no repeat.
// Each failure and the pause after it are told to [Options.Notify]. A stream
// that was deleted meanwhile is [stream.CodeNotFound], or [stream.CodeDeleted]
// while forks of it live; one whose records were trimmed before they were read is
// [stream.CodeTrimmed]. Durable Streams does not tell these two apart behind the
// first answer: both are CodeTrimmed then.
func (c *Client) Tail(ctx context.Context, name stream.Name, r TailRequest) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		t := &tail{client: c, name: name, yield: yield}
		from, err := c.resolve(ctx, name, r.From)
		if err != nil {
			yield(nil, err)
			return
		}
		t.from = from
		t.follow = t.events
		if r.Live == LivePoll || (r.Live == LiveDefault && c.options.Protocol == DurableStreams) {
			t.follow = t.poll
		}
		t.run(ctx)
	}
}

// tail is one consumer's place in a stream.
type tail struct {
	client *Client
	name   stream.Name
	yield  func(*Chunk, error) bool
	// follow waits for records once, on one connection, and delivers them. It
	// returns nil when the connection ended as the protocol says.
	follow func(ctx context.Context) error

	from        Position // of the next record to yield
	cursor      string   // of the last poll
	contentType string   // of the stream, once it was needed
	answered    bool     // the server has answered once
	advanced    bool     // records came since follow began
	done        bool     // the stream's end was yielded, or the consumer stopped
}

// run follows until there is nothing more to yield.
func (t *tail) run(ctx context.Context) {
	pauses := newPauses()
	for {
		t.advanced = false
		began := time.Now()
		err := t.follow(ctx)
		switch {
		case t.done:
			return
		case ctx.Err() != nil:
			t.yield(nil, fmt.Errorf("tail %q: %w", t.name, ctx.Err()))
			return
		case err != nil && !(t.answered && worthWaiting(err)):
			if retained, found := retainedStart(t.from, err); found {
				t.from = retained
				continue
			}
			t.yield(nil, err)
			return
		}
		if t.advanced || time.Since(began) > firstPause {
			pauses.reset()
			if err == nil {
				continue
			}
		}
		if err == nil {
			err = unanswered(stream.CodeUnavailable, "tail %q: the server ended the connection at once", t.name)
		}
		if t.client.pause(ctx, err, pauses.next(err)) != nil {
			continue // which reports the context's end
		}
	}
}

// worthWaiting tells whether the server may answer otherwise later. Bytes that
// it found damaged, or that are not understood, stay so.
func worthWaiting(err error) bool { return changesNoMore.after(err) }

// deliver yields a chunk and moves on behind it.
func (t *tail) deliver(chunk *Chunk) (more bool) {
	t.from = chunk.Next
	if len(chunk.Records) > 0 || chunk.Closed {
		t.advanced = true
		t.done = !t.yield(chunk, nil) || chunk.Closed
	}
	return !t.done
}

// poll makes one long poll.
func (t *tail) poll(ctx context.Context) error {
	c := t.client
	request, err := c.readRequest(t.name, ReadRequest{From: t.from})
	if err != nil {
		return err
	}
	request.query.Set("live", "long-poll")
	if t.cursor != "" {
		request.query.Set("cursor", t.cursor)
	}
	ctx, watch := watchSilence(ctx)
	defer watch.stop()
	response, err := c.send(ctx, request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	t.answered = true
	body, err := c.readWhole(request, watch.reader(ctx, response.Body))
	if err != nil {
		return err
	}
	chunk, err := c.chunk(request, &answer{status: response.StatusCode, header: response.Header, body: body})
	if err != nil {
		return err
	}
	if err := t.checkGap(request, chunk); err != nil {
		return err
	}
	t.cursor = response.Header.Get(c.headerNames().cursor)
	t.deliver(chunk)
	return nil
}

// checkGap holds the server to what it promises, where records are numbered.
func (t *tail) checkGap(r *request, chunk *Chunk) error {
	want, known := t.from.Offset()
	for i := range chunk.Records {
		record := &chunk.Records[i]
		if !record.Known {
			return nil
		}
		if known && record.Offset != want {
			return malformed(r, fmt.Sprintf("record %d came where %d belongs", record.Offset, want))
		}
		want, known = record.Offset+1, true
	}
	if next, ok := chunk.Next.Offset(); ok && known && next != want {
		return malformed(r, fmt.Sprintf("it goes on at %d where %d belongs", next, want))
	}
	return nil
}
