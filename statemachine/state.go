package statemachine

import (
	"sync/atomic"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// maxDense bounds the dense part of stream ids, so that whatever is indexed by
// it stays addressable. At 100,000 creates a second it lasts four months of
// nothing else; creates beyond it are refused as [Full].
const maxDense = 1<<40 - 1

// State is everything that the log decided. One goroutine applies entries; any
// number of goroutines read through [View] meanwhile. Make one with [New] or
// [Restore].
type State struct {
	// Written and read by the apply goroutine only.

	index           commands.Index
	logTime         stream.Time
	activeTime      int64 // milliseconds
	lastDense       uint64
	cluster         commands.ClusterID
	hasCluster      bool
	level           uint32
	release         string
	items           uint64 // sum of the hashes of all canonical items but the scalars
	changed         []stream.ID
	cascaded        int // deleted parents that the entry removed with their last fork
	ring            checkpoints
	running         *Snapshot      // nil when none is being encoded
	snapshots       uint64         // how many were begun: the generation of the last
	emptied         []uint64       // stream pages that became empty while a snapshot ran
	emptiedSegments []uint64       // likewise of segments
	segmented       commands.Index // of the last entry that changed a segment's row
	free            freeSlots

	// Written by the apply goroutine, read by all: each guards itself.

	streams   directory[streamPage]
	segments  directory[segmentPage]
	names     names
	nodes     nodes
	types     interner
	producers interner
	counts    Counts
	public    published
}

// published is what readers see of the scalars. It is stored after the rows of
// an entry are in place, the index last.
type published struct {
	index      atomic.Uint64
	logTime    atomic.Int64
	activeTime atomic.Int64
	lastDense  atomic.Uint64
	level      atomic.Uint32
	segmented  atomic.Uint64
	expiring   atomic.Int64
	counts     atomic.Pointer[Counts]
	cluster    atomic.Pointer[clusterInfo]
}

type clusterInfo struct {
	id      commands.ClusterID
	release string
}

// Counts is how much a state holds.
type Counts struct {
	Streams  uint64 // deleted ones that forks keep included
	Deleted  uint64 // those
	Expiring uint64 // streams that can expire
	Retained uint64 // streams that state what they keep
	Slots    uint64 // up to the highest that holds a segment, empty ones included
	Segments uint64 // segments that exist
	Dead     uint64 // those that nothing refers to
	Doomed   uint64 // those of the dead whose objects may be deleted
	Extents  uint64
	// SegmentBytes is the size of all segments, DeadBytes of the dead ones;
	// Referenced is the sum of what extents have of them, where what a fork shares
	// with its parent counts for both.
	SegmentBytes uint64
	DeadBytes    uint64
	Referenced   uint64
	Producers    uint64 // (stream, producer) pairs
}

// New is the state before the first entry.
func New() *State {
	s := &State{level: firstLevel}
	s.types.init()
	s.producers.init()
	s.publish()
	return s
}

// Index is the last applied entry's index. Apply goroutine only; others ask
// [View.Index].
func (s *State) Index() commands.Index { return s.index }

// View is a window onto the state that stays current. It costs nothing, and
// its methods may be called from any goroutine while entries are applied.
func (s *State) View() View { return View{s} }

// publish lets readers see the entry just applied.
func (s *State) publish() {
	p := &s.public
	p.logTime.Store(int64(s.logTime))
	p.activeTime.Store(s.activeTime)
	p.lastDense.Store(s.lastDense)
	p.level.Store(s.level)
	p.segmented.Store(uint64(s.segmented))
	p.expiring.Store(int64(s.counts.Expiring))
	if old := p.counts.Load(); old == nil || *old != s.counts {
		counts := s.counts
		p.counts.Store(&counts)
	}
	if old := p.cluster.Load(); s.hasCluster && (old == nil || old.release != s.release) {
		p.cluster.Store(&clusterInfo{id: s.cluster, release: s.release})
	}
	p.index.Store(uint64(s.index))
}
