package loadgen_test

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/httpapi"
	"github.com/picomq/picomq/internal/loadgen"
	"github.com/picomq/picomq/internal/memserver"
	"github.com/picomq/picomq/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noStreams checks that a run leaves nothing behind.
func noStreams(t *testing.T, server *memserver.Server) {
	t.Helper()
	page, err := server.Streams.List(t.Context(), stream.ListRequest{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, page.Streams)
}

// TestRunMeasuresWhatTheServerSaw: every append that the server carried out is
// counted, with every record of it delivered to every live reader.
func TestRunMeasuresWhatTheServerSaw(t *testing.T) {
	for _, c := range []struct {
		what     string
		protocol client.Protocol
		batch    int
	}{
		{"pico, one record", client.Pico, 1},
		{"pico, batches", client.Pico, 7},
		{"durable streams, one record", client.DurableStreams, 1},
		{"durable streams, batches", client.DurableStreams, 7},
	} {
		t.Run(c.what, func(t *testing.T) {
			// A reader that comes back begins at the tail, and is not told of what it missed.
			server := memserver.Start(t, func(c *httpapi.Config) { c.SSEMaxDuration = time.Hour })
			var appends atomic.Int64
			server.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if r.Method == http.MethodPost {
					appends.Add(1)
				}
				next.ServeHTTP(w, r)
			})
			report, err := loadgen.Run(t.Context(), loadgen.Config{
				Endpoint: server.URL, Protocol: c.protocol, Connections: 3, Streams: 2, Readers: 4,
				Batch: c.batch, Duration: 300 * time.Millisecond,
			})
			require.NoError(t, err)
			require.Positive(t, report.Appends)
			require.Equal(t, appends.Load(), report.Appends)
			require.Empty(t, report.Failures)
			require.Empty(t, report.ReaderFailures)
			require.Equal(t, 2*report.Appends*int64(c.batch), report.Delivered, "two readers follow each stream")
			require.Positive(t, report.AppendLatency.P50)
			require.LessOrEqual(t, report.AppendLatency.P50, report.AppendLatency.Max)
			require.LessOrEqual(t, report.DeliveryLatency.P50, report.DeliveryLatency.Max)
			require.InEpsilon(t, report.AppendsPerSecond*float64(c.batch)*100/1e6, report.MBPerSecond, 1e-9)
			noStreams(t, server)
		})
	}
}

// TestRateIsKept: with a rate the number of appends is known beforehand.
func TestRateIsKept(t *testing.T) {
	server := memserver.Start(t)
	report, err := loadgen.Run(t.Context(), loadgen.Config{
		Endpoint: server.URL, Connections: 4, Streams: 1, Rate: 200, Duration: 250 * time.Millisecond,
	})
	require.NoError(t, err)
	require.Equal(t, int64(50), report.Appends)
}

// TestStallsAreCharged: an open loop counts latency from when an append was
// due, not from when a stalled server let it be sent.
func TestStallsAreCharged(t *testing.T) {
	server := memserver.Start(t)
	var stalled atomic.Bool
	server.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPost && stalled.CompareAndSwap(false, true) {
			time.Sleep(100 * time.Millisecond)
		}
		next.ServeHTTP(w, r)
	})
	report, err := loadgen.Run(t.Context(), loadgen.Config{
		Endpoint: server.URL, Connections: 1, Streams: 1, Rate: 100, Duration: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	require.Equal(t, int64(10), report.Appends)
	require.GreaterOrEqual(t, report.AppendLatency.P50, 20.0, "those behind the stalled one waited, too")
}

// TestFailuresAreCounted: refusals by status, broken connections apart, and
// neither is a latency.
func TestFailuresAreCounted(t *testing.T) {
	server := memserver.Start(t)
	var n atomic.Int64
	server.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPost {
			switch n.Add(1) {
			case 1:
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			case 2:
				panic(http.ErrAbortHandler)
			}
		}
		next.ServeHTTP(w, r)
	})
	report, err := loadgen.Run(t.Context(), loadgen.Config{
		Endpoint: server.URL, Connections: 1, Streams: 1, Rate: 100, Duration: 100 * time.Millisecond,
	})
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"503": 1, "connection": 1}, report.Failures)
	require.NotEmpty(t, report.LastFailure)
	require.Equal(t, int64(8), report.Appends, "it went on on a new connection")

	var text strings.Builder
	require.NoError(t, report.Write(&text))
	require.Contains(t, text.String(), "appends failed: 503: 1 connection: 1\n")
}

