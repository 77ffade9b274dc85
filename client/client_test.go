package client_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/internal/memserver"
	"github.com/picomq/picomq/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs a server and makes a client of it that both end with the test.
func start(t *testing.T, options client.Options) (*memserver.Server, *client.Client) {
	t.Helper()
	server := memserver.Start(t)
	return server, connect(t, server, options)
}

func connect(t *testing.T, server *memserver.Server, options client.Options) *client.Client {
	t.Helper()
	c, err := client.New(server.URL, options)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func records(bodies ...string) []stream.Record {
	out := make([]stream.Record, len(bodies))
	for i, b := range bodies {
		out[i].Body = []byte(b)
	}
	return out
}

func bodies(chunk *client.Chunk) []string {
	out := []string{}
	for _, r := range chunk.Records {
		out = append(out, string(r.Body))
	}
	return out
}

func text(contentType string) client.CreateRequest {
	return client.CreateRequest{Config: stream.Config{ContentType: contentType}}
}

func TestPicoRequests(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, client.Options{})

	created, err := c.Create(ctx, "logs/ä b%", client.CreateRequest{
		Config: stream.Config{ContentType: "text/plain; charset=utf-8", Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 60}},
		Body:   []byte("zero"),
	})
	require.NoError(t, err)
	require.Equal(t, client.Created{New: true, Next: client.At(1)}, created)

	batch := records("one", "", "three")
	batch[0].Headers = []stream.Header{{Name: "k", Value: "v"}, {Name: "k", Value: "w"}}
	appended, err := c.Append(ctx, "logs/ä b%", &stream.AppendRequest{Records: batch})
	require.NoError(t, err)
	require.Equal(t, stream.Offset(1), appended.First)
	require.True(t, appended.FirstKnown)
	require.Equal(t, client.At(4), appended.Next)
	require.NotZero(t, appended.Time)

	_, err = c.Append(ctx, "logs/ä b%", &stream.AppendRequest{ContentType: "text/plain", Records: records("four")})
	require.NoError(t, err, "one body goes in the stream's own type")
	_, err = c.Append(ctx, "logs/ä b%", &stream.AppendRequest{ContentType: "image/png", Records: records("five")})
	require.Equal(t, stream.CodeConflict, stream.CodeOf(err))

	chunk, err := c.Read(ctx, "logs/ä b%", client.ReadRequest{From: client.At(1), MaxRecords: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"one", ""}, bodies(chunk))
	require.Equal(t, batch[0].Headers, chunk.Records[0].Headers)
	require.Equal(t, stream.Offset(2), chunk.Records[1].Offset)
	require.Equal(t, client.At(3), chunk.Next)
	require.False(t, chunk.UpToDate)
	chunk, err = c.Read(ctx, "logs/ä b%", client.ReadRequest{From: client.Back(2)})
	require.NoError(t, err)
	require.Equal(t, []string{"three", "four"}, bodies(chunk))
	require.True(t, chunk.UpToDate)

	start, err := c.Trim(ctx, "logs/ä b%", 3)
	require.NoError(t, err)
	require.Equal(t, stream.Offset(3), start)

	closed, err := c.Close(ctx, "logs/ä b%")
	require.NoError(t, err)
	require.True(t, closed.Closed)

	info, err := c.Head(ctx, "logs/ä b%")
	require.NoError(t, err)
	require.Equal(t, client.Info{
		Name:   "logs/ä b%",
		Config: stream.Config{ContentType: "text/plain; charset=utf-8", Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 60}},
		Start:  3, Next: client.At(5), Closed: true,
	}, info)

	page, err := c.List(ctx, "logs/", "", 10)
	require.NoError(t, err)
	require.Equal(t, client.Page{Streams: []client.Info{info}}, page)

	require.NoError(t, c.Delete(ctx, "logs/ä b%"))
	_, err = c.Head(ctx, "logs/ä b%")
	require.Equal(t, stream.CodeNotFound, stream.CodeOf(err))
}

