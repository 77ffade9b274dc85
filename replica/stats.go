package replica

import (
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/commands"
)

type counters struct {
	rows, groups, retries, logErrors atomic.Uint64
}

// Stats is what the replica did since it started, and how it stands.
type Stats struct {
	Applied       commands.Index
	Rows          uint64 // rows this node inserted
	Groups        uint64 // groups of commands in them: Groups/Rows is the mean group size
	Retries       uint64 // inserts tried again
	LogErrors     uint64 // calls to the log that failed
	QueueBytes    int
	SinceContact  time.Duration  // since the log last answered
	Inserting     time.Duration  // how long the insert under way has been tried; 0: none is
	SnapshotIndex commands.Index // of the last confirmed snapshot
	Lag           commands.Index // rows the log had at the last look and this node had not applied
}

// Stats reads the counters.
func (r *Replica) Stats() Stats {
	applied := r.Applied()
	return Stats{
		Applied: applied, Rows: r.stats.rows.Load(), Groups: r.stats.groups.Load(), Retries: r.stats.retries.Load(),
		LogErrors: r.stats.logErrors.Load(), QueueBytes: r.queue.size(), SinceContact: r.since(&r.contact), Inserting: r.insertAge(),
		SnapshotIndex: commands.Index(r.snapshot.taken.Load()), Lag: max(r.seen(), applied) - applied,
	}
}

func (r *Replica) insertAge() time.Duration {
	if r.inserting.Load() == 0 {
		return 0
	}
	return r.since(&r.inserting)
}

// saw notes the log's head as just learned.
func (r *Replica) saw(head commands.Index) {
	for {
		old := r.head.Load()
		if uint64(head) <= old || r.head.CompareAndSwap(old, uint64(head)) {
			return
		}
	}
}

func (r *Replica) seen() commands.Index { return commands.Index(r.head.Load()) }
