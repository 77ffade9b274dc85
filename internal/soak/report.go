package soak

import (
	"fmt"
	"strings"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// tally counts while a soak goes on. It is safe for concurrent use.
type tally struct {
	lives, crashes, outages, faults, departures, rejoins     atomic.Int64
	requests, repeated, unknown, records, reads, read, waits atomic.Int64
	created, forked, deleted, expired, trimmed, closed       atomic.Int64
}

// Report is what a soak did.
type Report struct {
	Seed     uint64
	Nodes    int
	Lives    int64 // starts of nodes that came about
	Crashes  int64
	Faults   int64 // calls that failed
	Outages  int64
	Departed int64 // times that a node was said to be gone
	Rejoined int64 // times that one which lived registered anew
	Requests int64 // that were decided, reads included
	Repeated int64 // tries of them that were not
	Unknown  int64 // such tries whose outcome only a later answer told
	Records  int64 // written
	Read     int64 // read and compared
	Created  int64 // streams, forks included
	Forked   int64
	Deleted  int64
	Expired  int64
	Trimmed  int64 // times that retention moved the start of a stream
	Waits    int64 // followers that were woken
	Curve    []Point
}

func (w *world) report() *Report {
	t := &w.tally
	return &Report{
		Seed: w.Seed, Nodes: w.Nodes, Lives: t.lives.Load(), Crashes: t.crashes.Load(), Faults: t.faults.Load(), Outages: t.outages.Load(), Departed: t.departures.Load(), Rejoined: t.rejoins.Load(),
		Requests: t.requests.Load(), Repeated: t.repeated.Load(), Unknown: t.unknown.Load(), Records: t.records.Load(), Read: t.read.Load(),
		Created: t.created.Load(), Forked: t.forked.Load(), Deleted: t.deleted.Load(), Expired: t.expired.Load(), Trimmed: t.trimmed.Load(),
		Waits: t.waits.Load(), Curve: w.curve.points(),
	}
}

// String is the report for people.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %d nodes: %d starts, %d crashes, %d calls failed, %d outages, %d times taken for gone, %d times back\n", r.Seed, r.Nodes, r.Lives, r.Crashes, r.Faults, r.Outages, r.Departed, r.Rejoined)
	if r.Requests > 0 { // a month does not count them
		fmt.Fprintf(&b, "%d requests decided, %d tries repeated, %d of them with an unknown outcome\n", r.Requests, r.Repeated, r.Unknown)
	}
	fmt.Fprintf(&b, "%d records written, %d read and compared, %d followers woken\n", r.Records, r.Read, r.Waits)
	fmt.Fprintf(&b, "%d streams created, %d of them forks; %d deleted, %d expired, retention moved %d starts\n", r.Created, r.Forked, r.Deleted, r.Expired, r.Trimmed)
	b.WriteString(Table(r.Curve))
	return b.String()
}

// Point is how much there was at a moment.
type Point struct {
	At       time.Duration // since the start
	Streams  uint64
	Extents  uint64
	Segments uint64
	Dead     uint64 // bytes of segments that nothing refers to
	Bytes    uint64 // of all segments
	Objects  int    // in the bucket
	Rows     int64  // in SQL
	Applied  uint64 // entries, ever
	Heap     uint64 // bytes
}

// Table is the curve as rows of a table.
func Table(points []Point) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "time\tstreams\textents\tsegments\tMB\tdead MB\tobjects\tSQL rows\tentries\theap MB\t")
	for _, p := range points {
		_, _ = fmt.Fprintf(t, "%v\t%d\t%d\t%d\t%.2f\t%.2f\t%d\t%d\t%d\t%.1f\t\n", p.At.Round(100*time.Millisecond), p.Streams, p.Extents, p.Segments,
			float64(p.Bytes)/1e6, float64(p.Dead)/1e6, p.Objects, p.Rows, p.Applied, float64(p.Heap)/1e6)
	}
	_ = t.Flush()
	return b.String()
}
