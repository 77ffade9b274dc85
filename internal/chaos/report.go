package chaos

import (
	"fmt"
	"strings"
	"time"
)

// Report is what happened in a run.
type Report struct {
	Rounds    int
	Streams   int
	Records   int64 // in the end
	Calls     int64 // to those streams, reads included
	Unknown   int64 // of them without an answer that tells the outcome
	Visits    int64 // connections of followers
	Undecided int   // streams whose check took too long
	Faults    map[string]int
	Pairs     int // of them that began while another was under way
	Orphans   int // objects in the bucket in the end that nothing refers to

	stillness *stillness
}

func (r *Report) add(m *misfortune) {
	if r.Faults == nil {
		r.Faults = map[string]int{}
	}
	for f, n := range m.counts {
		if n > 0 {
			r.Faults[fault(f).String()] += n
		}
	}
	r.Pairs += m.pairs
}

// Stillness is the longest time that no node accepted a write though the
// database and at least one node were up.
func (r *Report) Stillness() time.Duration { return r.stillness.most() }

// String tells it in a few lines.
func (r *Report) String() string {
	var befell []string
	for f := range faults {
		if n := r.Faults[f.String()]; n > 0 {
			befell = append(befell, fmt.Sprintf("%v %d", f, n))
		}
	}
	text := fmt.Sprintf("%d calls to %d streams, %d of them with an unknown outcome; %d records; %d connections of followers; %d objects that nothing refers to\n"+
		"faults: %s; %d of them while another was under way",
		r.Calls, r.Streams, r.Unknown, r.Records, r.Visits, r.Orphans, strings.Join(befell, ", "), r.Pairs)
	if r.stillness != nil {
		text += fmt.Sprintf("\n%d writes of the probe accepted, which itself came up to %v late; longest time without one, while one was possible: %v\nthe longest, and the faults meanwhile or just before: %v",
			r.stillness.accepted, r.stillness.late.Round(time.Millisecond), r.Stillness().Round(time.Millisecond), r.stillness)
	}
	return text
}
