package engine_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
)

// fork makes a fork and returns it.
func (n *node) fork(t *testing.T, name stream.Name, f stream.ForkRequest, bodies ...string) stream.Created {
	t.Helper()
	c, err := n.Create(t.Context(), name, &stream.CreateRequest{Fork: &f, Records: records(bodies...)})
	require.NoError(t, err)
	return c
}

// forkErr is why a fork was refused.
func (n *node) forkErr(t *testing.T, name stream.Name, f stream.ForkRequest) error {
	t.Helper()
	_, err := n.Create(t.Context(), name, &stream.CreateRequest{Fork: &f})
	require.Error(t, err)
	return err
}

func at(o stream.Offset) *stream.Offset { return &o }

func TestAForkSharesThePastAndNothingElse(t *testing.T) {
	w := newWorld(t)
	n := w.start(nil)
	n.create(t, "chat", "text/plain", "a", "b")
	n.append(t, "chat", "c", "d")
	made := n.fork(t, "edit", stream.ForkRequest{From: "chat", At: at(3)}, "D")
	require.True(t, made.New)
	require.Equal(t, stream.Offset(4), made.Tail)
	require.Equal(t, "text/plain", made.Config.ContentType)
	n.append(t, "chat", "e")
	n.append(t, "edit", "E", "F")

	want := map[stream.Name][]string{"chat": {"a", "b", "c", "d", "e"}, "edit": {"a", "b", "c", "D", "E", "F"}}
	check := func(n *node) {
		t.Helper()
		for name, bodies := range want {
			require.Equal(t, bodies, n.read(t, name, 0, 1<<20))
			require.Equal(t, bodies, n.read(t, name, 0, 1), "record by record")
			require.Equal(t, bodies[3:], n.read(t, name, 3, 1<<20))
		}
	}
	check(n)
	n.stop()
	n = w.start(nil)
	check(n)

	_, err := n.Trim(t.Context(), "chat", 4)
	require.NoError(t, err)
	require.Equal(t, want["edit"], n.read(t, "edit", 0, 1<<20), "what the parent trims is its own")
	require.NoError(t, n.Delete(t.Context(), "chat"))
	require.Equal(t, want["edit"], n.read(t, "edit", 0, 1<<20))
}

// TestAForkKeepsTimes: inherited records carry the time at which they were
// written, so a read from a time finds them in the fork too.
func TestAForkKeepsTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(nil)
		n.create(t, "a", "text/plain", "old")
		w.later(time.Minute)
		middle := stream.Time(w.now().UnixMilli())
		n.append(t, "a", "new")
		w.later(time.Minute)
		n.fork(t, "b", stream.ForkRequest{From: "a"}, "own")
		for _, name := range []stream.Name{"a", "b"} {
			c, err := n.Read(t.Context(), name, stream.ReadRequest{From: stream.Position{Kind: stream.FromTime, Time: middle}, MaxBytes: 1 << 20})
			require.NoError(t, err)
			require.Equal(t, stream.Offset(1), c.First)
		}
		a, err := n.Read(t.Context(), "a", stream.ReadRequest{MaxBytes: 1 << 20})
		require.NoError(t, err)
		b, err := n.Read(t.Context(), "b", stream.ReadRequest{MaxBytes: 1 << 20})
		require.NoError(t, err)
		require.Equal(t, a.Runs[0].Time, b.Runs[0].Time)
		require.Equal(t, a.Runs[1].Time, b.Runs[1].Time)
	})
}

func TestASubOffsetCutsARecord(t *testing.T) {
	w := newWorld(t)
	n := w.start(nil)
	n.create(t, "a", "text/plain", "zero", "hello world", "two")
	n.fork(t, "cut", stream.ForkRequest{From: "a", At: at(1), Sub: 5}, " there")
	require.Equal(t, []string{"zero", "hello", " there"}, n.read(t, "cut", 0, 1<<20))
	n.fork(t, "whole", stream.ForkRequest{From: "a", At: at(1), Sub: 11}, "!")
	require.Equal(t, []string{"zero", "hello world", "!"}, n.read(t, "whole", 0, 1<<20))

	// A fork of a fork sees what the cut has left.
	n.fork(t, "again", stream.ForkRequest{From: "cut", At: at(1), Sub: 4})
	require.Equal(t, []string{"zero", "hell"}, n.read(t, "again", 0, 1<<20))
	n.fork(t, "same", stream.ForkRequest{From: "cut", At: at(1), Sub: 5})
	n.fork(t, "inherits", stream.ForkRequest{From: "cut"})
	n.append(t, "same", "own")
	require.Equal(t, stream.CodeBadRequest, stream.CodeOf(n.forkErr(t, "x", stream.ForkRequest{From: "cut", At: at(1), Sub: 6})))

	n.stop()
	n = w.start(nil)
	require.Equal(t, []string{"zero", "hell"}, n.read(t, "again", 0, 1<<20))
	require.Equal(t, []string{"zero", "hello", "own"}, n.read(t, "same", 0, 1<<20))
	require.Equal(t, []string{"zero", "hello", " there"}, n.read(t, "inherits", 0, 1<<20))
}

