package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

func testCount(c prometheus.Collector) float64 { return testutil.ToFloat64(c) }

func TestAnEventIsEncodedOnceForAllReaders(t *testing.T) {
	const readers = 20
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	var all []*eventReader
	for range readers {
		r := s.events("offset=-1")
		r.expect(controlEvent(0, isUpToDate))
		all = append(all, r)
	}
	s.awaitWaiting(readers)
	s.must(http.MethodPost, "/v1/stream/a", "to all", "Content-Type", typeText)
	for _, r := range all {
		r.expect("event: data\ndata:to all\n\n" + controlEvent(1, isUpToDate))
	}
	assert.EqualValues(t, 1, testCount(s.api.config.Metrics.eventMisses))
	assert.EqualValues(t, readers-1, testCount(s.api.config.Metrics.eventHits))
}

func TestSubscribersAreBounded(t *testing.T) {
	s := newService(t, func(c *Config) { c.MaxSubscribers = 1 })
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	ctx, cancel := context.WithCancel(context.Background())
	s.open(ctx, "/v1/stream/a?live=sse&offset=-1")
	for _, mode := range []string{"sse", "long-poll"} {
		got := s.do(http.MethodGet, "/v1/stream/a?offset=-1&live="+mode, "")
		assert.Equal(t, 503, got.status)
		assert.Equal(t, "1", got.header.Get("Retry-After"))
		assertDurableError(t, got)
	}
	gauge := s.api.config.Metrics.subscribers.WithLabelValues("sse")
	assert.EqualValues(t, 1, testCount(gauge))
	cancel()
	require.Eventually(t, func() bool { return testCount(gauge) == 0 }, readyTimeout, readyTick)
	s.must(http.MethodPost, "/v1/stream/a", "", "Stream-Closed", "true")
	assert.Equal(t, 200, s.do(http.MethodGet, "/v1/stream/a?live=sse&offset=-1", "").status)
}

func TestDrainEndsLiveReaders(t *testing.T) {
	s := abc(t, typeText, false)
	events := s.events("offset=now")
	events.expect(controlEvent(3, isUpToDate))
	poll := s.later("/v1/stream/a?live=long-poll&offset=now")
	s.awaitWaiting(2)
	s.api.Drain()
	events.expectEnd()
	got := <-poll
	assert.Equal(t, 204, got.status)
	assert.Equal(t, token(3), got.header.Get("Stream-Next-Offset"))
	t.Run("those that come later get what there is", func(t *testing.T) {
		assert.Equal(t, 204, s.do(http.MethodGet, "/v1/stream/a?live=long-poll&offset=now", "").status)
		events := s.events("offset=" + token(2))
		events.expect("event: data\ndata:\"c\"\n\n" + controlEvent(3, isUpToDate))
		events.expectEnd()
	})
	t.Run("but no more than one event", func(t *testing.T) {
		s.must(http.MethodPut, "/v1/stream/long", strings.Repeat("x", eventBytes), "Content-Type", typeText)
		s.must(http.MethodPost, "/v1/stream/long", "y", "Content-Type", typeText)
		got := s.do(http.MethodGet, "/v1/stream/long?live=sse&offset=-1", "")
		assert.Equal(t, []string{strings.Repeat("x", eventBytes)}, dataOf(t, got.body))
	})
	t.Run("everything else goes on", func(t *testing.T) {
		assert.Equal(t, 204, s.do(http.MethodPost, "/v1/stream/a", "d", "Content-Type", typeText).status)
	})
}

// failsLater fails every read after the first.
type failsLater struct {
	Streams
	reads atomic.Int64
}

func (f *failsLater) Read(ctx context.Context, name stream.Name, r stream.ReadRequest) (*stream.Chunk, error) {
	if f.reads.Add(1) > 1 {
		return nil, stream.Errorf(stream.CodeUnavailable, "the bucket does not answer")
	}
	return f.Streams.Read(ctx, name, r)
}

func TestWhatFailsBeforeTheFirstEventHasAStatus(t *testing.T) {
	s := abc(t, typeText, false)
	s.api.config.Streams = &failsLater{Streams: s.streams}
	got := s.do(http.MethodGet, "/v1/stream/a?live=sse&offset=-1", "")
	assert.Equal(t, 503, got.status)
	assert.Equal(t, "1", got.header.Get("Retry-After"))
	assertDurableError(t, got)
}

func TestAnAttachedReaderKeepsAStreamAlive(t *testing.T) {
	for _, live := range []string{"sse", "long-poll"} {
		s := newService(t)
		s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText, "Stream-TTL", "10")
		reader := s.later("/v1/stream/a?offset=now&live=" + live)
		s.awaitWaiting(1)
		for range 5 {
			s.streams.Advance(9 * time.Second)
		}
		assert.Equal(t, 200, s.do(http.MethodHead, "/v1/stream/a", "").status)
		s.must(http.MethodPost, "/v1/stream/a", "", "Stream-Closed", "true")
		<-reader
	}
}

