package client_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/internal/memserver"
	"github.com/picomq/picomq/stream"
)

// parentName is a name that needs escaping.
const parentName = "chats/ä b%"

// fork is a create of a fork at a position.
func fork(from stream.Name, at client.Position) client.CreateRequest {
	return client.CreateRequest{Fork: &client.ForkRequest{From: from, At: &at}}
}

// chat makes a stream of four records, of which the first is trimmed.
func chat(t *testing.T, c *client.Client, name stream.Name) {
	t.Helper()
	_, err := c.Create(t.Context(), name, client.CreateRequest{
		Config: stream.Config{ContentType: "text/plain", Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 60}},
	})
	require.NoError(t, err)
	_, err = c.Append(t.Context(), name, &stream.AppendRequest{Records: records("0", "1", "2", "3")})
	require.NoError(t, err)
	_, err = c.Trim(t.Context(), name, 1)
	require.NoError(t, err)
}

// TestForks: every way to say where a fork begins, what it then holds, and what
// HEAD tells of both.
func TestForks(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, client.Options{})
	chat(t, c, parentName)
	for _, x := range []struct {
		at   client.Position
		next stream.Offset
	}{
		{client.Start(), 1},
		{client.At(2), 2},
		{client.Token("0000000000000000_0000000000000003"), 3},
		{client.Back(1), 3},
		{client.Back(1000), 1},
		{client.Now(), 4},
	} {
		name := stream.Name("fork at " + x.at.String())
		created, err := c.Create(ctx, name, fork(parentName, x.at))
		require.NoError(t, err, name)
		require.Equal(t, client.Created{New: true, Next: client.At(x.next)}, created, name)
		again, err := c.Create(ctx, name, fork(parentName, x.at))
		require.NoError(t, err, name)
		require.Equal(t, client.Created{Next: client.At(x.next)}, again, name)
		info, err := c.Head(ctx, name)
		require.NoError(t, err, name)
		require.Equal(t, client.Info{
			Name:   name,
			Config: stream.Config{ContentType: "text/plain", Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 60}},
			Start:  1, Next: client.At(x.next),
			Fork: &client.Fork{From: parentName, At: x.next},
		}, info)
	}
	info, err := c.Head(ctx, parentName)
	require.NoError(t, err)
	require.Equal(t, uint64(6), info.Forks)
	require.Nil(t, info.Fork)

	_, err = c.Append(ctx, "fork at 2", &stream.AppendRequest{Records: records("mine")})
	require.NoError(t, err)
	chunk, err := c.Read(ctx, "fork at 2", client.ReadRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"1", "mine"}, bodies(chunk))
	chunk, err = c.Read(ctx, parentName, client.ReadRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", "3"}, bodies(chunk))
}

// TestForkWithItsOwn configuration and first record, created closed.
func TestForkWithItsOwn(t *testing.T) {
	ctx := t.Context()
	_, c := start(t, client.Options{})
	chat(t, c, "a")
	r := fork("a", client.At(2))
	r.Config = stream.Config{ContentType: "text/plain", Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 7}}
	r.Body, r.Closed = []byte("last"), true
	created, err := c.Create(ctx, "b", r)
	require.NoError(t, err)
	require.Equal(t, client.Created{New: true, Next: client.At(3), Closed: true}, created)
	info, err := c.Head(ctx, "b")
	require.NoError(t, err)
	require.Equal(t, r.Config, info.Config)

	r = fork("a", client.Now())
	r.Fork.At = nil
	created, err = c.Create(ctx, "c", r)
	require.NoError(t, err)
	require.Equal(t, client.At(4), created.Next)
}