func TestBaseline(t *testing.T) {
	server := memserver.Start(t)
	folder := t.TempDir()
	report, err := loadgen.Run(t.Context(), loadgen.Config{
		Endpoint: server.URL, Connections: 1, Streams: 1, Duration: 300 * time.Millisecond, Baseline: folder,
	})
	require.NoError(t, err)
	require.Positive(t, report.Baseline.PerSecond)
	require.InEpsilon(t, report.AppendsPerSecond/report.Baseline.PerSecond, report.Baseline.ThroughputRatio, 1e-9)
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	require.Empty(t, left)

	encoded, err := json.Marshal(report)
	require.NoError(t, err)
	require.Contains(t, string(encoded), `"p99_9"`)
	var text strings.Builder
	require.NoError(t, report.Write(&text))
	require.Contains(t, text.String(), "bare put+fsync+SQLite")

	_, err = loadgen.Run(t.Context(), loadgen.Config{
		Endpoint: server.URL, Connections: 1, Streams: 1, Duration: time.Millisecond, Baseline: filepath.Join(folder, "missing"),
	})
	require.ErrorContains(t, err, "missing")
	noStreams(t, server)
}

// TestEndingEarly: what was measured until the context ended is reported, and
// the streams are deleted all the same.
func TestEndingEarly(t *testing.T) {
	server := memserver.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	report, err := loadgen.Run(ctx, loadgen.Config{
		Endpoint: server.URL, Connections: 2, Streams: 2, Readers: 2, Duration: time.Hour,
		Progress: func(p loadgen.Progress) {
			if p.Appends > 0 && p.Delivered > 0 {
				cancel()
			}
		},
	})
	cancel()
	require.NoError(t, err)
	require.Positive(t, report.Appends)
	require.Empty(t, report.Failures, "being told to end is no failure")
	noStreams(t, server)
}

func TestServerThatIsNotThere(t *testing.T) {
	server := memserver.Start(t)
	server.Stop()
	_, err := loadgen.Run(t.Context(), loadgen.Config{Endpoint: server.URL})
	require.ErrorContains(t, err, "create the streams of the load")
	require.Equal(t, stream.CodeUnavailable, stream.CodeOf(err))
	server.Restart()
}

func TestValidate(t *testing.T) {
	valid := loadgen.Config{
		Endpoint: "http://127.0.0.1:1", Connections: 1, Streams: 1, Size: loadgen.MinSize, Batch: 1, Duration: time.Nanosecond,
	}
	require.NoError(t, valid.Validate())
	for message, change := range map[string]func(c *loadgen.Config){
		"--connections is -1":                   func(c *loadgen.Config) { c.Connections = -1 },
		"--connections is 0; it must be positi": func(c *loadgen.Config) { c.Connections = 0 },
		"--streams is -1":                       func(c *loadgen.Config) { c.Streams = -1 },
		"--streams is 0; it must be positive":   func(c *loadgen.Config) { c.Streams = 0 },
		"--size is 17; it must be 18":           func(c *loadgen.Config) { c.Size = 17 },
		"--batch is 0; it must be positive":     func(c *loadgen.Config) { c.Batch = 0 },
		"--batch is 65537":                      func(c *loadgen.Config) { c.Batch = 65537 },
		"--readers is -1":                       func(c *loadgen.Config) { c.Readers = -1 },
		"make appends of more than":             func(c *loadgen.Config) { c.Size, c.Batch = 1<<20, 1000 },
		"--duration is 0s; it must be positive": func(c *loadgen.Config) { c.Duration = 0 },
		"--rate is -1":                          func(c *loadgen.Config) { c.Rate = -1 },
		"--rate is NaN":                         func(c *loadgen.Config) { c.Rate = math.NaN() },
		"--rate is +Inf":                        func(c *loadgen.Config) { c.Rate = math.Inf(1) },
		"is not an http or https":               func(c *loadgen.Config) { c.Endpoint = "ftp://x" },
		"invalid character":                     func(c *loadgen.Config) { c.Endpoint = "http://a b" },
	} {
		c := valid
		change(&c)
		require.ErrorContains(t, c.Validate(), message)
	}
}