func TestAnEventStreamThatFailsEndsAndIsLogged(t *testing.T) {
	s := abc(t, typeText, false)
	events := s.events("offset=now")
	events.expect(controlEvent(3, isUpToDate))
	s.awaitWaiting(1)
	s.streams.FailWith(errors.New("the disk is on fire"))
	events.expectEnd()
	require.Eventually(t, func() bool { return strings.Contains(s.log.String(), "fire") }, readyTimeout, readyTick)
}

// Readers of every kind follow one stream while it is written, and all see all
// of it in order.
func TestManyReadersSeeTheSame(t *testing.T) {
	const records, readers = 200, 8
	s := newService(t)
	s.must(http.MethodPut, "/v1/stream/a", "", "Content-Type", typeText)
	var whole strings.Builder
	for i := range records {
		fmt.Fprintf(&whole, "%d €;", i)
	}
	bodies := make(chan string, readers)
	var following sync.WaitGroup
	for range readers {
		following.Go(func() {
			got, err := s.try(http.MethodGet, "/v1/stream/a?live=sse&offset=-1", "")
			assert.NoError(t, err)
			bodies <- got.body
		})
	}
	// Three bytes at a time, so that most appends cut a character.
	for rest := whole.String(); rest != ""; {
		cut := min(3, len(rest))
		s.must(http.MethodPost, "/v1/stream/a", rest[:cut], "Content-Type", typeText)
		rest = rest[cut:]
	}
	s.must(http.MethodPost, "/v1/stream/a", "", "Stream-Closed", "true")
	following.Wait()
	close(bodies)
	for body := range bodies {
		assert.Equal(t, whole.String(), strings.Join(dataOf(t, body), ""))
	}
}

func TestEventCache(t *testing.T) {
	key := func(from int) eventKey { return eventKey{id: 1, from: stream.Offset(from), tail: 9, format: "f"} }
	made := func(size int, calls *int) func(context.Context) (*event, error) {
		return func(context.Context) (*event, error) {
			*calls++
			return &event{data: make([]byte, size)}, nil
		}
	}
	ctx := context.Background()
	t.Run("keeps what is used most recently", func(t *testing.T) {
		c, calls := newEventCache(4*(1000+eventOverhead), NewMetrics()), 0
		for from := range 4 {
			_, err := c.get(ctx, key(from), made(1000, &calls))
			require.NoError(t, err)
		}
		_, _ = c.get(ctx, key(0), made(1000, &calls)) // used again
		_, _ = c.get(ctx, key(4), made(1000, &calls)) // pushes 1 out
		assert.Equal(t, 5, calls)
		_, _ = c.get(ctx, key(0), made(1000, &calls))
		assert.Equal(t, 5, calls)
		_, _ = c.get(ctx, key(1), made(1000, &calls))
		assert.Equal(t, 6, calls)
		assert.LessOrEqual(t, c.bytes, c.capacity)
		assert.Len(t, c.kept, 4)
	})
	t.Run("does not keep what is too large", func(t *testing.T) {
		c, calls := newEventCache(4000, NewMetrics()), 0
		for range 2 {
			_, _ = c.get(ctx, key(0), made(1000, &calls))
		}
		assert.Equal(t, 2, calls)
		assert.Zero(t, c.bytes)
	})
	t.Run("does not keep errors", func(t *testing.T) {
		c, calls := newEventCache(4000, NewMetrics()), 0
		_, err := c.get(ctx, key(0), func(context.Context) (*event, error) { return nil, errors.New("no") })
		require.Error(t, err)
		_, err = c.get(ctx, key(0), made(1, &calls))
		require.NoError(t, err)
		assert.Equal(t, 1, calls)
	})
}

func TestEventCacheMakesEachEventOnce(t *testing.T) {
	c := newEventCache(4000, NewMetrics())
	begun, finish := make(chan struct{}), make(chan struct{})
	key := eventKey{id: 1}
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	readers.Go(func() {
		e, err := c.get(ctx, key, func(ctx context.Context) (*event, error) {
			close(begun)
			<-finish
			return &event{data: []byte("x")}, ctx.Err()
		})
		assert.NoError(t, err, "it goes on for the others when its reader leaves")
		assert.NotNil(t, e)
	})
	<-begun
	cancel()
	gone, leave := context.WithCancel(context.Background())
	leave()
	_, err := c.get(gone, key, nil)
	require.ErrorIs(t, err, context.Canceled, "who leaves does not wait")
	readers.Go(func() {
		e, err := c.get(context.Background(), key, nil)
		assert.NoError(t, err)
		assert.Equal(t, "x", string(e.data))
	})
	close(finish)
	readers.Wait()
	assert.Empty(t, c.flights)
}

func TestEventCacheSurvivesAPanic(t *testing.T) {
	c := newEventCache(4000, NewMetrics())
	assert.Panics(t, func() {
		_, _ = c.get(context.Background(), eventKey{}, func(context.Context) (*event, error) { panic("broken") })
	})
	assert.Empty(t, c.flights)
	e, err := c.get(context.Background(), eventKey{}, func(context.Context) (*event, error) { return &event{}, nil })
	require.NoError(t, err)
	assert.NotNil(t, e)
}