func TestDurableRequests(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, client.Options{Protocol: client.DurableStreams})

	at := stream.Time(4_000_000_000_123)
	created, err := c.Create(ctx, "j", client.CreateRequest{
		Config: stream.Config{ContentType: "application/json", Expiry: stream.Expiry{Kind: stream.ExpiresAt, At: at}},
		Body:   []byte(`[0]`),
	})
	require.NoError(t, err)
	require.True(t, created.New)
	tail, known := created.Next.Offset()
	require.True(t, known)
	require.Equal(t, stream.Offset(1), tail)

	_, err = c.Append(ctx, "j", &stream.AppendRequest{ContentType: "application/json", Records: records(`[1,1]`)})
	require.NoError(t, err)
	_, err = c.Append(ctx, "j", &stream.AppendRequest{ContentType: "application/json", Records: records(`{"a":1.10}`, `3`), Close: true})
	require.NoError(t, err)

	chunk, err := c.Read(ctx, "j", client.ReadRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{`0`, `[1,1]`, `{"a":1.10}`, `3`}, bodies(chunk), "an array that is a record stays one")
	require.True(t, chunk.Closed)

	chunk, err = c.Read(ctx, "j", client.ReadRequest{From: client.Back(1)})
	require.NoError(t, err)
	require.Equal(t, []string{`3`}, bodies(chunk))

	info, err := c.Head(ctx, "j")
	require.NoError(t, err)
	require.Equal(t, stream.Expiry{Kind: stream.ExpiresAt, At: at}, info.Config.Expiry)
	require.True(t, info.Closed)
	require.NoError(t, c.Delete(ctx, "j"))
}

func TestWhatAProtocolCannotExpress(t *testing.T) {
	ctx := t.Context()
	server, pico := start(t, client.Options{})
	durable := connect(t, server, client.Options{Protocol: client.DurableStreams})
	server.Intercept(func(http.ResponseWriter, *http.Request, http.Handler) { t.Error("a request was sent") })

	zero, seq := stream.Offset(0), "1"
	for what, call := range map[string]func() error{
		"list":      func() error { _, err := durable.List(ctx, "", "", 0); return err },
		"trim":      func() error { _, err := durable.Trim(ctx, "a", 1); return err },
		"time":      func() error { _, err := durable.Read(ctx, "a", client.ReadRequest{From: client.Since(1)}); return err },
		"condition": func() error { _, err := durable.Append(ctx, "a", &stream.AppendRequest{Match: &zero}); return err },
		"headers": func() error {
			_, err := durable.Append(ctx, "a", &stream.AppendRequest{Records: []stream.Record{{Headers: make([]stream.Header, 1)}}})
			return err
		},
		"two records that are not JSON": func() error {
			_, err := durable.Append(ctx, "a", &stream.AppendRequest{ContentType: "text/plain", Records: records("a", "b")})
			return err
		},
		"stream-seq":                  func() error { _, err := pico.Append(ctx, "a", &stream.AppendRequest{StreamSeq: &seq}); return err },
		"a name below the other root": func() error { _, err := pico.Head(ctx, "v1/stream/a"); return err },
		"a foreign token":             func() error { _, err := pico.Read(ctx, "a", client.ReadRequest{From: client.Token("x")}); return err },
	} {
		require.Equal(t, stream.CodeUnsupported, stream.CodeOf(call()), what)
	}
	_, err := pico.Head(ctx, "a//b")
	require.Equal(t, stream.CodeBadRequest, stream.CodeOf(err))
}

