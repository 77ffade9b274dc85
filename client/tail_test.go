package client_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/internal/memserver"
	"github.com/picomq/picomq/stream"
)

// ways is every way to tail.
var ways = []struct {
	protocol client.Protocol
	live     client.Live
	types    string // of a stream
}{
	{client.Pico, client.LiveEvents, "text/plain"},
	{client.Pico, client.LivePoll, "application/octet-stream"},
	{client.DurableStreams, client.LiveEvents, "application/json"},
	{client.DurableStreams, client.LiveEvents, "application/octet-stream"},
	{client.DurableStreams, client.LiveEvents, "text/plain"},
	{client.DurableStreams, client.LivePoll, "application/json"},
	{client.DurableStreams, client.LivePoll, "text/plain"},
}

// eachWay runs a test for every way to tail a new stream.
func eachWay(t *testing.T, test func(t *testing.T, server *memserver.Server, c *client.Client, contentType string, r client.TailRequest)) {
	for _, way := range ways {
		live := map[client.Live]string{client.LiveEvents: "events", client.LivePoll: "poll"}[way.live]
		t.Run(fmt.Sprintf("%v %s %s", way.protocol, live, strings.ReplaceAll(way.types, "/", " ")), func(t *testing.T) {
			t.Parallel()
			server, c := start(t, client.Options{Protocol: way.protocol})
			_, err := c.Create(t.Context(), "a", text(way.types))
			require.NoError(t, err)
			test(t, server, c, way.types, client.TailRequest{Live: way.live})
		})
	}
}

// number is the i-th record of a test: valid JSON, and its own separator where
// the protocol shows none.
func number(i int) string { return fmt.Sprintf("%d ", i) }

// write appends records from but excluding to, one at a time.
func write(ctx context.Context, c *client.Client, contentType string, from, to int) error {
	for i := from; i < to; i++ {
		if _, err := c.Append(ctx, "a", &stream.AppendRequest{
			ContentType: contentType, Records: records(number(i)), Producer: &stream.Producer{ID: "p", Seq: uint64(i)},
		}); err != nil {
			return err
		}
	}
	return nil
}

// want is what reading records 0 to n gives, end to end without space.
func want(n int) string {
	var all strings.Builder
	for i := range n {
		all.WriteString(strings.TrimSpace(number(i)) + ";")
	}
	return all.String()
}

// collect tails until the stream's end and returns what came, as want prints. Each
// chunk is told of by seen.
func collect(ctx context.Context, c *client.Client, r client.TailRequest, seen ...func()) (string, error) {
	var all strings.Builder
	for chunk, err := range c.Tail(ctx, "a", r) {
		if err != nil {
			return all.String(), err
		}
		for _, f := range seen {
			f()
		}
		for _, record := range chunk.Records {
			for _, field := range strings.Fields(string(record.Body)) {
				all.WriteString(field + ";")
			}
		}
	}
	return all.String(), nil
}

// TestTailThroughRestarts is the promise: no gap and no repeat, whatever
// happens to the server and its connections.
func TestTailThroughRestarts(t *testing.T) {
	eachWay(t, func(t *testing.T, server *memserver.Server, c *client.Client, contentType string, r client.TailRequest) {
		ctx := t.Context()
		const n = 30
		written := make(chan error, 1)
		go func() {
			err := write(ctx, c, contentType, 0, n)
			if err == nil {
				_, err = c.Append(ctx, "a", &stream.AppendRequest{Close: true, Producer: &stream.Producer{ID: "p", Seq: n}})
			}
			written <- err
		}()
		begun, restarted := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(restarted)
			<-begun // who was never answered is told so, and does not wait
			for range 3 {
				time.Sleep(30 * time.Millisecond)
				server.Stop()
				time.Sleep(10 * time.Millisecond)
				server.Restart()
			}
		}()
		begin := sync.OnceFunc(func() { close(begun) })
		got, err := collect(ctx, c, r, begin)
		begin()
		<-restarted
		require.NoError(t, err)
		require.NoError(t, <-written)
		require.Equal(t, want(n), got)
	})
}

