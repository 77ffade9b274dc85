package replica

import (
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/commands"
)

type counters struct {
	rows, groups, retries, logErrors, rejoins atomic.Uint64
}

// Stats is what the replica did since it started, and how it stands.
type Stats struct {
	Applied       commands.Index
	Rows          uint64 // rows with commands of this node
	Groups        uint64 // groups of commands in them: Groups/Rows is the mean group size
	Retries       uint64 // inserts tried again
	LogErrors     uint64 // calls to the log that failed
	Rejoins       uint64 // how often it was taken for gone and registered anew
	QueueBytes    int
	SinceContact  time.Duration  // since the log last answered
	Inserting     time.Duration  // how long the insert under way has been tried; 0: none is
	SnapshotIndex commands.Index // of the last confirmed snapshot
	Lag           commands.Index // rows the log had at the last look and this node had not applied

	// As of the last look, which is at most some seconds old on a node that
	// others share the log with, and otherwise as old as the last Archive or
	// Truncate.
	Archived   commands.Index // the last row that is in the archive
	ArchiveLag commands.Index // rows after it: what a bucket alone would lack
	FirstKept  commands.Index // the first row that is still in the log
	LogRows    commands.Index // rows from there to the log's end
}

// Stats reads the counters.
func (r *Replica) Stats() Stats {
	applied := r.Applied()
	head := max(r.seen(), applied)
	r.mu.Lock()
	archive := r.archive
	r.mu.Unlock()
	return Stats{
		Applied: applied, Rows: r.stats.rows.Load(), Groups: r.stats.groups.Load(), Retries: r.stats.retries.Load(),
		LogErrors: r.stats.logErrors.Load(), Rejoins: r.stats.rejoins.Load(), QueueBytes: r.queue.size(), SinceContact: r.since(&r.contact), Inserting: r.insertAge(),
		SnapshotIndex: commands.Index(r.snapshot.taken.Load()), Lag: head - applied,
		Archived: archive.Head.Index, ArchiveLag: head - min(head, archive.Head.Index),
		FirstKept: archive.Truncated.Index + 1, LogRows: head - min(head, archive.Truncated.Index),
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
