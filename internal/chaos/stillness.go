package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// lingering is how long a fault that is over is still named beside a silence.
	lingering = time.Second
	// notable is the least silence that is told at once.
	notable = 250 * time.Millisecond
	// mostTold is how many silences the report tells.
	mostTold = 6
)

// stillness measures the longest time that no node accepted a write though one
// could be expected to: database and bucket were up, and so was at least one node.
// Its methods are safe for concurrent use.
type stillness struct {
	tell func(format string, args ...any)
	now  func() time.Time

	mu       sync.Mutex
	able     []bool // the nodes
	database bool   // is up
	bucket   bool   // likewise
	counting bool
	since    time.Time         // of the last accepted write, or since one is possible
	under    [faults]int       // how many of each fault are under way
	over     [faults]time.Time // when the last of each ended
	accepted int64
	late     time.Duration            // at most, of the probe itself: the machine had no time for it
	longest  map[string]time.Duration // by the faults that were under way meanwhile, or just before
}

// newStillness begins with a bucket and nothing else. tell is given notable silences.
func newStillness(nodes int, tell func(format string, args ...any)) *stillness {
	return &stillness{tell: tell, now: time.Now, able: make([]bool, nodes), bucket: true, longest: map[string]time.Duration{}}
}

// setNode notes whether a node is expected to take writes.
func (s *stillness) setNode(i int, able bool) {
	s.change(func() { s.able[i] = able })
}

// setDatabase notes whether the database answers.
func (s *stillness) setDatabase(up bool) {
	s.change(func() { s.database = up })
}

// setBucket notes whether the bucket does.
func (s *stillness) setBucket(up bool) {
	s.change(func() { s.bucket = up })
}

// begin and end note a fault, which silences are told with.
func (s *stillness) begin(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under[f]++
}

func (s *stillness) end(f fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under[f]--
	s.over[f] = s.now()
}

// count starts or ends the counting.
func (s *stillness) count(counting bool) {
	s.change(func() { s.counting = counting })
}

// accept notes that a node accepted a write.
func (s *stillness) accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted++
	s.settle()
	s.since = s.now()
}

// woke notes how late the probe itself came.
func (s *stillness) woke(late time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = max(s.late, late)
}

func (s *stillness) change(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.possible()
	if before {
		s.settle()
	}
	do()
	if !before && s.possible() {
		s.since = s.now()
	}
}

// possible is called with the lock held, as are settle and amid.
func (s *stillness) possible() bool {
	return s.database && s.bucket && s.counting && slices.Contains(s.able, true)
}

// settle keeps the silence up to now, if it is the longest amid the same faults.
func (s *stillness) settle() {
	if !s.possible() {
		return
	}
	silence, amid := s.now().Sub(s.since), s.amid()
	if silence > s.longest[amid] {
		s.longest[amid] = silence
	}
	if silence >= notable {
		s.tell("%v without an accepted write, amid %s", silence.Round(time.Millisecond), amid)
	}
}

// amid names the faults that are under way, or ended since shortly before the
// silence began.
func (s *stillness) amid() string {
	var names []string
	for f := range faults {
		if s.under[f] > 0 || s.over[f].After(s.since.Add(-lingering)) {
			names = append(names, f.String())
		}
	}
	if len(names) == 0 {
		return "no fault"
	}
	return strings.Join(names, " + ")
}

// most is the longest silence of all.
func (s *stillness) most() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var most time.Duration
	for _, silence := range s.longest {
		most = max(most, silence)
	}
	return most
}

// String is the longest silences and what they were amid.
func (s *stillness) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	amid := slices.SortedFunc(maps.Keys(s.longest), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.longest[b], s.longest[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, faults := range amid[:min(len(amid), mostTold)] {
		parts = append(parts, fmt.Sprintf("%v (%s)", s.longest[faults].Round(time.Millisecond), faults))
	}
	return strings.Join(parts, ", ")
}
