package crash

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Report is what a run did.
type Report struct {
	Seed            uint64
	Kills           map[string]int // by kind
	Streams         int
	Closed          int           // of them
	Forks           int           // of them
	Inherited       int64         // records, in the forks that are left
	Cut             int           // forks that end their inherited part within a record
	Deleted         int           // streams
	Kept            int           // of them, seen to be kept for their forks
	Acknowledged    int64         // requests
	Records         int64         // in them
	Duplicates      int64         // retries answered as such, all at the original offset
	Recovered       int64         // those among them whose first answer a kill had taken
	Conditions      int64         // lost conditional requests that a refused retry decided
	Lost            int64         // requests left open by a kill, sent once
	TooLate         int64         // requests refused because the stream was closed
	Unavailable     int64         // answers 429 and 503
	Followed        int64         // records that followers saw
	LongestRecovery time.Duration // from the start of a process to its readiness
	Left            left
}

// String is the report for people.
func (r *Report) String() string {
	var b strings.Builder
	total := 0
	for kind := range killKinds {
		total += r.Kills[kind.String()]
	}
	fmt.Fprintf(&b, "seed %d: %d kills (", r.Seed, total)
	for kind := range killKinds {
		fmt.Fprintf(&b, "%s %d, ", kind, r.Kills[kind.String()])
	}
	fmt.Fprintf(&b, "longest recovery %v)\n", r.LongestRecovery.Round(time.Millisecond))
	fmt.Fprintf(&b, "%d appends and creates acknowledged, %d records in %d streams, each there once at its offset\n", r.Acknowledged, r.Records, r.Streams)
	fmt.Fprintf(&b, "%d retries answered as duplicates at the original offset, %d of them of requests whose answer a kill took\n", r.Duplicates, r.Recovered)
	fmt.Fprintf(&b, "%d lost conditional requests decided by their retry, %d requests without a producer left open by a kill\n", r.Conditions, r.Lost)
	fmt.Fprintf(&b, "%d forks with all %d records that they inherited and no other, %d of them cut within a record; %d streams deleted, %d of them kept for their forks\n",
		r.Forks, r.Inherited, r.Cut, r.Deleted, r.Kept)
	fmt.Fprintf(&b, "%d streams closed for good, %d requests came too late for them\n", r.Closed, r.TooLate)
	fmt.Fprintf(&b, "%d records followed live without gap or repeat, %d answers 429 or 503", r.Followed, r.Unavailable)
	fmt.Fprintf(&b, "\n%d entries in the log, %d archive objects; %d segments with %d extents are left",
		r.Left.Index, r.Left.Archives, r.Left.Objects, r.Left.Extents)
	return b.String()
}

// add counts what a ledger knows.
func (r *Report) add(l *ledger) {
	r.Streams++
	if l.closed {
		r.Closed++
	}
	if w := l.deletion(); w != nil && (w.fate == acknowledged || w.found) {
		r.Deleted++
		if l.kept {
			r.Kept++
		}
	}
	for _, w := range l.writes {
		if w.sentOnce() && w.lost > 0 {
			r.Lost++
		}
		if w.creates && w.fate == acknowledged && l.fork != nil {
			r.addFork(l)
		}
	}
}

func (r *Report) addFork(l *ledger) {
	r.Forks++
	if l.exists {
		r.Inherited += int64(l.base())
	}
	if l.fork.cut != nil {
		r.Cut++
	}
}

// tally counts while a run goes on. It is safe for concurrent use.
type tally struct {
	acknowledged, records, duplicates, recovered, conditions, tooLate, unavailable atomic.Int64

	mu     sync.Mutex // guards alarms
	alarms []alarm    // that have not rung
}

// alarm rings at a number of acknowledgements.
type alarm struct {
	at   int64
	rung chan struct{}
}

// after sets an alarm that rings n acknowledgements from now.
func (t *tally) after(n int) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := alarm{at: t.acknowledged.Load() + int64(n), rung: make(chan struct{})}
	t.alarms = append(t.alarms, a)
	return a.rung
}

// ring rings the alarms that are due at n acknowledgements.
func (t *tally) ring(n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.alarms = slices.DeleteFunc(t.alarms, func(a alarm) bool {
		if n >= a.at {
			close(a.rung)
		}
		return n >= a.at
	})
}

// count enters an answer: what was known of the request before and after it.
func (t *tally) count(before, now *write, a answer) {
	switch {
	case a.verdict == duplicate:
		t.duplicates.Add(1)
		if before.found && before.fate == sent {
			t.recovered.Add(1)
		}
	case a.verdict == streamClosed:
		t.tooLate.Add(1)
	case a.verdict == conditionFail && before.found:
		t.conditions.Add(1)
	}
	if before.fate == acknowledged || now.fate != acknowledged {
		return
	}
	t.records.Add(int64(now.count))
	t.ring(t.acknowledged.Add(1))
}
