package memstreams

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

// script is a service and what a test does to it.
type script struct {
	*Streams
	t *testing.T
}

func begin(t *testing.T) script { return script{New(), t} }

func records(bodies ...string) []stream.Record {
	var all []stream.Record
	for _, body := range bodies {
		all = append(all, stream.Record{Body: []byte(body)})
	}
	return all
}

// make creates a stream that is no fork.
func (s script) make(name stream.Name, contentType string, bodies ...string) {
	s.t.Helper()
	_, err := s.Create(s.t.Context(), name, &stream.CreateRequest{Config: stream.Config{ContentType: contentType}, Records: records(bodies...)})
	require.NoError(s.t, err)
}

func (s script) fork(name stream.Name, q stream.ForkRequest) (stream.Created, error) {
	return s.Create(s.t.Context(), name, &stream.CreateRequest{Fork: &q})
}

func (s script) mustFork(name, from stream.Name) {
	s.t.Helper()
	made, err := s.fork(name, stream.ForkRequest{From: from})
	require.NoError(s.t, err)
	require.True(s.t, made.New)
}

// requireCode fails the test unless an operation has that code; every refusal
// says something.
func (s script) requireCode(code stream.Code, err error) {
	s.t.Helper()
	require.Error(s.t, err)
	require.Equal(s.t, code, stream.CodeOf(err), err)
	require.NotEmpty(s.t, err.Error())
}

func (s script) bodies(name stream.Name) []string {
	s.t.Helper()
	chunk, err := s.Read(s.t.Context(), name, stream.ReadRequest{From: stream.Position{Kind: stream.FromStart}, MaxBytes: 1 << 20})
	require.NoError(s.t, err)
	bodies := []string{}
	for i := range chunk.Runs {
		for j := range chunk.Runs[i].Len() {
			bodies = append(bodies, string(chunk.Runs[i].Body(j)))
		}
	}
	return bodies
}

func (s script) head(name stream.Name) error {
	_, err := s.Head(s.t.Context(), name)
	return err
}

func (s script) delete(name stream.Name) {
	s.t.Helper()
	require.NoError(s.t, s.Delete(s.t.Context(), name))
}

func offset(o stream.Offset) *stream.Offset { return &o }

func TestWhereForksEnd(t *testing.T) {
	for _, row := range []struct {
		name, contentType string
		at                *stream.Offset
		sub               uint64
		want              []string
		code              stream.Code // instead
	}{
		{"at the tail", "text/plain", nil, 0, []string{"1", "22", "333"}, 0},
		{"at an offset", "text/plain", offset(2), 0, []string{"1"}, 0},
		{"at the start", "text/plain", offset(1), 0, []string{}, 0},
		{"bytes of a record", "text/plain", offset(2), 1, []string{"1", "2"}, 0},
		{"all bytes of a record", "text/plain", offset(2), 2, []string{"1", "22"}, 0},
		{"messages", "application/json", offset(1), 2, []string{"1", "22"}, 0},
		{"messages to the tail", "application/json", offset(1), 3, []string{"1", "22", "333"}, 0},
		{"below the start", "text/plain", offset(0), 0, nil, stream.CodeTrimmed},
		{"beyond the tail", "text/plain", offset(5), 0, nil, stream.CodeBeyondTail},
		{"beyond the record", "text/plain", offset(3), 4, nil, stream.CodeBadRequest},
		{"beyond the last record", "text/plain", offset(4), 1, nil, stream.CodeBadRequest},
		{"messages beyond the tail", "application/json", offset(1), 4, nil, stream.CodeBadRequest},
		{"sub without an offset", "text/plain", nil, 1, nil, stream.CodeBadRequest},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := begin(t)
			s.make("src", row.contentType, "0", "1", "22", "333")
			_, err := s.Trim(t.Context(), "src", 1)
			require.NoError(t, err)
			made, err := s.fork("fork", stream.ForkRequest{From: "src", At: row.at, Sub: row.sub})
			if row.want == nil {
				s.requireCode(row.code, err)
				s.requireCode(stream.CodeNotFound, s.head("fork"))
				info, err := s.Head(t.Context(), "src")
				require.NoError(t, err)
				require.Zero(t, info.Forks, "a refused fork leaves no trace")
				return
			}
			require.NoError(t, err)
			require.Equal(t, row.want, s.bodies("fork"))
			require.Equal(t, stream.Offset(1), made.Start, "what was trimmed stays trimmed")
			end := made.Start + stream.Offset(len(row.want))
			require.Equal(t, end, made.Tail)
			require.Equal(t, &stream.Fork{Parent: 1, From: "src", At: made.Fork.At, Sub: row.sub, End: end}, made.Fork)
		})
	}
}