func TestASubOffsetCountsMessagesOfJSON(t *testing.T) {
	n := newWorld(t).start(nil)
	n.create(t, "a", "application/json", `1`, `{"a":[2]}`)
	n.append(t, "a", `3`)
	n.fork(t, "b", stream.ForkRequest{From: "a", At: at(1), Sub: 2}, `"own"`)
	require.Equal(t, []string{`1`, `{"a":[2]}`, `3`, `"own"`}, n.read(t, "b", 0, 1<<20), "across two appends")
	require.Equal(t, stream.CodeBadRequest, stream.CodeOf(n.forkErr(t, "c", stream.ForkRequest{From: "a", At: at(1), Sub: 3})))
}

func TestRecordsOfAForkAreOfItsInheritedType(t *testing.T) {
	n := newWorld(t).start(nil)
	n.create(t, "a", "application/json", `1`)
	asked := ""
	made, err := n.Create(t.Context(), "b", &stream.CreateRequest{
		Fork: &stream.ForkRequest{From: "a"}, JSONChecked: true,
		Parse: func(contentType string) ([]stream.Record, error) {
			asked = contentType
			return records(`2`, `3`), nil
		},
	})
	require.NoError(t, err)
	require.Equal(t, "application/json", asked)
	require.Equal(t, stream.Offset(3), made.Tail)
	_, err = n.Create(t.Context(), "c", &stream.CreateRequest{Fork: &stream.ForkRequest{From: "a"}, Records: records("no JSON")})
	require.Equal(t, stream.CodeBadRequest, codeOf(t, err))
}

func TestForksThatAreRefused(t *testing.T) {
	w := newWorld(t)
	n := w.start(nil)
	n.create(t, "a", "text/plain", "0", "1", "2", "3")
	_, err := n.Trim(t.Context(), "a", 2)
	require.NoError(t, err)
	n.create(t, "taken", "text/plain")
	n.create(t, "empty", "text/plain")
	for _, c := range []struct {
		name    stream.Name
		request stream.CreateRequest
		code    stream.Code
		says    string
	}{
		{"a", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a"}}, stream.CodeBadRequest, "fork of itself"},
		{"b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "none"}}, stream.CodeNotFound, `no stream "none" to fork`},
		{"b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a", At: at(1)}}, stream.CodeTrimmed, "the earliest is 2"},
		{"b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a", At: at(5)}}, stream.CodeBeyondTail, "beyond the tail 4"},
		{"b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a", At: at(math.MaxUint64)}}, stream.CodeBeyondTail, "beyond the tail 4"},
		{"b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a", Sub: 1}}, stream.CodeBadRequest, "send both"},
		{"b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a", At: at(3), Sub: 2}}, stream.CodeBadRequest, "record 3 of \"a\"; it has 1 bytes"},
		{"b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a", At: at(3), Sub: math.MaxUint64}}, stream.CodeBadRequest, "it has 1 bytes"},
		{"b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a", At: at(4), Sub: 1}}, stream.CodeBadRequest, "beyond the tail 4"},
		{"b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "empty", At: at(0), Sub: 1}}, stream.CodeBadRequest, "beyond the tail 0"},
		{"b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a"}, Config: stream.Config{ContentType: "text/html"}}, stream.CodeConflict, "text/plain, not \"text/html\""},
		{"taken", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a"}}, stream.CodeConflict, "another configuration"},
	} {
		_, err := n.Create(t.Context(), c.name, &c.request)
		require.Equal(t, c.code, codeOf(t, err), "%v", err)
		require.ErrorContains(t, err, c.says)
	}
	detail, err := n.Inspect(t.Context(), "a")
	require.NoError(t, err)
	require.Zero(t, detail.Forks, "a refused fork leaves nothing behind")
	require.NoError(t, n.Delete(t.Context(), "a"))
	_, err = n.Inspect(t.Context(), "a")
	require.Equal(t, stream.CodeNotFound, codeOf(t, err))
}

