package crash

import (
	"fmt"
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
	Acknowledged    int64         // requests
	Records         int64         // in them
	Duplicates      int64         // retries answered as such, all at the original offset
	Recovered       int64         // those among them whose first answer a kill had taken
	Conditions      int64         // lost conditional requests that a refused retry decided
	Lost            int64         // requests left open by a kill, sent once
	Unavailable     int64         // answers 429 and 503
	Followed        int64         // records that followers saw
	LongestRecovery time.Duration // from the start of a process to its readiness
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
	fmt.Fprintf(&b, "%d records followed live without gap or repeat, %d answers 429 or 503", r.Followed, r.Unavailable)
	return b.String()
}

// tally counts while a run goes on. It is safe for concurrent use.
type tally struct {
	acknowledged, records, duplicates, recovered, conditions, unavailable atomic.Int64
	alarm                                                                 atomic.Pointer[alarm]
}

// alarm rings at a number of acknowledgements.
type alarm struct {
	at   int64
	once sync.Once
	rung chan struct{}
}

// after sets the alarm to ring n acknowledgements from now.
func (t *tally) after(n int) <-chan struct{} {
	a := &alarm{at: t.acknowledged.Load() + int64(n), rung: make(chan struct{})}
	t.alarm.Store(a)
	return a.rung
}

// count enters an answer: what was known of the request before and after it.
func (t *tally) count(before, now *write, a answer) {
	switch {
	case a.verdict == duplicate:
		t.duplicates.Add(1)
		if before.found && before.fate == sent {
			t.recovered.Add(1)
		}
	case a.verdict == conditionFail && before.found:
		t.conditions.Add(1)
	}
	if before.fate == acknowledged || now.fate != acknowledged {
		return
	}
	t.records.Add(int64(now.count))
	n := t.acknowledged.Add(1)
	if alarm := t.alarm.Load(); alarm != nil && n >= alarm.at {
		alarm.once.Do(func() { close(alarm.rung) })
	}
}
