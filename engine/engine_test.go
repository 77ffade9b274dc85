package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

func TestWhatIsAppendedIsReadInOrder(t *testing.T) {
	n := newWorld(t).start(nil)
	made := n.create(t, "a", "text/plain", "zero")
	require.True(t, made.New)
	require.EqualValues(t, 1, made.Tail)
	require.EqualValues(t, 1, n.append(t, "a", "one", "two").First)
	a := n.append(t, "a", "three")
	require.EqualValues(t, 3, a.First)
	require.EqualValues(t, 4, a.Next)
	want := []string{"zero", "one", "two", "three"}
	for _, maxBytes := range []int{1, 4, 7, 1 << 20} {
		require.Equal(t, want, n.read(t, "a", 0, maxBytes))
	}
	require.Equal(t, want[2:], n.read(t, "a", 2, 100))
	require.Empty(t, n.read(t, "a", 4, 100))
}

func TestARestartReadsFromTheBucket(t *testing.T) {
	w := newWorld(t)
	n := w.start(nil)
	n.create(t, "a", "text/plain", "zero")
	var want []string
	want = append(want, "zero")
	for i := range 30 {
		body := strings.Repeat(fmt.Sprint(i%10), 3000)
		n.append(t, "a", body)
		want = append(want, body)
	}
	n.stop()
	require.Equal(t, want, w.start(nil).read(t, "a", 0, 10_000))
}

func TestBatchesLargerThanABlockAndRecordsLargerThanOne(t *testing.T) {
	w := newWorld(t)
	n := w.start(nil)
	n.create(t, "j", "application/json")
	want := []string{}
	batch := []string{}
	for i := range 5000 {
		batch = append(batch, fmt.Sprintf(`{"n":%d,"pad":%q}`, i, strings.Repeat("x", i%90)))
	}
	n.append(t, "j", batch...)
	want = append(want, batch...)
	large := `"` + strings.Repeat("y", 300_000) + `"`
	n.append(t, "j", "1", large, "2")
	want = append(want, "1", large, "2")
	require.Equal(t, want, n.read(t, "j", 0, 100_000))
	n.stop()
	require.Equal(t, want, w.start(nil).read(t, "j", 0, 100_000))
}

func TestConcurrentAppendsAreDenseAndWhole(t *testing.T) {
	n := newWorld(t).start(nil)
	const writers, each = 16, 40
	for i := range 4 {
		n.create(t, stream.Name(fmt.Sprint("s", i)), "text/plain")
	}
	var done sync.WaitGroup
	var mu sync.Mutex
	acked := map[string]map[stream.Offset]string{}
	for g := range writers {
		done.Go(func() {
			for i := range each {
				name := fmt.Sprint("s", (g+i)%4)
				a, err := n.Append(context.Background(), stream.Name(name), &stream.AppendRequest{
					Records: records(fmt.Sprintf("%d/%d/0", g, i), fmt.Sprintf("%d/%d/1", g, i)),
				})
				require.NoError(t, err)
				mu.Lock()
				if acked[name] == nil {
					acked[name] = map[stream.Offset]string{}
				}
				acked[name][a.First] = fmt.Sprintf("%d/%d", g, i)
				mu.Unlock()
			}
		})
	}
	done.Wait()
	for name, at := range acked {
		bodies := n.read(t, stream.Name(name), 0, 1<<20)
		require.Len(t, bodies, 2*len(at))
		for first, body := range at {
			require.Equal(t, body+"/0", bodies[first])
			require.Equal(t, body+"/1", bodies[first+1])
		}
	}
}

