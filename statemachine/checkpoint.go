package statemachine

import "github.com/picomq/picomq/commands"

// CheckpointInterval is how far apart the entries are after which a state
// remembers its digest: those whose index is a multiple of it. Nodes report
// these and no others.
const CheckpointInterval commands.Index = 1024

// maxCheckpoints is how many digests are remembered: reports that come more
// than 65,536 entries late cannot be compared.
const maxCheckpoints = 64

// checkpoint is the digest after one entry.
type checkpoint struct {
	at     commands.Index
	digest commands.Digest
}

// checkpoints are the last maxCheckpoints of them, ascending.
type checkpoints struct {
	list []checkpoint
}

// remember keeps the digest of this entry if it is one of those compared.
func (s *State) remember() {
	if s.index%CheckpointInterval != 0 {
		return
	}
	if len(s.ring.list) == maxCheckpoints {
		copy(s.ring.list, s.ring.list[1:])
		s.ring.list = s.ring.list[:maxCheckpoints-1]
	}
	s.ring.list = append(s.ring.list, checkpoint{s.index, s.Digest()})
}

// compare holds a node's report against what this state had at that index.
func (s *State) compare(m *commands.Checkpoint) Verdict {
	for _, c := range s.ring.list {
		if c.at == m.At {
			if c.digest == m.Digest {
				return Accepted
			}
			return Diverged
		}
	}
	return NotFound
}