// TestRefusalsKeepTheirFields: what the server knows reaches the caller, in
// either protocol.
func TestRefusalsKeepTheirFields(t *testing.T) {
	for _, protocol := range []client.Protocol{client.Pico, client.DurableStreams} {
		t.Run(protocol.String(), func(t *testing.T) {
			ctx := t.Context()
			_, c := start(t, client.Options{Protocol: protocol})
			_, err := c.Create(ctx, "a", text("text/plain"))
			require.NoError(t, err)
			put := func(epoch, seq uint64) *stream.Error {
				_, err := c.Append(ctx, "a", &stream.AppendRequest{
					ContentType: "text/plain", Records: records("x"), Producer: &stream.Producer{ID: "p", Epoch: epoch, Seq: seq},
				})
				if err == nil {
					return nil
				}
				var refused *stream.Error
				require.ErrorAs(t, err, &refused)
				return refused
			}
			require.Nil(t, put(5, 0))
			fenced := put(4, 0)
			require.Equal(t, stream.CodeFenced, fenced.Code)
			require.Equal(t, uint64(5), fenced.Epoch)
			gap := put(5, 7)
			require.Equal(t, stream.CodeSequenceGap, gap.Code)
			require.Equal(t, uint64(1), gap.Expected)
			require.Equal(t, uint64(7), gap.Received)

			_, err = c.Create(ctx, "a", text("text/html"))
			require.Equal(t, stream.CodeConflict, stream.CodeOf(err))
			_, err = c.Close(ctx, "a")
			require.NoError(t, err)
			closed := put(5, 1)
			require.Equal(t, stream.CodeClosed, closed.Code)
			require.Equal(t, stream.Offset(1), closed.Tail)
			require.True(t, closed.Closed)
			require.Contains(t, closed.Error(), `POST "/a": `)
		})
	}
}

func TestPicoRefusals(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, client.Options{})
	_, err := c.Create(ctx, "a", text("text/plain"))
	require.NoError(t, err)
	_, err = c.Append(ctx, "a", &stream.AppendRequest{Records: records("0", "1", "2")})
	require.NoError(t, err)

	match := stream.Offset(2)
	_, err = c.Append(ctx, "a", &stream.AppendRequest{Records: records("x"), Match: &match})
	var refused *stream.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, stream.CodeMatchFailed, refused.Code)
	require.Equal(t, stream.Offset(3), refused.Tail)

	_, err = c.Trim(ctx, "a", 2)
	require.NoError(t, err)
	_, err = c.Read(ctx, "a", client.ReadRequest{From: client.At(1)})
	require.ErrorAs(t, err, &refused)
	require.Equal(t, stream.CodeTrimmed, refused.Code)
	require.Equal(t, stream.Offset(2), refused.Start)
}

// TestStartIsTheFirstRetained: also on a server that takes a read without a
// position to begin at 0. An offset stays exact.
func TestStartIsTheFirstRetained(t *testing.T) {
	literal := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if query := r.URL.Query(); r.Method == http.MethodGet && !query.Has("seq") {
			query.Set("seq", "0")
			r.URL.RawQuery = query.Encode()
		}
		next.ServeHTTP(w, r)
	}
	ctx := t.Context()
	server, c := start(t, client.Options{})
	_, err := c.Create(ctx, "a", text("text/plain"))
	require.NoError(t, err)
	_, err = c.Append(ctx, "a", &stream.AppendRequest{Records: records("0", "1", "2"), Close: true})
	require.NoError(t, err)
	_, err = c.Trim(ctx, "a", 2)
	require.NoError(t, err)

	server.Intercept(literal)
	chunk, err := c.Read(ctx, "a", client.ReadRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"2"}, bodies(chunk))
	for _, live := range []client.Live{client.LiveEvents, client.LivePoll} {
		var got []string
		for chunk, err := range c.Tail(ctx, "a", client.TailRequest{Live: live}) {
			require.NoError(t, err)
			got = append(got, bodies(chunk)...)
		}
		require.Equal(t, []string{"2"}, got)
	}
	_, err = c.Read(ctx, "a", client.ReadRequest{From: client.At(0)})
	require.Equal(t, stream.CodeTrimmed, stream.CodeOf(err))
}

// TestNotFound: every request says it alike, in either protocol, unless the
// answer is none of a server of streams.
func TestNotFound(t *testing.T) {
	for _, protocol := range []client.Protocol{client.Pico, client.DurableStreams} {
		ctx := t.Context()
		server, c := start(t, client.Options{Protocol: protocol})
		calls := map[string]func() error{
			"head":   func() error { _, err := c.Head(ctx, "a"); return err },
			"read":   func() error { _, err := c.Read(ctx, "a", client.ReadRequest{}); return err },
			"append": func() error { _, err := c.Close(ctx, "a"); return err },
			"delete": func() error { return c.Delete(ctx, "a") },
		}
		for what, call := range calls {
			err := call()
			require.EqualError(t, err, `there is no stream "a"`, what)
			require.Equal(t, stream.CodeNotFound, stream.CodeOf(err), what)
		}
		server.Intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) { http.NotFound(w, r) })
		for what, call := range calls {
			require.ErrorContains(t, call(), "404 Not Found", what)
			require.ErrorContains(t, call(), "is this a PicoMQ server's public address?", what)
		}
	}
}

