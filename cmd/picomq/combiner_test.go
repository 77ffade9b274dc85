package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/internal/process"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// TestOneNodeInsertsForAll as long as it answers. While it is frozen the others
// insert for themselves, and nothing is doubled or lost when it wakes.
func TestOneNodeInsertsForAll(t *testing.T) {
	d, bucket := sqllogtest.Postgres(t), t.TempDir()
	nodes := make(map[string]*process.Server) // by node number
	for i := range 3 {
		server := launchNode(t, d.URL, bucket, "--cluster-listen", "127.0.0.1:0", "--cluster-secret", "among us")
		nodes[fmt.Sprint(i+1)] = server
	}
	call(t, http.MethodPut, nodes["1"].URL+"/s", "text/plain", "").require(t, http.StatusCreated)

	stopWriting := make(chan struct{})
	var writers sync.WaitGroup
	var acknowledged sync.Map
	written := make(map[string]*atomic.Int64)
	for number, node := range nodes {
		written[number] = &atomic.Int64{}
		for w := range 4 {
			writers.Go(func() {
				for seq := 0; ; seq++ {
					select {
					case <-stopWriting:
						return
					default:
					}
					record := fmt.Sprintf("<%s.%d.%d>", number, w, seq)
					if appendOnce(t, node.URL+"/s", fmt.Sprintf("%s.%d", number, w), seq, record) {
						acknowledged.Store(record, true)
						written[number].Add(1)
					} else {
						seq-- // again, under the same number
					}
				}
			})
		}
	}
	shared := func() string {
		return d.String(t, "SELECT count(*) FROM (SELECT idx FROM origins GROUP BY idx HAVING count(*) > 1) AS shared")
	}
	require.Eventually(t, func() bool { return shared() != "0" }, patience, 10*time.Millisecond, "rows are shared")

	var leader string
	require.Eventually(t, func() bool {
		return d.Admin.QueryRowContext(t.Context(), "SELECT node::text FROM leases WHERE name = 'insert'").Scan(&leader) == nil
	}, patience, 10*time.Millisecond)
	for number, node := range nodes {
		name := "picomq_log_inserted_by_others_total"
		if number == leader {
			name = "picomq_log_inserted_for_others_total"
		}
		grows(t, node, name)
		grows(t, node, "picomq_log_insert_wait_seconds_count")
	}
	require.NoError(t, nodes[leader].Signal(syscall.SIGSTOP))
	for number := range nodes {
		if number != leader {
			before := written[number].Load()
			require.Eventually(t, func() bool { return written[number].Load() > before+50 }, patience, time.Millisecond, "node %s goes on", number)
		}
	}
	require.NoError(t, nodes[leader].Signal(syscall.SIGCONT))
	before := written[leader].Load()
	require.Eventually(t, func() bool { return written[leader].Load() > before+20 }, patience, time.Millisecond)
	close(stopWriting)
	writers.Wait()

	all := ""
	for at := "0"; ; {
		answer := call(t, http.MethodGet, nodes["2"].URL+"/s?format=raw&limit=10000&seq="+at, "", "")
		answer.require(t, http.StatusOK)
		if answer.body == "" {
			break
		}
		all += answer.body
		at = answer.header.Get(wire.PicoNextSeq)
	}
	acknowledged.Range(func(record, _ any) bool {
		require.Equal(t, 1, strings.Count(all, record.(string)), record)
		return true
	})
	for _, node := range nodes {
		stop(t, node, syscall.SIGTERM)
	}
}

// grows waits until a counter is above 0.
func grows(t *testing.T, server *process.Server, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		text := call(t, http.MethodGet, server.AdminURL+"/metrics", "", "").body
		return strings.Contains(text, "\n"+name+" ") && !strings.Contains(text, "\n"+name+" 0\n")
	}, patience, 10*time.Millisecond, name)
}

// appendOnce appends as a producer and tells whether that was acknowledged.
func appendOnce(t *testing.T, url, producer string, seq int, record string) bool {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(record))
	if err != nil {
		return false
	}
	request.Header.Set("Content-Type", "text/plain")
	request.Header.Set(wire.PicoProducerID, producer)
	request.Header.Set(wire.PicoProducerEpoch, "0")
	request.Header.Set(wire.PicoProducerSeq, fmt.Sprint(seq))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = answer.Body.Close() }()
	text, _ := io.ReadAll(answer.Body)
	if answer.StatusCode < 500 && answer.StatusCode/100 != 2 {
		t.Errorf("an append was answered %s: %s", answer.Status, text)
	}
	return answer.StatusCode/100 == 2
}