// TestDurableForks: through Durable Streams the offset is a token, and a fork
// can begin inside of a record.
func TestDurableForks(t *testing.T) {
	ctx := t.Context()
	server, pico := start(t, client.Options{})
	c := connect(t, server, client.Options{Protocol: client.DurableStreams})
	chat(t, pico, parentName)
	_, err := pico.Append(ctx, parentName, &stream.AppendRequest{Records: records("äöü")})
	require.NoError(t, err)
	info, err := c.Head(ctx, parentName)
	require.NoError(t, err)

	for name, at := range map[stream.Name]client.Position{"now": client.Now(), "token": info.Next, "number": client.At(5), "back": client.Back(0)} {
		_, err := c.Create(ctx, name, fork(parentName, at))
		require.NoError(t, err, name)
		head, err := c.Head(ctx, name)
		require.NoError(t, err, name)
		require.Equal(t, info.Next, head.Next, name)
		require.Nil(t, head.Fork, "Durable Streams does not tell")
	}
	r := fork(parentName, client.Back(1))
	r.Fork.Sub = 2
	_, err = c.Create(ctx, "cut", r)
	require.NoError(t, err)
	chunk, err := c.Read(ctx, "cut", client.ReadRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"123ä"}, bodies(chunk))
	head, err := pico.Head(ctx, "cut")
	require.NoError(t, err)
	require.Equal(t, &client.Fork{From: parentName, At: 4, Sub: 2}, head.Fork)
}

// TestDeletedParent: who asks for a stream that its forks keep is told so, in
// either protocol and by every request.
func TestDeletedParent(t *testing.T) {
	for _, protocol := range []client.Protocol{client.Pico, client.DurableStreams} {
		t.Run(protocol.String(), func(t *testing.T) {
			ctx := t.Context()
			server, pico := start(t, client.Options{})
			c := connect(t, server, client.Options{Protocol: protocol})
			chat(t, pico, "a")
			_, err := c.Create(ctx, "b", fork("a", client.At(2)))
			require.NoError(t, err)
			require.NoError(t, c.Delete(ctx, "a"))
			for what, call := range map[string]func() error{
				"head":     func() error { _, err := c.Head(ctx, "a"); return err },
				"read":     func() error { _, err := c.Read(ctx, "a", client.ReadRequest{}); return err },
				"read now": func() error { _, err := c.Read(ctx, "a", client.ReadRequest{From: client.Now()}); return err },
				"append": func() error {
					_, err := c.Append(ctx, "a", &stream.AppendRequest{ContentType: "text/plain", Records: records("x")})
					return err
				},
				"delete": func() error { return c.Delete(ctx, "a") },
				"tail": func() error {
					for _, err := range c.Tail(ctx, "a", client.TailRequest{}) {
						return err
					}
					return nil
				},
			} {
				err := call()
				require.Equal(t, stream.CodeDeleted, stream.CodeOf(err), "%s: %v", what, err)
				require.ErrorContains(t, err, "deleted", what)
			}
			_, err = c.Create(ctx, "a", text("text/plain"))
			require.Equal(t, stream.CodeConflict, stream.CodeOf(err))
			_, err = c.Create(ctx, "c", fork("a", client.At(2)))
			require.Equal(t, stream.CodeConflict, stream.CodeOf(err))
			created, err := c.Create(ctx, "b", fork("a", client.At(2)))
			require.NoError(t, err, "the fork exists whatever became of its parent")
			require.False(t, created.New)

			require.NoError(t, c.Delete(ctx, "b"))
			_, err = c.Head(ctx, "a")
			require.Equal(t, stream.CodeNotFound, stream.CodeOf(err), "the last fork takes it along")
		})
	}
}

// TestTailOfADeletedParent: a follower learns that the stream was deleted, and
// is not sent round and round.
func TestTailOfADeletedParent(t *testing.T) {
	eachWay(t, func(t *testing.T, _ *memserver.Server, c *client.Client, contentType string, r client.TailRequest) {
		ctx := t.Context()
		require.NoError(t, write(ctx, c, contentType, 0, 3))
		_, err := c.Create(ctx, "b", client.CreateRequest{Fork: &client.ForkRequest{From: "a"}})
		require.NoError(t, err)
		var last error
		deleted := false
		for _, err := range c.Tail(ctx, "a", r) {
			if last = err; err == nil && !deleted {
				deleted = true
				require.NoError(t, c.Delete(ctx, "a"))
			}
		}
		want := stream.CodeDeleted
		if c.Protocol() == client.DurableStreams {
			want = stream.CodeTrimmed
		}
		require.Equal(t, want, stream.CodeOf(last), "%v", last)
		require.ErrorContains(t, last, "was deleted")
	})
}