// TestNamesBesideTheOtherRoot: only what is below it cannot be spelled.
func TestNamesBesideTheOtherRoot(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, client.Options{})
	for _, name := range []stream.Name{"v1/stream", "v1/streams/a", "v1"} {
		_, err := c.Create(ctx, name, client.CreateRequest{})
		require.NoError(t, err, name)
		_, err = c.Append(ctx, name, &stream.AppendRequest{Records: records("x")})
		require.NoError(t, err, name)
		require.NoError(t, c.Delete(ctx, name), name)
	}
}

// TestLostAnswers: a producer's append is repeated until it is answered, and
// written once; others are not repeated.
func TestLostAnswers(t *testing.T) {
	for _, protocol := range []client.Protocol{client.Pico, client.DurableStreams} {
		t.Run(protocol.String(), func(t *testing.T) {
			ctx := t.Context()
			var told atomic.Int32
			server, c := start(t, client.Options{Protocol: protocol, Notify: func(error, time.Duration) { told.Add(1) }})
			_, err := c.Create(ctx, "a", text("text/plain"))
			require.NoError(t, err)
			var lost atomic.Int32
			server.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if lost.Add(1) <= 2 {
					memserver.LoseAnswer(w, r, next)
				}
				next.ServeHTTP(w, r)
			})
			appended, err := c.Append(ctx, "a", &stream.AppendRequest{
				ContentType: "text/plain", Records: records("once"), Producer: &stream.Producer{ID: "p"},
			})
			require.NoError(t, err)
			require.True(t, appended.Duplicate)
			require.Equal(t, int32(2), told.Load())

			server.Intercept(memserver.LoseAnswer)
			_, err = c.Append(ctx, "a", &stream.AppendRequest{ContentType: "text/plain", Records: records("perhaps")})
			require.Equal(t, stream.CodeOutcomeUnknown, stream.CodeOf(err))
			_, err = c.Head(ctx, "a")
			require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
			require.Equal(t, int32(2), told.Load(), "nothing else was tried again")

			server.Intercept(nil)
			chunk, err := c.Read(ctx, "a", client.ReadRequest{})
			require.NoError(t, err)
			got := fmt.Sprint(bodies(chunk))
			require.Contains(t, []string{"[once perhaps]", "[onceperhaps]"}, got)
		})
	}
}

// TestRefusedForNow: a full queue is worth another try for everybody, a server
// that may have done it only for those who can repeat it.
func TestRefusedForNow(t *testing.T) {
	ctx := t.Context()
	server, c := start(t, client.Options{})
	_, err := c.Create(ctx, "a", text("text/plain"))
	require.NoError(t, err)
	refuseOnce := func(err error) *atomic.Int32 {
		var calls atomic.Int32
		server.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			server.Streams.FailWith(nil)
			if calls.Add(1) == 1 {
				server.Streams.FailWith(err)
			}
			next.ServeHTTP(w, r)
			server.Streams.FailWith(nil)
		})
		return &calls
	}
	calls := refuseOnce(stream.Errorf(stream.CodeOverloaded, "the queue is full"))
	_, err = c.Append(ctx, "a", &stream.AppendRequest{Records: records("x")})
	require.NoError(t, err)
	require.Equal(t, int32(2), calls.Load())

	calls = refuseOnce(stream.Errorf(stream.CodeUnavailable, "the log is away"))
	_, err = c.Append(ctx, "a", &stream.AppendRequest{Records: records("x")})
	require.ErrorContains(t, err, "the log is away")
	require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
	require.Equal(t, int32(1), calls.Load())

	for _, protocol := range []client.Protocol{client.Pico, client.DurableStreams} {
		c := connect(t, server, client.Options{Protocol: protocol})
		request := stream.AppendRequest{ContentType: "text/plain", Records: records("x")}
		refuseOnce(stream.Errorf(stream.CodeUnavailable, "nothing was written"))
		_, err := c.Append(ctx, "a", &request)
		require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err), protocol)
		refuseOnce(stream.Errorf(stream.CodeOutcomeUnknown, "perhaps"))
		_, err = c.Append(ctx, "a", &request)
		require.Equal(t, stream.CodeOutcomeUnknown, stream.CodeOf(err), protocol)
	}

	calls = refuseOnce(stream.Errorf(stream.CodeUnavailable, "the log is away"))
	_, err = c.Append(ctx, "a", &stream.AppendRequest{Records: records("x"), Producer: &stream.Producer{ID: "p"}})
	require.NoError(t, err)
	require.Equal(t, int32(2), calls.Load())
}