func TestSourcesThatCannotBeForked(t *testing.T) {
	s := begin(t)
	s.make("src", "text/plain")
	_, err := s.fork("src", stream.ForkRequest{From: "src"})
	s.requireCode(stream.CodeBadRequest, err)
	_, err = s.fork("none", stream.ForkRequest{From: "none"})
	s.requireCode(stream.CodeBadRequest, err)
	_, err = s.fork("fork", stream.ForkRequest{From: "none"})
	s.requireCode(stream.CodeNotFound, err)
	_, err = s.Create(t.Context(), "fork", &stream.CreateRequest{
		Config: stream.Config{ContentType: "text/html"}, Fork: &stream.ForkRequest{From: "src"},
	})
	s.requireCode(stream.CodeConflict, err)
	s.mustFork("fork", "src")
	s.delete("src")
	_, err = s.fork("late", stream.ForkRequest{From: "src"})
	s.requireCode(stream.CodeConflict, err)
}

func TestTheSameForkAgain(t *testing.T) {
	plain := stream.Config{ContentType: "text/plain"}
	for _, row := range []struct {
		name string
		q    stream.CreateRequest
		same bool
	}{
		{"all left out", stream.CreateRequest{Fork: &stream.ForkRequest{From: "src"}}, true},
		{"all named", stream.CreateRequest{Config: plain, Fork: &stream.ForkRequest{From: "src", At: offset(1)}}, true},
		{"another source", stream.CreateRequest{Fork: &stream.ForkRequest{From: "other"}}, false},
		{"another offset", stream.CreateRequest{Fork: &stream.ForkRequest{From: "src", At: offset(0)}}, false},
		{"a sub-offset", stream.CreateRequest{Fork: &stream.ForkRequest{From: "src", At: offset(1), Sub: 1}}, false},
		{"another type", stream.CreateRequest{Config: stream.Config{ContentType: "a/b"}, Fork: &stream.ForkRequest{From: "src"}}, false},
		{"an expiry", stream.CreateRequest{Config: stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 9}}, Fork: &stream.ForkRequest{From: "src"}}, false},
		{"closed", stream.CreateRequest{Closed: true, Fork: &stream.ForkRequest{From: "src"}}, false},
		{"no fork", stream.CreateRequest{Config: plain}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := begin(t)
			s.make("src", "text/plain", "a")
			s.make("other", "text/plain", "a")
			s.mustFork("fork", "src")
			_, err := s.Append(t.Context(), "src", &stream.AppendRequest{Records: records("grown")})
			require.NoError(t, err)
			for range 2 { // the second time the source is gone
				made, err := s.Create(t.Context(), "fork", &row.q)
				if row.same {
					require.NoError(t, err)
					require.False(t, made.New)
				} else {
					s.requireCode(stream.CodeConflict, err)
				}
				_ = s.Delete(t.Context(), "src")
			}
			require.Equal(t, []string{"a"}, s.bodies("fork"))
		})
	}
}

func TestForksAreIndependent(t *testing.T) {
	s := begin(t)
	s.make("src", "text/plain", "a", "b")
	s.mustFork("fork", "src")
	for _, name := range []stream.Name{"src", "fork"} {
		_, err := s.Append(t.Context(), name, &stream.AppendRequest{Records: records(string(name))})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"a", "b", "src"}, s.bodies("src"))
	require.Equal(t, []string{"a", "b", "fork"}, s.bodies("fork"))
	_, err := s.Trim(t.Context(), "src", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "fork"}, s.bodies("fork"))
	_, err = s.Trim(t.Context(), "fork", 1)
	require.NoError(t, err)
	require.Equal(t, []string{"b", "fork"}, s.bodies("fork"))
	require.Empty(t, s.bodies("src"))
}

