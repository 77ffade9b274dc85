package sqllog_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// BenchmarkNodes is how many rows of 4 KiB several nodes bring into one log on
// Postgres, each waiting for one row before it sends the next, and how long they
// wait for one.
func BenchmarkNodes(b *testing.B) {
	for _, nodes := range []int{1, 3, 10} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			benchmarkNodes(b, sqllogtest.Postgres(b), nodes)
		})
	}
}

// BenchmarkNodesBesideAnOpenTransaction is the same while somebody keeps a
// snapshot of the database, as a dump does, through many appends: what appends
// leave behind cannot be removed meanwhile.
func BenchmarkNodesBesideAnOpenTransaction(b *testing.B) {
	for _, before := range []int{0, 20_000} {
		b.Run(fmt.Sprint(before), func(b *testing.B) {
			d := sqllogtest.Postgres(b)
			openPostgres(b, d) // makes the tables
			tx, err := d.Admin.BeginTx(b.Context(), &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
			require.NoError(b, err)
			defer func() { require.NoError(b, tx.Rollback()) }()
			_, err = tx.ExecContext(b.Context(), "SELECT idx FROM log_head")
			require.NoError(b, err)
			n := newNodes(b, d, 4, 64)
			n.run(b, before)
			b.ResetTimer()
			n = newNodes(b, d, 3, 4096)
			n.run(b, b.N)
			n.report(b)
		})
	}
}

// BenchmarkNodesBare is the least that a durable row costs there: one insert by
// itself, into a table without more.
func BenchmarkNodesBare(b *testing.B) {
	for _, nodes := range []int{1, 3, 10} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			d := sqllogtest.Postgres(b)
			d.Exec(b, "CREATE TABLE bare (id bigserial PRIMARY KEY, payload bytea)")
			d.Exec(b, "ALTER TABLE bare ALTER COLUMN payload SET STORAGE EXTERNAL")
			d.Admin.SetMaxIdleConns(nodes)
			payload := make([]byte, 4096)
			n := &crowd{appends: slices.Repeat([]appendOne{func(ctx context.Context) error {
				_, err := d.Admin.ExecContext(ctx, "INSERT INTO bare (payload) VALUES ($1)", payload)
				return err
			}}, nodes)}
			b.ResetTimer()
			n.run(b, b.N)
			n.report(b)
		})
	}
}

func benchmarkNodes(b *testing.B, d *sqllogtest.Database, nodes int) {
	n := newNodes(b, d, nodes, 4096)
	b.ResetTimer()
	n.run(b, b.N)
	n.report(b)
}

type appendOne func(ctx context.Context) error

// crowd is nodes that append side by side, and how long each append took.
type crowd struct {
	appends []appendOne

	mu    sync.Mutex
	waits []time.Duration
}

var epochs atomic.Uint64

func newNodes(b *testing.B, d *sqllogtest.Database, nodes, bytes int) *crowd {
	n := &crowd{}
	for range nodes {
		l := openPostgres(b, d)
		in := commands.Insert{Origin: commands.Origin{Node: 1, Epoch: commands.Epoch(epochs.Add(1))}, Payload: make([]byte, bytes)}
		n.appends = append(n.appends, func(ctx context.Context) error {
			in.Origin.Seq++
			_, err := appendUntilSent(ctx, l, in)
			return err
		})
	}
	return n
}

func (n *crowd) run(b *testing.B, count int) {
	var left atomic.Int64
	left.Store(int64(count))
	var running sync.WaitGroup
	for _, one := range n.appends {
		running.Go(func() {
			var waits []time.Duration
			for left.Add(-1) >= 0 {
				begun := time.Now()
				if err := one(b.Context()); err != nil {
					b.Error(err)
					return
				}
				waits = append(waits, time.Since(begun))
			}
			n.mu.Lock()
			n.waits = append(n.waits, waits...)
			n.mu.Unlock()
		})
	}
	running.Wait()
}

func (n *crowd) report(b *testing.B) {
	slices.Sort(n.waits)
	b.ReportMetric(float64(len(n.waits))/b.Elapsed().Seconds(), "rows/s")
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(n.waits[(len(n.waits)-1)*p/100].Microseconds())/1000, fmt.Sprintf("p%d-ms", p))
	}
}