// TestPausesGrow while there is no server that says when to try again.
func TestPausesGrow(t *testing.T) {
	server := memserver.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var pauses []time.Duration
	c := connect(t, server, client.Options{Notify: func(_ error, pause time.Duration) {
		if pauses = append(pauses, pause); len(pauses) == 3 {
			cancel()
		}
	}})
	server.Stop()
	_, err := c.Append(ctx, "a", &stream.AppendRequest{Records: records("x"), Producer: &stream.Producer{ID: "p"}})
	require.ErrorIs(t, err, context.Canceled)
	require.Less(t, pauses[0], pauses[2])
	require.Less(t, pauses[0], stream.DefaultRetryAfter)
	server.Restart()
}

func TestRetriesEnd(t *testing.T) {
	server := memserver.Start(t)
	server.Stop()
	producer := &stream.AppendRequest{Records: records("x"), Producer: &stream.Producer{ID: "p"}}

	once := connect(t, server, client.Options{RetryFor: -1})
	_, err := once.Append(t.Context(), "a", producer)
	require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err), "what never left was not carried out")

	ctx, cancel := context.WithCancel(t.Context())
	patient := connect(t, server, client.Options{Notify: func(error, time.Duration) { cancel() }})
	_, err = patient.Append(ctx, "a", producer)
	require.ErrorIs(t, err, context.Canceled)
	server.Restart()
}

// TestStrangeAnswers: what a proxy or another server says is reported, not
// believed.
func TestStrangeAnswers(t *testing.T) {
	ctx := t.Context()
	server, c := start(t, client.Options{MaxResponse: 1000})
	answer := func(status int, header http.Header, body string) {
		server.Intercept(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			for name, values := range header {
				w.Header()[name] = values
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
	}
	read := func() error { _, err := c.Read(ctx, "a", client.ReadRequest{}); return err }

	answer(http.StatusTeapot, nil, "<html>\xff teapot </html>")
	require.ErrorContains(t, read(), `GET "/a": 418 I'm a teapot: <html>? teapot </html>`)
	require.Equal(t, stream.CodeInternal, stream.CodeOf(read()))
	answer(http.StatusOK, nil, "hello")
	_, err := c.List(ctx, "", "", 0)
	require.ErrorContains(t, err, "it is no list of streams; is this a PicoMQ server's public address?")
	require.ErrorContains(t, read(), "not understood: it has no Pico-Next-Seq")
	answer(http.StatusOK, http.Header{"Pico-Next-Seq": {"1"}}, "hello")
	require.ErrorContains(t, read(), "not understood")
	answer(http.StatusOK, http.Header{"Pico-Next-Seq": {"1"}}, string(make([]byte, 1001)))
	require.Equal(t, stream.CodeTooLarge, stream.CodeOf(read()))
}

func TestEndpoints(t *testing.T) {
	for endpoint, message := range map[string]string{
		"":                    "scheme must be http or https",
		"localhost:4437":      "scheme must be http or https",
		"ftp://localhost":     "scheme must be http or https",
		"http://":             "names no host",
		"http://a?b=c":        "has a query",
		"127.0.0.1:4437":      `endpoint "127.0.0.1:4437" is not a URL: first path segment`,
		"http://a b/":         "invalid character",
		"http://[::1":         "missing ']'",
		"http://localhost#me": "fragment",
	} {
		_, err := client.New(endpoint, client.Options{})
		require.ErrorContains(t, err, message, endpoint)
	}
	_, err := client.ParseProtocol("amqp")
	require.ErrorContains(t, err, "use pico or ds")
}