// TestAForkIsRepeated: an exact retry is answered as the first time, whatever has
// become of the parent.
func TestAForkIsRepeated(t *testing.T) {
	n := newWorld(t).start(nil)
	n.create(t, "a", "text/plain", "0", "1")
	first := n.fork(t, "b", stream.ForkRequest{From: "a"}, "own")
	cut, err := n.Create(t.Context(), "c", &stream.CreateRequest{
		Config: stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 60}},
		Fork:   &stream.ForkRequest{From: "a", At: at(0), Sub: 1},
	})
	require.NoError(t, err)
	n.append(t, "a", "2")

	repeat := func(name stream.Name, r stream.CreateRequest) error {
		again, err := n.Create(t.Context(), name, &r)
		if err == nil {
			require.False(t, again.New)
			require.Contains(t, []stream.ID{first.ID, cut.ID}, again.ID)
		}
		return err
	}
	all := func() {
		t.Helper()
		require.NoError(t, repeat("b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a"}}), "the tail was 2 then")
		require.NoError(t, repeat("b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a", At: at(2)}, Config: stream.Config{ContentType: "Text/Plain"}}))
		require.NoError(t, repeat("c", stream.CreateRequest{Fork: &stream.ForkRequest{From: "a", At: at(0), Sub: 1}}), "the TTL may be left out")
		for name, r := range map[stream.Name]stream.CreateRequest{
			"b": {Fork: &stream.ForkRequest{From: "a", At: at(1)}},
			"c": {Fork: &stream.ForkRequest{From: "a", At: at(0)}},
		} {
			require.Equal(t, stream.CodeConflict, codeOf(t, repeat(name, r)))
		}
		require.Equal(t, stream.CodeConflict, codeOf(t, repeat("b", stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}})), "a fork is no plain stream")
		require.Equal(t, stream.CodeConflict, codeOf(t, repeat("b", stream.CreateRequest{Fork: &stream.ForkRequest{From: "c"}})))
		require.Equal(t, stream.CodeConflict, codeOf(t, repeat("b", stream.CreateRequest{
			Fork: &stream.ForkRequest{From: "a"}, Config: stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 1}},
		})))
	}
	all()
	require.NoError(t, n.Delete(t.Context(), "a"))
	all()
}

func TestADeletedParentWaitsForItsForks(t *testing.T) {
	w := newWorld(t)
	n := w.start(nil)
	n.create(t, "a", "text/plain", "0")
	n.fork(t, "b", stream.ForkRequest{From: "a"})
	n.fork(t, "c", stream.ForkRequest{From: "b"})
	waits := make(chan error, 1)
	parent, err := n.Head(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, uint32(1), parent.Forks)
	go func() {
		_, err := n.Wait(context.WithoutCancel(t.Context()), stream.WaitRequest{ID: parent.ID, After: 1})
		waits <- err
	}()
	require.Eventually(t, func() bool { return n.Waiting() == 1 }, patience, time.Millisecond)
	require.NoError(t, n.Delete(t.Context(), "a"))
	require.Equal(t, stream.CodeDeleted, codeOf(t, <-waits))
	require.NoError(t, n.Delete(t.Context(), "b"))

	check := func(n *node) {
		t.Helper()
		for _, name := range []stream.Name{"a", "b"} {
			_, err := n.Head(t.Context(), name)
			require.Equal(t, stream.CodeDeleted, codeOf(t, err))
			_, err = n.Read(t.Context(), name, stream.ReadRequest{MaxBytes: 1})
			require.Equal(t, stream.CodeDeleted, codeOf(t, err))
			_, err = n.Append(t.Context(), name, &stream.AppendRequest{Records: records("x")})
			require.Equal(t, stream.CodeDeleted, codeOf(t, err))
			_, err = n.Append(t.Context(), name, &stream.AppendRequest{Close: true})
			require.Equal(t, stream.CodeDeleted, codeOf(t, err))
			_, err = n.Trim(t.Context(), name, 1)
			require.Equal(t, stream.CodeDeleted, codeOf(t, err))
			require.Equal(t, stream.CodeDeleted, codeOf(t, n.Delete(t.Context(), name)))
			_, err = n.Create(t.Context(), name, &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}})
			require.Equal(t, stream.CodeConflict, codeOf(t, err))
			require.Equal(t, stream.CodeConflict, stream.CodeOf(n.forkErr(t, "d", stream.ForkRequest{From: name})))
			detail, err := n.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.True(t, detail.Deleted)
			require.Equal(t, uint32(1), detail.Forks)
		}
		page, err := n.List(t.Context(), stream.ListRequest{Limit: 10})
		require.NoError(t, err)
		require.Len(t, page.Streams, 1)
		require.Equal(t, []string{"0"}, n.read(t, "c", 0, 1<<20))
	}
	check(n)
	n.stop()
	n = w.start(nil)
	check(n)

	require.NoError(t, n.Delete(t.Context(), "c"))
	for _, name := range []stream.Name{"a", "b", "c"} {
		_, err := n.Head(t.Context(), name)
		require.Equal(t, stream.CodeNotFound, codeOf(t, err))
	}
	n.create(t, "a", "text/html")
}

