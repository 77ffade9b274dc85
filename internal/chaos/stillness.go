package chaos

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// stillness measures the longest time that no node accepted a write though one
// could be expected to: the database was up, and so was at least one node. Its
// methods are safe for concurrent use.
type stillness struct {
	mu       sync.Mutex
	now      func() time.Time
	able     []bool // the nodes
	up       bool   // the database
	counting bool
	since    time.Time // of the last accepted write, or since one is possible
	fault    fault     // the last that began
	faulted  time.Time

	accepted int64
	longest  map[fault]time.Duration
	when     map[fault]string
}

func newStillness(nodes int) *stillness {
	return &stillness{now: time.Now, able: make([]bool, nodes), longest: map[fault]time.Duration{}, when: map[fault]string{}}
}

// node notes whether a node is expected to take writes.
func (s *stillness) node(i int, able bool) {
	s.change(func() { s.able[i] = able })
}

// database notes whether the database answers.
func (s *stillness) database(up bool) {
	s.change(func() { s.up = up })
}

// begin notes a fault: silence from now on is counted for it.
func (s *stillness) begin(f fault) {
	s.change(func() { s.fault, s.faulted = f, s.now() })
}

// count starts or ends the counting.
func (s *stillness) count(counting bool) {
	s.change(func() { s.counting, s.fault, s.faulted = counting, none, s.now() })
}

// accept notes that a node accepted a write.
func (s *stillness) accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted++
	s.settle()
	s.since = s.now()
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

// possible is called with the lock held, as is settle.
func (s *stillness) possible() bool {
	if !s.up || !s.counting {
		return false
	}
	for _, able := range s.able {
		if able {
			return true
		}
	}
	return false
}

// settle keeps the silence up to now, if it is the longest for the last fault.
func (s *stillness) settle() {
	if !s.possible() {
		return
	}
	now := s.now()
	if silence := now.Sub(s.since); silence > s.longest[s.fault] {
		s.longest[s.fault] = silence
		s.when[s.fault] = fmt.Sprintf("ended %v after it", now.Sub(s.faulted).Round(time.Millisecond))
	}
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

// String is the longest silence by the fault that began last before it.
func (s *stillness) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var parts []string
	for f := range faults {
		if silence, ok := s.longest[f]; ok {
			parts = append(parts, fmt.Sprintf("%v %v (%s)", f, silence.Round(time.Millisecond), s.when[f]))
		}
	}
	return strings.Join(parts, ", ")
}
