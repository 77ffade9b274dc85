package loadgen

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	_ "modernc.org/sqlite" // the SQLite driver
)

// maxBaseline bounds how long the baseline is measured.
const maxBaseline = 5 * time.Second

// baselineRow is the bytes of a row: about what the log stores for one append.
const baselineRow = 120

// Baseline is the least that a server which keeps its promise must do for one
// append on its own: put the bytes into a new file and sync file and folder,
// then commit one row to SQLite in WAL mode with full sync, one after the
// other. Servers share that cost between appends, so the throughput ratio may
// be far above 1.
type Baseline struct {
	Folder          string  `json:"folder"`
	PerSecond       float64 `json:"commits_per_second"`
	Latency         Latency `json:"ms"`
	ThroughputRatio float64 `json:"appends_per_commit"`   // of the run
	LatencyRatio    float64 `json:"median_latency_ratio"` // of the run
}

func (r *Report) compare(b *Baseline) {
	if b.PerSecond > 0 {
		b.ThroughputRatio = r.AppendsPerSecond / b.PerSecond
		b.LatencyRatio = r.AppendLatency.P50 / b.Latency.P50
	}
	r.Baseline = b
}

// measureBaseline works in a folder of its own below parent, which it removes.
func measureBaseline(ctx context.Context, parent string, size int, d time.Duration) (_ *Baseline, err error) {
	folder, err := os.MkdirTemp(parent, "picomq-baseline-")
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	defer func() { err = firstError(err, os.RemoveAll(folder)) }()
	bare, err := openBare(ctx, folder, size)
	if err != nil {
		return nil, fmt.Errorf("baseline in %s: %w", parent, err)
	}
	defer func() { err = firstError(err, bare.close()) }()
	latencies := newHistogram()
	began := time.Now()
	n := 0
	for ; time.Since(began) < d && ctx.Err() == nil; n++ {
		start := time.Now()
		if err := bare.commit(ctx, n); err != nil {
			return nil, fmt.Errorf("baseline in %s: %w", parent, err)
		}
		_ = latencies.RecordValue(min(max(time.Since(start).Microseconds(), 1), longestLatency.Microseconds())) // it is in range
	}
	return &Baseline{Folder: parent, PerSecond: float64(n) / time.Since(began).Seconds(), Latency: latencyOf(latencies)}, nil
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// bare is files and a table.
type bare struct {
	folder string
	dir    *os.File
	db     *sql.DB
	insert *sql.Stmt
	object []byte
	row    []byte
}

func openBare(ctx context.Context, folder string, size int) (*bare, error) {
	b := &bare{folder: folder, object: bytes.Repeat([]byte{'x'}, size), row: bytes.Repeat([]byte{'r'}, baselineRow)}
	var err error
	if b.dir, err = os.Open(folder); err != nil {
		return nil, err
	}
	options := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)"}}
	if b.db, err = sql.Open("sqlite", "file:"+filepath.Join(folder, "baseline.db")+"?"+options.Encode()); err != nil {
		return nil, firstError(err, b.dir.Close())
	}
	b.db.SetMaxOpenConns(1)
	if _, err = b.db.ExecContext(ctx, "CREATE TABLE log (id INTEGER PRIMARY KEY, payload BLOB NOT NULL)"); err == nil {
		b.insert, err = b.db.PrepareContext(ctx, "INSERT INTO log (payload) VALUES (?)")
	}
	if err != nil {
		return nil, firstError(err, b.close())
	}
	return b, nil
}

// commit puts one object and one row.
func (b *bare) commit(ctx context.Context, n int) error {
	path := filepath.Join(b.folder, strconv.Itoa(n))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = file.Write(b.object); err == nil {
		err = file.Sync()
	}
	if err = firstError(err, file.Close()); err != nil {
		return err
	}
	if err := b.dir.Sync(); err != nil {
		return err
	}
	_, err = b.insert.ExecContext(ctx, b.row)
	return err
}

func (b *bare) close() error {
	var err error
	if b.insert != nil {
		err = b.insert.Close()
	}
	err = firstError(err, b.db.Close())
	return firstError(err, b.dir.Close())
}
