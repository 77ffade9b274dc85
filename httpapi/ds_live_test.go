package httpapi

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

func shortPolls(c *Config) { c.LongPollTimeout = 20 * time.Millisecond }

func TestLongPollAnswersAtOnce(t *testing.T) {
	for _, row := range []struct {
		name, query string
		closed      bool
		status      int
		body        string
		next        int
		closedValue string
		cache       string
	}{
		{"with data", "offset=-1", false, 200, `["a","b","c"]`, 3, "", "no-store"},
		{"with data, in an interval", "offset=-1&cursor=7", false, 200, `["a","b","c"]`, 3, "", cacheInterval},
		{"with the last data of a closed stream", "offset=" + token(2), true, 200, `["c"]`, 3, "true", "no-store"},
		{"at the end of a closed stream", "offset=" + token(3), true, 204, ``, 3, "true", "no-store"},
		{"from now on a closed stream", "offset=now", true, 204, ``, 3, "true", "no-store"},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := abc(t, typeJSON, row.closed).do(http.MethodGet, "/v1/stream/a?live=long-poll&"+row.query, "")
			assert.Equal(t, row.status, got.status)
			assert.Equal(t, row.body, got.body)
			assert.Equal(t, token(row.next), got.header.Get(wire.StreamNextOffset))
			assert.Equal(t, "true", got.header.Get(wire.StreamUpToDate))
			assert.Equal(t, row.closedValue, got.header.Get(wire.StreamClosed))
			assert.Equal(t, row.cache, got.header.Get("Cache-Control"))
			assert.Equal(t, testCursor, got.header.Get(wire.StreamCursor))
		})
	}
}

func TestLongPollTimeout(t *testing.T) {
	for _, query := range []string{"offset=-1", "offset=" + token(0), "offset=now"} {
		s := newService(t, shortPolls)
		s.must(http.MethodPut, "/v1/stream/a", "")
		got := s.do(http.MethodGet, "/v1/stream/a?live=long-poll&"+query, "")
		assert.Equal(t, 204, got.status)
		assert.Equal(t, token(0), got.header.Get(wire.StreamNextOffset))
		assert.Equal(t, "true", got.header.Get(wire.StreamUpToDate))
		assert.Equal(t, testCursor, got.header.Get(wire.StreamCursor))
		assert.Empty(t, got.header.Get(wire.StreamClosed))
		assert.Equal(t, "no-store", got.header.Get("Cache-Control"))
	}
}

func TestLongPollIsWoken(t *testing.T) {
	for _, row := range []struct {
		name   string
		wake   func(*service)
		status int
		body   string
		next   int
		closed string
	}{
		{"by an append", func(s *service) {
			s.must(http.MethodPost, "/v1/stream/a", "d", "Content-Type", typeText)
		}, 200, "d", 4, ""},
		{"by a close", func(s *service) {
			s.must(http.MethodPost, "/v1/stream/a", "", wire.StreamClosed, "true")
		}, 204, "", 3, "true"},
		{"by an append that closes", func(s *service) {
			s.must(http.MethodPost, "/v1/stream/a", "last", "Content-Type", typeText, wire.StreamClosed, "true")
		}, 200, "last", 4, "true"},
	} {
		for _, offset := range []string{"now", token(3)} {
			t.Run(row.name+" at "+offset, func(t *testing.T) {
				s := abc(t, typeText, false)
				answers := s.later("/v1/stream/a?live=long-poll&offset=" + offset)
				s.awaitWaiting(1)
				row.wake(s)
				got := <-answers
				assert.Equal(t, row.status, got.status)
				assert.Equal(t, row.body, got.body)
				assert.Equal(t, token(row.next), got.header.Get(wire.StreamNextOffset))
				assert.Equal(t, "true", got.header.Get(wire.StreamUpToDate))
				assert.Equal(t, row.closed, got.header.Get(wire.StreamClosed))
			})
		}
	}
}

func TestLongPollOfAStreamThatGoes(t *testing.T) {
	t.Run("deleted", func(t *testing.T) {
		s := abc(t, typeText, false)
		answers := s.later("/v1/stream/a?live=long-poll&offset=now")
		s.awaitWaiting(1)
		s.must(http.MethodDelete, "/v1/stream/a", "")
		got := <-answers
		assert.Equal(t, 404, got.status)
		assertDurableError(t, got)
	})
	t.Run("and made again", func(t *testing.T) {
		s := abc(t, typeText, false)
		recreating := &recreates{Streams: s.streams, service: s}
		s.api.config.Streams = recreating
		got := s.do(http.MethodGet, "/v1/stream/a?live=long-poll&offset=now", "")
		assert.Equal(t, 404, got.status, "never a byte of the new stream")
	})
}

// recreates wakes a waiting reader, but not before another stream has taken
// the name.
type recreates struct {
	Streams
	service *service
}

func (r *recreates) Wait(ctx context.Context, q stream.WaitRequest) (stream.Info, error) {
	info, err := r.Head(ctx, "a")
	if err != nil {
		return info, err
	}
	r.service.must(http.MethodDelete, "/v1/stream/a", "")
	r.service.must(http.MethodPut, "/v1/stream/a", "other bytes", "Content-Type", typeText)
	info.Tail++ // which there was, before it was deleted
	return info, nil
}

func TestLiveReadsOfNoStream(t *testing.T) {
	s := newService(t)
	for _, query := range []string{"live=sse&offset=now", "live=sse&offset=-1", "live=long-poll&offset=now", "live=long-poll&offset=" + token(0)} {
		got := s.do(http.MethodGet, "/v1/stream/a?"+query, "")
		assert.Equal(t, 404, got.status, query)
		assertDurableError(t, got)
	}
}

func TestALongPollerThatLeavesIsForgotten(t *testing.T) {
	s := abc(t, typeText, false)
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL+"/v1/stream/a?live=long-poll&offset=now", http.NoBody)
	require.NoError(t, err)
	left := make(chan error, 1)
	go func() {
		response, err := s.client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		left <- err
	}()
	s.awaitWaiting(1)
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	s.awaitWaiting(0)
	assert.Empty(t, s.log.String(), "a client that leaves is no error")
}

func TestCursorsMovePastWhatTheClientSent(t *testing.T) {
	for _, row := range []struct {
		name, sent string
		least      uint64
		most       uint64
	}{
		{"none", "", 1000, 1000},
		{"older", "999", 1000, 1000},
		{"no number", "abc", 1000, 1000},
		{"negative", "-5", 1000, 1000},
		{"current", "1000", 1001, 1180},
		{"ahead", "5000", 5001, 5180},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := abc(t, typeText, true)
			got := s.do(http.MethodGet, "/v1/stream/a?live=long-poll&offset=-1&cursor="+row.sent, "")
			cursor, err := wire.ParseDecimal(got.header.Get(wire.StreamCursor))
			require.NoError(t, err)
			assert.GreaterOrEqual(t, cursor, row.least)
			assert.LessOrEqual(t, cursor, row.most)
		})
	}
}

func TestCursorsNeverGoBackInOneResponse(t *testing.T) {
	now := time.Date(2024, time.October, 9, 0, 0, 0, 0, time.UTC)
	a := &API{config: Config{Clock: func() time.Time { return now }}}
	cursor := a.newCursor("0")
	last := cursor.value()
	assert.Positive(t, last)
	for range 400 {
		now = now.Add(20 * time.Second)
		assert.GreaterOrEqual(t, cursor.value(), last)
		last = cursor.value()
	}
	assert.EqualValues(t, 400, last, "time has caught up")
}