func TestProducersAreExactlyOnce(t *testing.T) {
	n := newWorld(t).start(nil)
	n.create(t, "a", "text/plain")
	send := func(epoch, seq uint64, close bool, bodies ...string) (stream.Appended, error) {
		return n.Append(t.Context(), "a", &stream.AppendRequest{
			Records: records(bodies...), Close: close, Producer: &stream.Producer{ID: "p", Epoch: epoch, Seq: seq},
		})
	}
	first, err := send(0, 0, false, "zero", "one")
	require.NoError(t, err)
	require.False(t, first.Duplicate)
	again, err := send(0, 0, false, "zero", "one")
	require.NoError(t, err)
	require.True(t, again.Duplicate)
	require.True(t, again.FirstKnown)
	require.Equal(t, first.First, again.First)
	_, err = send(0, 2, false, "gap")
	require.Equal(t, stream.CodeSequenceGap, codeOf(t, err))
	_, err = send(2, 1, false, "new epoch")
	require.Equal(t, stream.CodeEpochStart, codeOf(t, err))
	_, err = send(1, 0, false, "two")
	require.NoError(t, err)
	_, err = send(0, 1, false, "stale")
	require.Equal(t, stream.CodeFenced, codeOf(t, err))
	closed, err := send(1, 1, true)
	require.NoError(t, err)
	require.True(t, closed.Closed)
	repeat, err := send(1, 1, true)
	require.NoError(t, err)
	require.True(t, repeat.Duplicate)
	_, err = send(1, 2, false, "late")
	require.Equal(t, stream.CodeClosed, codeOf(t, err))
	require.Equal(t, []string{"zero", "one", "two"}, n.read(t, "a", 0, 100))
}

func TestConditions(t *testing.T) {
	n := newWorld(t).start(nil)
	n.create(t, "a", "text/plain", "zero")
	match := func(o stream.Offset, close bool, bodies ...string) error {
		_, err := n.Append(t.Context(), "a", &stream.AppendRequest{Records: records(bodies...), Match: &o, Close: close})
		return err
	}
	require.Equal(t, stream.CodeMatchFailed, codeOf(t, match(0, false, "x")))
	require.NoError(t, match(1, false, "one"))
	seq := func(s string) error {
		_, err := n.Append(t.Context(), "a", &stream.AppendRequest{Records: records(s), StreamSeq: &s})
		return err
	}
	require.NoError(t, seq("2"))
	require.Equal(t, stream.CodeStreamSeq, codeOf(t, seq("10")))
	require.NoError(t, seq("3"))
	require.Equal(t, stream.CodeMatchFailed, codeOf(t, match(1, true)))
	require.NoError(t, match(4, true))
	_, err := n.Append(t.Context(), "a", &stream.AppendRequest{Records: records("x"), ContentType: "application/json"})
	require.Equal(t, stream.CodeClosed, codeOf(t, err), "closed comes before the content type")
}

func TestContentTypesAndJSON(t *testing.T) {
	n := newWorld(t).start(nil)
	n.create(t, "t", "text/plain; charset=utf-8")
	n.create(t, "j", "application/json")
	typed := func(name stream.Name, contentType, body string) error {
		_, err := n.Append(t.Context(), name, &stream.AppendRequest{Records: records(body), ContentType: contentType})
		return err
	}
	require.NoError(t, typed("t", "TEXT/plain", "x"))
	require.Equal(t, stream.CodeTypeMismatch, codeOf(t, typed("t", "application/json", "1")))
	require.NoError(t, typed("j", "application/json", `{"a":1}`))
	require.Equal(t, stream.CodeBadRequest, codeOf(t, typed("j", "application/json", `{"a":`)))
	require.Equal(t, stream.CodeBadRequest, codeOf(t, typed("j", "", "")))
	require.Equal(t, []string{`{"a":1}`}, n.read(t, "j", 0, 100))
}

func TestCreateConflictsAndRepeats(t *testing.T) {
	w := newWorld(t)
	n := w.start(nil)
	require.True(t, n.create(t, "a", "text/plain", "x").New)
	rows := n.replica.Stats().Rows
	again := n.create(t, "a", "text/plain;charset=utf-8", "not appended")
	require.False(t, again.New)
	require.EqualValues(t, 1, again.Tail)
	require.Equal(t, rows, n.replica.Stats().Rows, "a repeated create costs no row")
	for _, other := range []stream.CreateRequest{
		{Config: stream.Config{ContentType: "application/json"}},
		{Config: stream.Config{ContentType: "text/plain"}, Closed: true},
		{Config: stream.Config{ContentType: "text/plain", Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 5}}},
	} {
		_, err := n.Create(t.Context(), "a", &other)
		require.Equal(t, stream.CodeConflict, codeOf(t, err))
	}
	_, err := n.Create(t.Context(), "bad", &stream.CreateRequest{Config: stream.Config{ContentType: "application/json"}, Records: records("{")})
	require.Equal(t, stream.CodeBadRequest, codeOf(t, err))
	_, err = n.Head(t.Context(), "bad")
	require.Equal(t, stream.CodeNotFound, codeOf(t, err))
}

