package replica

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
)

// Log is the ordered command log. What its errors mean is said at
// [commands.ErrUnknown].
type Log interface {
	// Append inserts one row after the head, in one statement.
	Append(ctx context.Context, in commands.Insert) (commands.Inserted, error)
	// Read returns rows after an index, dense and in order, at least one when
	// one exists. Rows that were truncated are [commands.ErrTruncated].
	Read(ctx context.Context, after commands.Index, maxRows, maxBytes int) ([]commands.Row, error)
	// Head is the last row.
	Head(ctx context.Context) (commands.Position, error)
	// FindOrigin looks a proposal up that was made when a row was applied; the
	// digest is that of its row's payload. Not found is certain: when the row may
	// have been truncated the error is [commands.ErrTruncated].
	FindOrigin(ctx context.Context, origin commands.Origin, applied commands.Index) (at commands.Inserted, digest uint64, found bool, err error)
	// Wakeups signals that there may be new rows of others.
	Wakeups() <-chan struct{}
	// Exclusive tells whether only this process can write.
	Exclusive() bool

	AddSnapshot(ctx context.Context, s commands.Snapshot) error
	ConfirmSnapshot(ctx context.Context, index commands.Index) error
	Snapshots(ctx context.Context) ([]commands.Snapshot, error)
	DeleteSnapshot(ctx context.Context, index commands.Index) error

	// Archive is what of the log is in the bucket, and what is only there.
	Archive(ctx context.Context) (commands.Archive, error)
	// AnnounceArchive decides once where the object after after ends.
	AnnounceArchive(ctx context.Context, after, last commands.Index) (commands.Archive, error)
	// AdvanceArchive records that the announced object is in the bucket.
	AdvanceArchive(ctx context.Context, to commands.Position, key string, digest commands.ArchiveDigest) (commands.Archive, error)
	// Truncate drops at most limit archived rows at or before upTo.
	Truncate(ctx context.Context, upTo commands.Index, limit int) (commands.Archive, error)
}

// Combiner inserts for several nodes; package combine has them.
type Combiner interface {
	// Insert brings an insert into the log, with those of others in one row where
	// it can, and returns that row. Its errors are those of [Log.Append], of a log
	// that another node sees; [commands.ErrNotSent] says that nobody inserts for
	// others just now.
	Insert(ctx context.Context, in commands.Insert) (commands.Row, error)
}

// Config is what a replica is made of. Zero fields take the defaults named.
type Config struct {
	Log    Log
	Bucket *blob.Bucket // of snapshots, marks and the archive
	// Combiner is asked first to insert. Nil: the replica inserts by itself.
	Combiner Combiner
	Logger   *slog.Logger // default: slog.Default
	// Now is the proposer's clock. Default: time.Now.
	Now func() time.Time
	// Published is called on the loop after each entry, before the callbacks of
	// its proposals. It must not block. May be nil.
	Published func(*statemachine.Outcome)
	// Rejoined is called on the loop after this node, which had been taken for gone,
	// registered anew. From then on the old epoch's segments are refused. It must not
	// block. May be nil.
	Rejoined func(Start)
	// GroupBytes bounds the payload of one row, in estimated bytes; a single
	// proposal may exceed it. Default 1 MiB.
	GroupBytes int
	// QueueBytes bounds the proposals that wait. Default 64 MiB.
	QueueBytes int
	// QueueTimeout is how long a proposal waits to be sent. Default 10 s.
	QueueTimeout time.Duration
	// CallTimeout bounds one call to the log. Default 5 s.
	CallTimeout time.Duration
	// Poll is how often the log is read without being woken; an exclusive log
	// needs none. Default 500 ms.
	Poll time.Duration
	// SnapshotBytes and SnapshotAge say when a snapshot is due: after so many
	// bytes of applied rows, or when rows were applied and the last one is so
	// old. Defaults 64 MiB, 1 h.
	SnapshotBytes int64
	SnapshotAge   time.Duration
	// KeepRows is how many of the newest rows Truncate leaves in the log, for
	// nodes that lag: those that lag further read the archive. Default 10,000.
	KeepRows int
}

// keepSnapshots is how many confirmed snapshots stay: the newest, and one to
// fall back to when it cannot be read.
const keepSnapshots = 2

func (c *Config) validate() error {
	if c.Log == nil || c.Bucket == nil {
		return errors.New("replica: Log and Bucket are required")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Published == nil {
		c.Published = func(*statemachine.Outcome) {}
	}
	if c.Rejoined == nil {
		c.Rejoined = func(Start) {}
	}
	orDefault(&c.GroupBytes, 1<<20)
	orDefault(&c.QueueBytes, 64<<20)
	orDefault(&c.QueueTimeout, 10*time.Second)
	orDefault(&c.CallTimeout, 5*time.Second)
	orDefault(&c.Poll, 500*time.Millisecond)
	orDefault(&c.SnapshotBytes, 64<<20)
	orDefault(&c.SnapshotAge, time.Hour)
	orDefault(&c.KeepRows, 10_000)
	return nil
}

func orDefault[T int | int64 | time.Duration](v *T, value T) {
	if *v <= 0 {
		*v = value
	}
}