// TestAListEndsWithItsLastStream: deleted streams behind it are not more to list.
func TestAListEndsWithItsLastStream(t *testing.T) {
	n := newWorld(t).start(nil)
	n.create(t, "d0", "text/plain")
	for i := range 3 {
		n.fork(t, stream.Name(fmt.Sprintf("d%d", i+1)), stream.ForkRequest{From: stream.Name(fmt.Sprintf("d%d", i))})
	}
	n.fork(t, "a", stream.ForkRequest{From: "d3"})
	n.create(t, "b", "text/plain")
	for i := range 4 {
		require.NoError(t, n.Delete(t.Context(), stream.Name(fmt.Sprintf("d%d", i))))
	}
	for limit, more := range map[int]bool{1: true, 2: false, 3: false} {
		page, err := n.List(t.Context(), stream.ListRequest{Limit: limit})
		require.NoError(t, err)
		require.Len(t, page.Streams, min(limit, 2))
		require.Equal(t, more, page.More, "limit %d", limit)
	}
}

func TestExpiryPassesBetweenNoneOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(nil)
		ttl := func(seconds uint64) stream.Config {
			return stream.Config{ContentType: "text/plain", Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: seconds}}
		}
		_, err := n.Create(t.Context(), "a", &stream.CreateRequest{Config: ttl(20), Records: records("0")})
		require.NoError(t, err)
		inherits := n.fork(t, "inherits", stream.ForkRequest{From: "a"})
		require.Equal(t, ttl(20), inherits.Config)
		longer, err := n.Create(t.Context(), "longer", &stream.CreateRequest{Config: ttl(3600), Fork: &stream.ForkRequest{From: "a"}})
		require.NoError(t, err)
		require.Equal(t, ttl(3600), longer.Config, "a fork's own is not capped")
		w.later(18 * time.Second)
		require.Equal(t, []string{"0"}, n.read(t, "inherits", 0, 1), "a read restarts the fork's deadline, not the parent's")
		w.later(10 * time.Second)
		_, err = n.Head(t.Context(), "a")
		require.Equal(t, stream.CodeNotFound, codeOf(t, err))
		require.Equal(t, []string{"0"}, n.read(t, "inherits", 0, 1))
		require.Equal(t, stream.CodeNotFound, stream.CodeOf(n.forkErr(t, "late", stream.ForkRequest{From: "a"})))
		n.create(t, "a", "text/html", "another") // an expired parent's name is free
		require.Equal(t, []string{"0"}, n.read(t, "longer", 0, 1))
		n.fork(t, "inherits", stream.ForkRequest{From: "a"}) // the retry of long ago
	})
}

// TestAForkCostsNoBucketRequest: but for a byte sub-offset, whose record is read,
// and for the first records that a request brings.
func TestAForkCostsNoBucketRequest(t *testing.T) {
	w := newWorld(t)
	n := w.start(nil)
	n.create(t, "a", "text/plain", "zero")
	n.stop()
	n = w.start(nil)
	requests := func() int { return w.faults.Count(faultbucket.Get) + w.faults.Count(faultbucket.Put) }
	before := requests()
	for i := range 100 {
		n.fork(t, stream.Name(fmt.Sprintf("b%d", i)), stream.ForkRequest{From: "a"})
	}
	require.Equal(t, before, requests())
	n.fork(t, "cut", stream.ForkRequest{From: "a", At: at(0), Sub: 2})
	require.Greater(t, requests(), before)
}

// TestAForkRacesWithTheEndOfItsParent: whoever comes first, a fork either is
// there and whole or was refused, and nothing is left behind.
func TestAForkRacesWithTheEndOfItsParent(t *testing.T) {
	n := newWorld(t).start(nil)
	for i := range 50 {
		parent := stream.Name(fmt.Sprintf("p%d", i))
		child := stream.Name(fmt.Sprintf("c%d", i))
		n.create(t, parent, "text/plain", "0")
		var made error
		var both sync.WaitGroup
		both.Go(func() {
			_, made = n.Create(t.Context(), child, &stream.CreateRequest{Fork: &stream.ForkRequest{From: parent}})
		})
		both.Go(func() { _ = n.Delete(t.Context(), parent) })
		both.Wait()
		_, err := n.Head(t.Context(), parent)
		if made != nil {
			require.Equal(t, stream.CodeNotFound, stream.CodeOf(made))
			require.Equal(t, stream.CodeNotFound, codeOf(t, err))
			continue
		}
		require.Equal(t, stream.CodeDeleted, codeOf(t, err))
		require.Equal(t, []string{"0"}, n.read(t, child, 0, 1))
	}
}