func TestConcurrentCreatesHaveOneWinner(t *testing.T) {
	n := newWorld(t).start(nil)
	var made atomic.Int32
	var done sync.WaitGroup
	for i := range 20 {
		done.Go(func() {
			c, err := n.Create(context.Background(), "a", &stream.CreateRequest{
				Config: stream.Config{ContentType: "text/plain"}, Records: records(fmt.Sprint(i)),
			})
			require.NoError(t, err)
			if c.New {
				made.Add(1)
			}
		})
	}
	done.Wait()
	require.EqualValues(t, 1, made.Load())
	require.Len(t, n.read(t, "a", 0, 100), 1)
}

func TestDeleteFreesTheNameAndPinsReaders(t *testing.T) {
	n := newWorld(t).start(nil)
	old := n.create(t, "a", "text/plain", "old")
	require.NoError(t, n.Delete(t.Context(), "a"))
	require.Equal(t, stream.CodeNotFound, codeOf(t, n.Delete(t.Context(), "a")))
	fresh := n.create(t, "a", "text/plain", "new")
	require.NotEqual(t, old.ID, fresh.ID)
	require.Equal(t, []string{"new"}, n.read(t, "a", 0, 100))
	_, err := n.Read(t.Context(), "a", stream.ReadRequest{ID: old.ID, MaxBytes: 100})
	require.Equal(t, stream.CodeNotFound, codeOf(t, err))
	_, err = n.Wait(t.Context(), stream.WaitRequest{ID: old.ID, After: 1})
	require.Equal(t, stream.CodeNotFound, codeOf(t, err))
}

func TestTrim(t *testing.T) {
	n := newWorld(t).start(nil)
	n.create(t, "a", "text/plain", "0", "1", "2", "3")
	i, err := n.Trim(t.Context(), "a", 2)
	require.NoError(t, err)
	require.EqualValues(t, 2, i.Start)
	_, err = n.Read(t.Context(), "a", stream.ReadRequest{MaxBytes: 100})
	require.Equal(t, stream.CodeTrimmed, codeOf(t, err))
	c, err := n.Read(t.Context(), "a", stream.ReadRequest{From: stream.Position{Kind: stream.FromStart}, MaxBytes: 100})
	require.NoError(t, err)
	require.EqualValues(t, 2, c.First)
	i, err = n.Trim(t.Context(), "a", 100)
	require.NoError(t, err)
	require.EqualValues(t, 4, i.Start)
	n.append(t, "a", "4")
	require.Equal(t, []string{"4"}, n.read(t, "a", 4, 100))
}

func TestPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(nil)
		n.create(t, "a", "text/plain")
		var times []stream.Time
		for i := range 4 {
			times = append(times, n.append(t, "a", fmt.Sprint(i)).Time)
			w.later(time.Second)
		}
		at := func(p stream.Position) stream.Offset {
			c, err := n.Read(t.Context(), "a", stream.ReadRequest{From: p, MaxBytes: 100})
			require.NoError(t, err)
			return c.First
		}
		require.EqualValues(t, 4, at(stream.Position{Kind: stream.FromTail}))
		require.EqualValues(t, 3, at(stream.Position{Kind: stream.FromTail, Back: 1}))
		require.EqualValues(t, 0, at(stream.Position{Kind: stream.FromTail, Back: 100}))
		require.EqualValues(t, 0, at(stream.Position{Kind: stream.FromTime, Time: 0}))
		for i, ts := range times {
			require.EqualValues(t, i, at(stream.Position{Kind: stream.FromTime, Time: ts}))
			require.EqualValues(t, i+1, at(stream.Position{Kind: stream.FromTime, Time: ts + 1}))
		}
		_, err := n.Read(t.Context(), "a", stream.ReadRequest{From: stream.At(5), MaxBytes: 100})
		require.Equal(t, stream.CodeBeyondTail, codeOf(t, err))
	})
}

