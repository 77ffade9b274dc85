package statemachine

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/picomq/picomq/stream"
)

// recompute is the sum of the hashes of all items but the scalars, from a walk
// over everything: what State.items must be at any time.
func (s *State) recompute() uint64 {
	var sum uint64
	for dense := uint64(0); dense <= s.lastDense; dense++ {
		id := stream.MakeID(0, dense)
		if p, ok := s.find(id); ok {
			sum += s.hashStream(id, p)
		}
	}
	for slot := range uint32(s.counts.Slots) {
		if g := s.segment(slot); g != nil {
			sum += hashSegment(slot, g) + hashReferences(slot, g)
		}
	}
	for _, n := range s.nodes.list {
		sum += hashNode(n)
	}
	return sum
}

// TestDigestSeesEverything changes one thing after the other: no two states
// have the same digest.
func TestDigestSeesEverything(t *testing.T) {
	changes := map[string]func(*State){
		"nothing":     func(*State) {},
		"index":       func(s *State) { s.index++ },
		"log time":    func(s *State) { s.logTime++ },
		"active time": func(s *State) { s.activeTime++ },
		"last id":     func(s *State) { s.lastDense++ },
		"cluster":     func(s *State) { s.cluster[15]++ },
		"no cluster":  func(s *State) { s.hasCluster = false },
		"level":       func(s *State) { s.level++ },
		"release":     func(s *State) { s.release = "v" },

		"created":      func(s *State) { damaged(s, 1).row().created++ },
		"start":        func(s *State) { damaged(s, 1).row().start++ },
		"tail":         func(s *State) { damaged(s, 1).row().tail++ },
		"touched":      func(s *State) { damaged(s, 2).row().touched++ },
		"limit":        func(s *State) { damaged(s, 2).row().limit++ },
		"expiry":       func(s *State) { damaged(s, 2).row().expiry = stream.ExpiresAt },
		"closed":       func(s *State) { damaged(s, 1).row().flags |= flagClosed },
		"type":         func(s *State) { damaged(s, 1).row().contentType = damaged(s, 2).row().contentType },
		"name":         func(s *State) { damaged(s, 1).page.names[1] = "z" },
		"closer":       func(s *State) { damaged(s, 2).side().closer = 0 },
		"stream-seq":   func(s *State) { damaged(s, 2).side().streamSeq = "t" },
		"extent place": func(s *State) { damaged(s, 1).extents().rows[0].Ordinal++ },
		"extent slot":  func(s *State) { damaged(s, 1).extents().rows[0].Segment++ },
		"extent count": func(s *State) { damaged(s, 1).extents().rows[0].packed += 4 },
		"extent bytes": func(s *State) { damaged(s, 1).extents().rows[0].Bytes++ },

		"extent cut": func(s *State) { damaged(s, 1).extents().rows[0].packed++ },

		"deleted":     func(s *State) { damaged(s, 4).row().flags &^= flagDeleted },
		"fork flag":   func(s *State) { damaged(s, 4).row().flags &^= flagFork },
		"forked":      func(s *State) { damaged(s, 4).row().flags &^= flagForked },
		"live forks":  func(s *State) { damaged(s, 4).side().forks++ },
		"fork parent": func(s *State) { forkOf(s, 4).Parent++ },
		"fork name":   func(s *State) { forkOf(s, 4).From = "b" },
		"fork at":     func(s *State) { forkOf(s, 4).At++ },
		"fork sub":    func(s *State) { forkOf(s, 4).Sub++ },
		"fork end":    func(s *State) { forkOf(s, 4).End++ },

		"producer epoch": func(s *State) { damaged(s, 2).side().producers[0].epoch++ },
		"producer seq":   func(s *State) { damaged(s, 2).side().producers[0].seq++ },
		"producer first": func(s *State) { damaged(s, 2).side().producers[0].first++ },
		"producer known": func(s *State) { damaged(s, 2).side().producers[0].known++ },
		"producer back":  func(s *State) { damaged(s, 2).side().producers[0].back[3]++ },

		"segment node":       func(s *State) { s.segments.at(0).rows[0].Node++ },
		"segment epoch":      func(s *State) { s.segments.at(0).rows[0].Epoch++ },
		"segment sequence":   func(s *State) { s.segments.at(0).rows[0].Sequence++ },
		"segment size":       func(s *State) { s.segments.at(0).rows[0].Size++ },
		"segment referenced": func(s *State) { s.segments.at(0).rows[0].Referenced++ },
		"segment time":       func(s *State) { s.segments.at(0).rows[0].Time++ },
		"segment extents":    func(s *State) { s.segments.at(0).rows[0].Extents++ },
		"segment level":      func(s *State) { s.segments.at(0).rows[0].Level++ },
		"segment oldest":     func(s *State) { s.segments.at(0).rows[0].Oldest-- },
		"segment newest":     func(s *State) { s.segments.at(0).rows[0].Newest++ },
		"segment doomed":     func(s *State) { s.segments.at(0).rows[0].Doomed++ },
		"segment first":      func(s *State) { s.segments.at(0).rows[0].First++ },
		"segment last":       func(s *State) { s.segments.at(0).rows[0].Last++ },
		"no segment":         func(s *State) { s.segments.at(0).rows[0] = Segment{} },
		"slots":              func(s *State) { s.counts.Slots++ },

		"retention age":   func(s *State) { damaged(s, 9).side().retention.Age++ },
		"retention bytes": func(s *State) { damaged(s, 9).side().retention.Bytes++ },
		"no retention":    func(s *State) { damaged(s, 9).row().flags &^= flagRetained },

		"node":         func(s *State) { s.nodes.list[0].Node.Node++ },
		"epoch":        func(s *State) { s.nodes.list[0].Epoch++ },
		"incarnation":  func(s *State) { s.nodes.list[0].Incarnation[9]++ },
		"address":      func(s *State) { s.nodes.list[0].Address = "a" },
		"node level":   func(s *State) { s.nodes.list[0].Level++ },
		"node release": func(s *State) { s.nodes.list[0].Release = "v" },
		"last seq":     func(s *State) { s.nodes.list[0].LastSeq++ },
		"used":         func(s *State) { s.nodes.list[0].used.add(77) },
		"given up":     func(s *State) { s.nodes.list[0].givenUp.add(77) },
	}
	snapshot := smallSnapshot(t)
	seen := map[uint64]string{}
	for name, change := range changes {
		s := restore(t, snapshot)
		change(s)
		digest := s.recompute() + s.hashScalars()
		assert.Empty(t, seen[digest], name)
		seen[digest] = name
	}
}