// TestForkRefusals: the errors name what was asked for, and keep their fields.
func TestForkRefusals(t *testing.T) {
	ctx := t.Context()
	server, c := start(t, client.Options{})
	durable := connect(t, server, client.Options{Protocol: client.DurableStreams})
	chat(t, c, "a")

	var refused *stream.Error
	_, err := c.Create(ctx, "b", fork("a", client.At(0)))
	require.ErrorAs(t, err, &refused)
	require.Equal(t, stream.CodeTrimmed, refused.Code)
	require.Equal(t, stream.Offset(1), refused.Start)
	_, err = durable.Create(ctx, "b", fork("a", client.At(0)))
	require.Equal(t, stream.CodeTrimmed, stream.CodeOf(err))
	for _, protocol := range []*client.Client{c, durable} {
		_, err = protocol.Create(ctx, "b", fork("a", client.At(5)))
		require.Equal(t, stream.CodeBadRequest, stream.CodeOf(err))
		_, err = protocol.Create(ctx, "b", fork("b", client.Now()))
		require.Equal(t, stream.CodeBadRequest, stream.CodeOf(err))
		_, err = protocol.Create(ctx, "b", fork("nowhere", client.Now()))
		require.EqualError(t, err, `there is no stream "nowhere"`)
		require.Equal(t, stream.CodeNotFound, stream.CodeOf(err))
		_, err = protocol.Create(ctx, "b", fork("nowhere", client.Back(1)))
		require.EqualError(t, err, `there is no stream "nowhere"`)
		other := fork("a", client.Now())
		other.Config.ContentType = "image/png"
		_, err = protocol.Create(ctx, "b", other)
		require.Equal(t, stream.CodeConflict, stream.CodeOf(err))
		_, err = protocol.Create(ctx, "a", fork("nowhere", client.Now()))
		require.Equal(t, stream.CodeConflict, stream.CodeOf(err), "what has the name is compared first")
	}

	server.Intercept(func(http.ResponseWriter, *http.Request, http.Handler) { t.Error("a request was sent") })
	sub := fork("a", client.At(1))
	sub.Fork.Sub = 1
	for what, call := range map[string]func() error{
		"a sub-offset in Pico":      func() error { _, err := c.Create(ctx, "b", sub); return err },
		"a foreign token":           func() error { _, err := c.Create(ctx, "b", fork("a", client.Token("x"))); return err },
		"a time":                    func() error { _, err := c.Create(ctx, "b", fork("a", client.Since(1))); return err },
		"the start, which is never": func() error { _, err := durable.Create(ctx, "b", fork("a", client.Start())); return err },
		"a parent below the other":  func() error { _, err := c.Create(ctx, "b", fork("v1/stream/a", client.Now())); return err },
	} {
		require.Equal(t, stream.CodeUnsupported, stream.CodeOf(call()), what)
	}
	_, err = c.Create(ctx, "b", fork("a//b", client.Now()))
	require.Equal(t, stream.CodeBadRequest, stream.CodeOf(err))
}

// TestForkWhoseAnswerIsLost: it is not repeated, but its caller may: the second
// finds the first, though the parent has grown.
func TestForkWhoseAnswerIsLost(t *testing.T) {
	ctx := t.Context()
	server, c := start(t, client.Options{})
	chat(t, c, "a")
	server.Intercept(memserver.LoseAnswer)
	r := client.CreateRequest{Fork: &client.ForkRequest{From: "a"}}
	_, err := c.Create(ctx, "b", r)
	require.Equal(t, stream.CodeOutcomeUnknown, stream.CodeOf(err))
	server.Intercept(nil)
	_, err = c.Append(ctx, "a", &stream.AppendRequest{Records: records("4")})
	require.NoError(t, err)
	created, err := c.Create(ctx, "b", r)
	require.NoError(t, err)
	require.Equal(t, client.Created{Next: client.At(4)}, created)
	info, err := c.Head(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, uint64(1), info.Forks)
}

// TestStrangeForks: an origin that is no name is not believed.
func TestStrangeForks(t *testing.T) {
	server, c := start(t, client.Options{})
	for _, path := range []string{"/%", "/a//b", "/"} {
		server.Intercept(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Pico-Next-Seq", "1")
			w.Header().Set("Pico-Forked-From", path)
		})
		_, err := c.Head(t.Context(), "a")
		require.ErrorContains(t, err, "not understood", path)
	}
}
