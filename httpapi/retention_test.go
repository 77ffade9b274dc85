package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

// TestReadsBelowWhatRetentionKept say in both protocols where the stream begins.
func TestReadsBelowWhatRetentionKept(t *testing.T) {
	for _, bound := range []struct{ header, value string }{{"Pico-Retention-Age", "60"}, {"Pico-Retention-Bytes", "2"}} {
		t.Run(bound.header, func(t *testing.T) {
			s := newService(t)
			s.must(http.MethodPut, "/a", "", "Content-Type", typeText, bound.header, bound.value)
			s.must(http.MethodPost, "/a", "a")
			s.must(http.MethodPost, "/a", "b")
			s.streams.Advance(time.Minute)
			s.streams.Retain(stream.Retention{})
			assert.Equal(t, "ab", s.must(http.MethodGet, "/a?format=raw", "").body, "not yet overdue")

			s.streams.Advance(time.Millisecond)
			s.must(http.MethodPost, "/a", "c")
			s.must(http.MethodPost, "/a", "d")
			s.streams.Retain(stream.Retention{})
			for _, live := range []string{"", "&live=long-poll", "&live=sse"} {
				got := s.do(http.MethodGet, "/a?seq=1"+live, "")
				assert.Equal(t, 410, got.status)
				assert.Equal(t, "2", got.header.Get("Pico-Start-Seq"))
				require.NotNil(t, picoError(t, got).EarliestSeq)
				assert.EqualValues(t, 2, *picoError(t, got).EarliestSeq)
			}
			assert.Equal(t, 410, s.do(http.MethodGet, "/v1/stream/a?offset=0000000000000000_0000000000000001", "").status)
			assert.Equal(t, "cd", s.must(http.MethodGet, "/v1/stream/a?offset=-1", "").body)
			assert.Equal(t, "cd", s.must(http.MethodGet, "/a?seq=2&format=raw", "").body)
			assert.Equal(t, "2", s.must(http.MethodHead, "/a", "").header.Get("Pico-Start-Seq"))
		})
	}
}

// TestRetentionByDefault is for what a stream does not state.
func TestRetentionByDefault(t *testing.T) {
	s := newService(t)
	s.must(http.MethodPut, "/plain", "a")
	s.must(http.MethodPut, "/aged", "a", "Pico-Retention-Age", "120")
	s.must(http.MethodPut, "/small", "a", "Pico-Retention-Bytes", "100")
	s.streams.Advance(time.Minute + time.Millisecond)
	s.streams.Retain(stream.Retention{Age: 60})
	for name, start := range map[string]string{"/plain": "1", "/aged": "0", "/small": "1"} {
		assert.Equal(t, start, s.must(http.MethodHead, name, "").header.Get("Pico-Start-Seq"), name)
	}
}

func TestAdminShowsRetention(t *testing.T) {
	s := newService(t)
	handler, err := AdminHandler(AdminConfig{
		Ready:     func(context.Context) error { return nil },
		Inspect:   s.streams.Inspect,
		Cluster:   noCluster,
		Retention: stream.Retention{Age: 60},
		Gatherer:  prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	s.must(http.MethodPut, "/both", "", "Pico-Retention-Age", "3600", "Pico-Retention-Bytes", "1000")
	s.must(http.MethodPut, "/plain", "")
	for name, want := range map[string]map[string]any{
		"both":  {"retention_age": 3600.0, "retention_bytes": 1000.0, "default_retention_age": nil, "default_retention_bytes": nil},
		"plain": {"retention_age": nil, "retention_bytes": nil, "default_retention_age": 60.0, "default_retention_bytes": nil},
	} {
		recorder := httptest.NewRecorder()
		handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/streams/"+name, http.NoBody))
		require.Equal(t, http.StatusOK, recorder.Code)
		var shown map[string]any
		require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &shown))
		for member, value := range want {
			assert.Equal(t, value, shown[member], "%s %s", name, member)
		}
	}
}