// TestTailThroughCutAnswers breaks every answer after a few bytes more than
// the one before: in an event, between a data and its control event, in a body.
func TestTailThroughCutAnswers(t *testing.T) {
	eachWay(t, func(t *testing.T, server *memserver.Server, c *client.Client, contentType string, r client.TailRequest) {
		ctx := t.Context()
		require.NoError(t, write(ctx, c, contentType, 0, 2))
		var answers atomic.Int64
		server.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			n := answers.Add(1)
			if r.Method != http.MethodGet || n < 2 || n > 6 {
				next.ServeHTTP(w, r)
				return
			}
			memserver.CutAfter(int(n*n*3))(w, r, next)
		})
		var got strings.Builder
		for chunk, err := range c.Tail(ctx, "a", r) {
			require.NoError(t, err)
			for _, record := range chunk.Records {
				for _, field := range strings.Fields(string(record.Body)) {
					got.WriteString(field + ";")
				}
			}
			if i := strings.Count(got.String(), ";"); i < 12 {
				require.NoError(t, write(ctx, c, contentType, i, i+1))
			} else if !chunk.Closed {
				_, err := c.Append(ctx, "a", &stream.AppendRequest{Close: true})
				require.NoError(t, err)
			}
		}
		require.Equal(t, want(12), got.String())
	})
}

func TestTailFromNow(t *testing.T) {
	eachWay(t, func(t *testing.T, server *memserver.Server, c *client.Client, contentType string, r client.TailRequest) {
		ctx := t.Context()
		require.NoError(t, write(ctx, c, contentType, 0, 3))
		// The tail is learned before the first live request, so that what comes
		// between a first answer that is lost and the second is not missed.
		var once atomic.Bool
		wrote := make(chan error, 1)
		server.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			next.ServeHTTP(w, r)
			if r.Method == http.MethodHead && once.CompareAndSwap(false, true) {
				go func() {
					err := write(ctx, c, contentType, 3, 5)
					if err == nil {
						_, err = c.Close(ctx, "a")
					}
					wrote <- err
				}()
			}
		})
		r.From = client.Now()
		got, err := collect(ctx, c, r)
		require.NoError(t, err)
		require.NoError(t, <-wrote)
		require.Equal(t, "3;4;", got)
	})
}

func TestTailEnds(t *testing.T) {
	eachWay(t, func(t *testing.T, server *memserver.Server, c *client.Client, contentType string, r client.TailRequest) {
		t.Run("with its context", func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			require.NoError(t, write(ctx, c, contentType, 0, 1))
			for chunk, err := range c.Tail(ctx, "a", r) {
				if err != nil {
					require.ErrorIs(t, err, context.Canceled)
					return
				}
				require.NotEmpty(t, chunk.Records)
				cancel()
			}
			t.Fatal("the end of the context was not yielded")
		})
		t.Run("with its consumer", func(t *testing.T) {
			for _, err := range c.Tail(t.Context(), "a", r) {
				require.NoError(t, err)
				break
			}
		})
		t.Run("with the stream", func(t *testing.T) {
			first := true
			for _, err := range c.Tail(t.Context(), "a", r) {
				if first {
					require.NoError(t, err)
					require.NoError(t, c.Delete(t.Context(), "a"))
					first = false
					continue
				}
				require.Equal(t, stream.CodeNotFound, stream.CodeOf(err))
				return
			}
			t.Fatal("the stream's end was not yielded")
		})
		t.Run("without a server", func(t *testing.T) {
			server.Stop()
			for _, err := range c.Tail(t.Context(), "a", r) {
				require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err), "only what worked once is tried again")
			}
			server.Restart()
		})
	})
}

// TestTailHoldsTheServerToItsPromise: a record left out or repeated is an
// error, not a surprise later.
func TestTailHoldsTheServerToItsPromise(t *testing.T) {
	server, c := start(t, client.Options{})
	for what, events := range map[string]string{
		"a gap":             "event: data\nid: 9\ndata:[{\"seq\":8,\"timestamp\":1,\"body\":\"\"}]\n\nevent: control\nid: 9\ndata:{\"next_seq\":9,\"up_to_date\":true}\n\n",
		"a repeat":          "event: data\nid: 4\ndata:[{\"seq\":3,\"timestamp\":1,\"body\":\"\"}]\n\nevent: control\nid: 4\ndata:{\"next_seq\":4,\"up_to_date\":true}\n\n",
		"a leap":            "event: control\nid: 9\ndata:{\"next_seq\":9,\"up_to_date\":true}\n\n",
		"two data events":   "event: data\ndata:[]\n\nevent: data\ndata:[]\n\n",
		"data that is not":  "event: data\ndata:{\n\n",
		"a control without": "event: control\ndata:nothing\n\n",
	} {
		t.Run(what, func(t *testing.T) {
			server.Intercept(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write([]byte(events))
			})
			for _, err := range c.Tail(t.Context(), "a", client.TailRequest{From: client.At(7)}) {
				require.Equal(t, stream.CodeInternal, stream.CodeOf(err))
				require.ErrorContains(t, err, "not understood")
			}
		})
	}
}