func TestDeletedStreamsGoWithTheirLastFork(t *testing.T) {
	s := begin(t)
	s.make("a", "text/plain", "1")
	s.mustFork("b", "a")
	s.mustFork("c", "b")
	s.mustFork("d", "b")
	s.delete("a")
	s.delete("b")
	for _, name := range []stream.Name{"a", "b"} {
		s.requireCode(stream.CodeDeleted, s.head(name))
		s.requireCode(stream.CodeDeleted, s.Delete(t.Context(), name))
		_, err := s.Append(t.Context(), name, &stream.AppendRequest{Records: records("x")})
		s.requireCode(stream.CodeDeleted, err)
		_, err = s.Create(t.Context(), name, &stream.CreateRequest{})
		s.requireCode(stream.CodeConflict, err)
		detail, err := s.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.True(t, detail.Deleted)
		require.Zero(t, detail.Extents)
	}
	page, err := s.List(t.Context(), stream.ListRequest{Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Streams, 2)
	s.delete("c")
	s.requireCode(stream.CodeDeleted, s.head("a"))
	require.Equal(t, []string{"1"}, s.bodies("d"))
	s.delete("d")
	for _, name := range []stream.Name{"a", "b", "c", "d"} {
		s.requireCode(stream.CodeNotFound, s.head(name))
		_, err := s.Inspect(t.Context(), name)
		s.requireCode(stream.CodeNotFound, err)
	}
	require.Empty(t, s.names, "nothing is kept for nobody")
}

func TestExpiryTakesParentsAndForksAlike(t *testing.T) {
	idle := func(ttl uint64) stream.Config {
		return stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: ttl}}
	}
	s := begin(t)
	create := func(name stream.Name, from stream.Name, ttl uint64) {
		q := &stream.CreateRequest{Config: idle(ttl), Records: records("x")}
		if from != "" {
			q.Fork = &stream.ForkRequest{From: from}
		}
		_, err := s.Create(t.Context(), name, q)
		require.NoError(t, err)
	}
	create("kept", "", 100)
	create("short", "kept", 10)
	create("long", "short", 50)
	create("brief", "kept", 5)
	s.delete("kept")
	s.Advance(10 * time.Second)
	s.requireCode(stream.CodeNotFound, s.head("short"))
	s.requireCode(stream.CodeNotFound, s.head("brief"))
	s.requireCode(stream.CodeNotFound, s.head("kept"))
	require.Equal(t, []string{"x", "x", "x"}, s.bodies("long"), "all that it inherited stays with it")
	s.Advance(50 * time.Second)
	s.requireCode(stream.CodeNotFound, s.head("long"))
	require.Empty(t, s.names)
}

func TestForkingKeepsNothingFromExpiring(t *testing.T) {
	s := begin(t)
	_, err := s.Create(t.Context(), "src", &stream.CreateRequest{Config: stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 10}}})
	require.NoError(t, err)
	s.Advance(9 * time.Second)
	s.mustFork("fork", "src")
	s.Advance(time.Second)
	s.requireCode(stream.CodeNotFound, s.head("src"))
	require.NoError(t, s.head("fork"), "its own time began with it")
	s.Advance(9 * time.Second)
	s.requireCode(stream.CodeNotFound, s.head("fork"))
}

func TestBodiesAreParsedAsTheInheritedType(t *testing.T) {
	s := begin(t)
	s.make("src", "application/json", "1")
	spoilt := errors.New("spoilt")
	var asked []string
	create := func(name stream.Name, parsed []stream.Record, err error) error {
		_, err = s.Create(t.Context(), name, &stream.CreateRequest{
			Fork: &stream.ForkRequest{From: "src"},
			Parse: func(contentType string) ([]stream.Record, error) {
				asked = append(asked, contentType)
				return parsed, err
			},
		})
		return err
	}
	require.ErrorIs(t, create("fork", nil, spoilt), spoilt)
	s.requireCode(stream.CodeNotFound, s.head("fork"))
	s.requireCode(stream.CodeBadRequest, create("fork", records("no JSON"), nil))
	require.NoError(t, create("fork", records("2", "3"), nil))
	require.Equal(t, []string{"application/json", "application/json", "application/json"}, asked)
	require.Equal(t, []string{"1", "2", "3"}, s.bodies("fork"))
	info, err := s.Head(t.Context(), "src")
	require.NoError(t, err)
	require.EqualValues(t, 1, info.Forks)
}

func TestWaitersOfADeletedStreamAreTold(t *testing.T) {
	s := begin(t)
	s.make("src", "text/plain", "a")
	s.mustFork("fork", "src")
	info, err := s.Head(t.Context(), "src")
	require.NoError(t, err)
	told := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := s.Wait(ctx, stream.WaitRequest{ID: info.ID, After: info.Tail})
		told <- err
	}()
	require.Eventually(t, func() bool { return s.Waiting() == 1 }, time.Minute, time.Millisecond)
	s.delete("src")
	s.requireCode(stream.CodeDeleted, <-told)
}
