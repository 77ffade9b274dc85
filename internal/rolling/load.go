package rolling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

const (
	// streams are written and followed; one more is followed and has its first
	// record only, so that its readers are waiting whenever a node drains.
	streams = 2
	// writers of each stream.
	writers = 4
	// pace is between two appends of a writer. It bounds what is read back.
	pace = 2 * time.Millisecond
	// mostFailures bounds the failures that are kept.
	mostFailures = 10
	contentType  = "text/plain"
	first        = "the first record of every stream"
	quiet        = stream.Name("quiet")
)

// LoadConfig says what clients do.
type LoadConfig struct {
	URL string
	// Producers makes appends carry a producer, and clients repeat them. Else
	// everything is sent once, and whatever goes wrong is a failure.
	Producers bool
}

// Load is clients at work. Its methods are for one goroutine.
type Load struct {
	config LoadConfig
	client *client.Client
	begun  sync.WaitGroup // until every reader got something
	stop   atomic.Bool    // tells those to end who do not follow a stream
	asks   sync.WaitGroup
	tails  sync.WaitGroup

	written  [streams][writers]atomic.Int64
	followed []*transcript
	read     atomic.Int64 // requests

	mu       sync.Mutex
	failures []error
	failed   int
}

// transcript is what a reader got who followed a stream. It belongs to that
// reader until the load has ended.
type transcript struct {
	stream  int
	live    client.Live
	records []string
}

func name(s int) stream.Name { return stream.Name(fmt.Sprintf("stream-%d", s)) }

func record(writer int, n int64) string { return fmt.Sprintf("%d:%d", writer, n) }

// StartLoad makes the streams, sets clients to work, and waits until every live
// reader has begun.
func StartLoad(ctx context.Context, c LoadConfig) (*Load, error) {
	l := &Load{config: c}
	options := client.Options{}
	if !c.Producers {
		options.RetryFor = -1
		options.Notify = func(err error, _ time.Duration) { l.fail(fmt.Errorf("a live reader: %w", err)) }
	}
	var err error
	if l.client, err = client.New(c.URL, options); err != nil {
		return nil, err
	}
	for _, name := range []stream.Name{quiet, name(0), name(1)} {
		create := client.CreateRequest{Config: stream.Config{ContentType: contentType}, Body: []byte(first)}
		if _, err := l.client.Create(ctx, name, create); err != nil {
			return nil, err
		}
	}
	for s := range streams {
		for w := range writers {
			l.asks.Go(func() { l.write(ctx, s, w) })
		}
		for _, live := range []client.Live{client.LiveEvents, client.LivePoll} {
			t := &transcript{stream: s, live: live}
			l.begun.Add(2)
			l.followed = append(l.followed, t)
			l.tails.Go(func() { l.follow(ctx, t) })
			l.tails.Go(func() { l.wait(ctx, live) })
		}
		if !c.Producers {
			l.asks.Go(func() { l.ask(ctx, s) })
		}
	}
	l.begun.Wait()
	return l, nil
}

// write appends until it is told to stop. The writer waits for each answer.
func (l *Load) write(ctx context.Context, s, w int) {
	for n := int64(0); !l.stop.Load(); n++ {
		request := &stream.AppendRequest{ContentType: contentType, Records: []stream.Record{{Body: []byte(record(w, n))}}}
		if l.config.Producers {
			request.Producer = &stream.Producer{ID: fmt.Sprintf("writer-%d", w), Seq: uint64(n)}
		}
		if _, err := l.client.Append(ctx, name(s), request); err != nil {
			l.fail(err)
			return // what became of it is not known
		}
		l.written[s][w].Add(1)
		time.Sleep(pace)
	}
}

// follow keeps what a live reader gets, until it has all.
func (l *Load) follow(ctx context.Context, t *transcript) {
	begun := sync.OnceFunc(l.begun.Done)
	defer begun()
	for chunk, err := range l.client.Tail(ctx, name(t.stream), client.TailRequest{Live: t.live}) {
		if err != nil {
			l.fail(err)
			return
		}
		begun()
		for i := range chunk.Records {
			t.records = append(t.records, string(chunk.Records[i].Body))
		}
	}
}

// wait waits for what never comes.
func (l *Load) wait(ctx context.Context, live client.Live) {
	begun := sync.OnceFunc(l.begun.Done)
	defer begun()
	records := 0
	for chunk, err := range l.client.Tail(ctx, quiet, client.TailRequest{Live: live}) {
		if err != nil {
			l.fail(err)
			return
		}
		begun()
		if records += len(chunk.Records); records > 1 {
			l.fail(errors.New("records came that nobody wrote"))
		}
	}
}

// ask reads records that are there, at any place.
func (l *Load) ask(ctx context.Context, s int) {
	for !l.stop.Load() {
		least := int64(1) // the first
		for w := range writers {
			least += l.written[s][w].Load()
		}
		from := stream.Offset(rand.Int64N(least + 1))
		chunk, err := l.client.Read(ctx, name(s), client.ReadRequest{From: client.At(from), MaxRecords: 10})
		switch {
		case err != nil:
			l.fail(err)
		case len(chunk.Records) < int(min(10, least-int64(from))):
			l.fail(fmt.Errorf("%d records at %d, where %d were acknowledged", len(chunk.Records), from, least))
		case len(chunk.Records) > 0 && chunk.Records[0].Offset != from:
			l.fail(fmt.Errorf("a read at %d begins at %d", from, chunk.Records[0].Offset))
		}
		l.read.Add(1)
		time.Sleep(pace)
	}
}

func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed++; l.failed <= mostFailures {
		l.failures = append(l.failures, err)
	}
}

// Finish ends the load: the streams are closed, which ends those that follow them.
// The error names requests that failed.
func (l *Load) Finish(ctx context.Context) error {
	l.stop.Store(true)
	l.asks.Wait()
	for _, name := range []stream.Name{quiet, name(0), name(1)} {
		if _, err := l.client.Append(ctx, name, &stream.AppendRequest{Close: true}); err != nil {
			return fmt.Errorf("close %s, so that its readers end: %w", name, err)
		}
	}
	l.tails.Wait()
	l.client.CloseIdleConnections()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == 0 {
		return nil
	}
	return errors.Join(append(l.failures, fmt.Errorf("%d failures in all", l.failed))...)
}
