package soak

import (
	"context"
	"time"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/upkeep"
)

// backing is a log, in a database or in memory.
type backing interface {
	replica.Log
	upkeep.Leases
	RowCount(ctx context.Context) (int64, error)
	Close() error
}

// leaseShare is by what leases are shorter than their holder believes, so that
// there often are two holders at a time, which must do no harm.
const leaseShare = 10

// journal is a log as one life of a node sees it: every call may fail. The calls
// that are not here cannot.
type journal struct {
	backing
	*faults
}

type nothing struct{}

func (j *journal) Append(ctx context.Context, in commands.Insert) (commands.Inserted, error) {
	return call(ctx, j.faults, "append", func() (commands.Inserted, error) { return j.backing.Append(ctx, in) })
}

func (j *journal) Read(ctx context.Context, after commands.Index, maxRows, maxBytes int) ([]commands.Row, error) {
	return call(ctx, j.faults, "read", func() ([]commands.Row, error) { return j.backing.Read(ctx, after, maxRows, maxBytes) })
}

func (j *journal) Head(ctx context.Context) (commands.Position, error) {
	return call(ctx, j.faults, "head", func() (commands.Position, error) { return j.backing.Head(ctx) })
}

func (j *journal) FindOrigin(ctx context.Context, o commands.Origin, applied commands.Index) (at commands.Inserted, digest uint64, found bool, err error) {
	_, err = call(ctx, j.faults, "find origin", func() (n nothing, err error) {
		at, digest, found, err = j.backing.FindOrigin(ctx, o, applied)
		return n, err
	})
	return at, digest, found, err
}

func (j *journal) AddSnapshot(ctx context.Context, s commands.Snapshot) error {
	return j.change(ctx, "add snapshot", func() error { return j.backing.AddSnapshot(ctx, s) })
}

func (j *journal) ConfirmSnapshot(ctx context.Context, at commands.Index) error {
	return j.change(ctx, "confirm snapshot", func() error { return j.backing.ConfirmSnapshot(ctx, at) })
}

func (j *journal) Snapshots(ctx context.Context) ([]commands.Snapshot, error) {
	return call(ctx, j.faults, "snapshots", func() ([]commands.Snapshot, error) { return j.backing.Snapshots(ctx) })
}

func (j *journal) DeleteSnapshot(ctx context.Context, at commands.Index) error {
	return j.change(ctx, "delete snapshot", func() error { return j.backing.DeleteSnapshot(ctx, at) })
}

func (j *journal) Archive(ctx context.Context) (commands.Archive, error) {
	return call(ctx, j.faults, "archive", func() (commands.Archive, error) { return j.backing.Archive(ctx) })
}

func (j *journal) AnnounceArchive(ctx context.Context, after, last commands.Index) (commands.Archive, error) {
	return call(ctx, j.faults, "announce archive", func() (commands.Archive, error) { return j.backing.AnnounceArchive(ctx, after, last) })
}

func (j *journal) AdvanceArchive(ctx context.Context, to commands.Position, key string, digest commands.ArchiveDigest) (commands.Archive, error) {
	return call(ctx, j.faults, "advance archive", func() (commands.Archive, error) { return j.backing.AdvanceArchive(ctx, to, key, digest) })
}

func (j *journal) Truncate(ctx context.Context, upTo commands.Index, limit int) (commands.Archive, error) {
	return call(ctx, j.faults, "truncate", func() (commands.Archive, error) { return j.backing.Truncate(ctx, upTo, limit) })
}

func (j *journal) AcquireLease(ctx context.Context, name string, holder commands.Holder, ttl time.Duration) (bool, error) {
	return call(ctx, j.faults, "acquire lease", func() (bool, error) {
		return j.backing.AcquireLease(ctx, name, holder, ttl/leaseShare)
	})
}

func (j *journal) ReleaseLease(ctx context.Context, name string, holder commands.Holder) error {
	return j.change(ctx, "release lease", func() error { return j.backing.ReleaseLease(ctx, name, holder) })
}

func (j *journal) change(ctx context.Context, name string, do func() error) error {
	_, err := call(ctx, j.faults, name, func() (nothing, error) { return nothing{}, do() })
	return err
}