func TestLimitsOfARead(t *testing.T) {
	n := newWorld(t).start(nil)
	n.create(t, "a", "text/plain", "aaaa", "bb", "c", "dddddd")
	n.append(t, "a", "ee")
	for _, c := range []struct{ from, bytes, records, want int }{
		{0, 1, 0, 1},
		{0, 4, 0, 1},
		{0, 6, 0, 2},
		{0, 7, 0, 3},
		{0, 12, 0, 3},
		{0, 13, 0, 4},
		{0, 15, 0, 5},
		{0, 100, 2, 2},
		{0, 100, 5, 5},
		{1, 3, 0, 2},
		{3, 1, 0, 1},
		{3, 100, 1, 1},
	} {
		got, err := n.Read(t.Context(), "a", stream.ReadRequest{From: stream.At(stream.Offset(c.from)), MaxBytes: c.bytes, MaxRecords: c.records})
		require.NoError(t, err)
		require.Equal(t, c.from+c.want, int(got.Next), "%+v", c)
		require.Equal(t, c.from+c.want == 5, got.UpToDate, "%+v", c)
	}
}

func TestListLeavesOutTheExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start(nil)
		for i := range 10 {
			cfg := stream.Config{ContentType: "text/plain"}
			if i%2 == 0 {
				cfg.Expiry = stream.Expiry{Kind: stream.ExpiresIdle, TTL: 5}
			}
			_, err := n.Create(t.Context(), stream.Name(fmt.Sprint("x/", i)), &stream.CreateRequest{Config: cfg})
			require.NoError(t, err)
		}
		n.create(t, "y", "text/plain")
		names := func(r stream.ListRequest) (out []string, more bool) {
			p, err := n.List(t.Context(), r)
			require.NoError(t, err)
			for _, i := range p.Streams {
				out = append(out, string(i.Name))
			}
			return out, p.More
		}
		got, more := names(stream.ListRequest{Prefix: "x/", Limit: 4})
		require.Equal(t, []string{"x/0", "x/1", "x/2", "x/3"}, got)
		require.True(t, more)
		w.later(6 * time.Second)
		got, more = names(stream.ListRequest{Prefix: "x/", Limit: 4})
		require.Equal(t, []string{"x/1", "x/3", "x/5", "x/7"}, got)
		require.True(t, more)
		got, more = names(stream.ListRequest{Prefix: "x/", StartAfter: "x/7", Limit: 4})
		require.Equal(t, []string{"x/9"}, got)
		require.False(t, more)
	})
}

func TestCorruptBytesNeverReachAReader(t *testing.T) {
	w := newWorld(t)
	n := w.start(nil)
	n.create(t, "a", "text/plain", strings.Repeat("a", 1000))
	n.create(t, "b", "text/plain")
	n.append(t, "b", strings.Repeat("b", 1000))
	n.stop()
	it := w.bucket.List(nil)
	var key string
	for {
		o, err := it.Next(t.Context())
		if err != nil {
			break
		}
		data, err := w.bucket.ReadAll(t.Context(), o.Key)
		require.NoError(t, err)
		if i := bytes.Index(data, []byte("aaaa")); i >= 0 {
			key = o.Key
			data[i] ^= 1
			require.NoError(t, w.bucket.WriteAll(t.Context(), key, data, nil))
		}
	}
	require.NotEmpty(t, key)
	again := w.start(nil)
	_, err := again.Read(t.Context(), "a", stream.ReadRequest{MaxBytes: 5000})
	require.Equal(t, stream.CodeInternal, codeOf(t, err))
	require.ErrorContains(t, err, key)
	require.Len(t, again.read(t, "b", 0, 5000), 1, "nothing else is affected")
}
