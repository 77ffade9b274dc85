package fsck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/cenkalti/backoff/v5"
	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica/archive"
	"github.com/picomq/picomq/statemachine"
)

// Bounds of one read from the log.
const (
	readRows  = 1024
	readBytes = 8 << 20
)

// theLog is how the log is named in findings.
const theLog = "log"

// replay is a state that is moved along the log.
type replay struct {
	*checker
	state    *statemachine.State
	at       commands.Position
	recorded map[commands.Index]commands.Snapshot // to compare digests with
	quiet    bool                                 // findings were told before
}

// buildTries is how often the state is built anew because its snapshot, or the
// rows after it, went meanwhile. There is a newer snapshot then.
const buildTries = 3

// build verifies the snapshots and builds the state at the log's head.
func (c *checker) build(ctx context.Context) error {
	for try := 1; ; try++ {
		err := c.refresh(ctx)
		var oldest *commands.Snapshot
		if err == nil {
			oldest, err = c.checkSnapshots(ctx)
		}
		if err == nil {
			err = c.rebuild(ctx, oldest, false)
		}
		if !movedOn(err) || try == buildTries {
			return err
		}
	}
}

// errDropped is a snapshot that could be read a moment ago.
var errDropped = errors.New("a snapshot is gone since it was verified")

// movedOn tells whether what a state was built from has been replaced meanwhile.
func movedOn(err error) bool {
	return errors.Is(err, commands.ErrTruncated) || errors.Is(err, errDropped)
}

// refresh reads what the log says beside its rows.
func (c *checker) refresh(ctx context.Context) (err error) {
	if c.archive, err = c.Log.Archive(ctx); err != nil {
		return err
	}
	if c.snapshots, err = c.Log.Snapshots(ctx); err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	return nil
}

// checkSnapshots reads every snapshot and returns the oldest from which the log
// can be followed, or nil. One state is in memory at a time.
func (c *checker) checkSnapshots(ctx context.Context) (oldest *commands.Snapshot, err error) {
	c.claims = nil
	for i := range c.snapshots {
		s := &c.snapshots[i]
		c.progress("snapshots", uint64(i), uint64(len(c.snapshots)))
		good, known := c.verified[s.Key]
		if !known {
			if good, err = c.checkSnapshot(ctx, s); err != nil {
				return nil, err
			}
			c.verified[s.Key] = good
		}
		c.claims = append(c.claims, claim{s.Key, snapshotPosition(s)})
		if good && s.Confirmed && s.Index >= c.archive.Truncated.Index {
			oldest = s
		}
	}
	return oldest, nil
}

// checkSnapshot tells whether a snapshot is what the log says.
func (c *checker) checkSnapshot(ctx context.Context, s *commands.Snapshot) (good bool, err error) {
	const do = "servers fall back to another, and it is replaced in time"
	c.report.Snapshots++
	_, err = c.load(ctx, s)
	switch {
	case err == nil && s.Index < c.archive.Truncated.Index:
		c.warn(Gap, s.Key, reportIt, "the log begins with row %d, so that this snapshot of row %d cannot be followed", c.archive.Truncated.Index+1, s.Index)
		return false, nil
	case err == nil:
		return true, nil
	case errors.Is(err, errUnread):
		return false, err
	case gcerrors.Code(err) != gcerrors.NotFound:
		c.fail(Checksum, s.Key, do, "this snapshot of row %d cannot be used: %v", s.Index, err)
		return false, nil
	}
	now, err := c.Log.Snapshots(ctx)
	if err != nil {
		return false, fmt.Errorf("list snapshots: %w", err)
	}
	if slices.ContainsFunc(now, func(n commands.Snapshot) bool { return n.Key == s.Key }) { // else it was dropped since
		c.fail(Missing, s.Key, do, "the log names this snapshot of row %d", s.Index)
	}
	return false, nil
}

// snapshotPosition is the row that a snapshot's key names; zero if it names none.
func snapshotPosition(s *commands.Snapshot) commands.Position {
	var index, row uint64
	if _, err := fmt.Sscanf(path.Base(s.Key), "%016x-%016x", &index, &row); err != nil {
		return commands.Position{}
	}
	return commands.Position{Index: commands.Index(index), Row: commands.RowID(row)}
}

// load reads a snapshot. Restore verifies the digest over what it read.
func (c *checker) load(ctx context.Context, s *commands.Snapshot) (*statemachine.State, error) {
	if snapshotPosition(s).Index != s.Index {
		return nil, fmt.Errorf("its key does not name row %d", s.Index)
	}
	state, err := retry(ctx, func() (*statemachine.State, error) {
		object, err := c.Bucket.NewReader(ctx, s.Key, nil)
		if gcerrors.Code(err) == gcerrors.NotFound {
			return nil, err
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errUnread, err)
		}
		defer func() { _ = object.Close() }()
		state, err := statemachine.Restore(&source{object})
		if err != nil && !errors.Is(err, errUnread) {
			err = backoff.Permanent(err) // it would fail so again
		}
		return state, err
	})
	if err != nil {
		return nil, err
	}
	if state.Index() != s.Index || state.Digest() != s.Digest {
		return nil, fmt.Errorf("it holds row %d with digest %016x, and the log names row %d with digest %016x",
			state.Index(), uint64(state.Digest()), s.Index, uint64(s.Digest))
	}
	return state, nil
}

// errUnread is a bucket that did not hand out what it has: it says nothing about
// the object.
var errUnread = errors.New("the bucket could not be read")

// source marks the errors of the bucket among those of what it handed out.
type source struct{ r io.Reader }

// Read reads on.
func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: %w", errUnread, err)
	}
	return n, err
}

// rebuild builds the state at the log's head from a snapshot, or without one
// from the first row.
func (c *checker) rebuild(ctx context.Context, from *commands.Snapshot, quiet bool) error {
	r := &replay{checker: c, state: statemachine.New(), recorded: map[commands.Index]commands.Snapshot{}, quiet: quiet}
	for _, s := range c.snapshots {
		r.recorded[s.Index] = s
	}
	switch {
	case from != nil && (!c.Deep || quiet):
		var err error
		r.state, err = c.load(ctx, from)
		if gcerrors.Code(err) == gcerrors.NotFound {
			delete(c.verified, from.Key)
			err = fmt.Errorf("%w: %w", errDropped, err)
		}
		if err != nil {
			return fmt.Errorf("read snapshot %s again: %w", from.Key, err)
		}
		r.at = snapshotPosition(from)
	case c.archive.Truncated.Index > 0:
		if err := r.fromArchive(ctx); err != nil {
			return err
		}
	}
	if err := r.fromLog(ctx); err != nil {
		return err
	}
	c.view, c.index = r.state.View(), r.at.Index
	c.nodes = map[commands.NodeID]statemachine.Node{}
	for _, n := range c.view.Nodes() {
		c.nodes[n.Node] = n
	}
	c.report.Index = r.at.Index
	return nil
}

// fromArchive applies the rows that left the log.
func (r *replay) fromArchive(ctx context.Context) error {
	until := r.archive.Truncated
	_, err := archive.Walk(ctx, r.Bucket, path.Dir(r.archive.Key)+"/", archive.Link{}, until.Index, func(row commands.Row) error {
		return r.apply(row, until.Index)
	})
	switch {
	case ctx.Err() != nil || errors.Is(err, ErrIncomplete) || (err != nil && !isBroken(err)):
		return err
	case err != nil:
		r.fail(Damaged, path.Dir(r.archive.Key), "restore the objects that are missing or damaged from a copy",
			"the archive cannot be replayed: %v", err)
		return fmt.Errorf("%w: the state before row %d cannot be built", ErrIncomplete, until.Index+1)
	case r.at != until:
		r.fail(LostRows, path.Dir(r.archive.Key), "find out which history wrote it",
			"the archive has row %v where the log was truncated after %v", r.at, until)
		return fmt.Errorf("%w: archive and log are not of one history", ErrIncomplete)
	}
	return nil
}

// fromLog applies the rows that follow, up to the head as it is now.
func (r *replay) fromLog(ctx context.Context) error {
	head, err := r.Log.Head(ctx)
	if err != nil {
		return err
	}
	for r.at.Index < head.Index {
		r.progress("log", uint64(r.at.Index), uint64(head.Index))
		rows, err := retry(ctx, func() ([]commands.Row, error) { return r.Log.Read(ctx, r.at.Index, readRows, readBytes) })
		switch {
		case errors.Is(err, commands.ErrDamaged):
			r.fail(Damaged, theLog, "restore the database", "%v", err)
			return fmt.Errorf("%w: rows after %d cannot be read", ErrIncomplete, r.at.Index)
		case err != nil:
			return err
		case len(rows) == 0:
			r.fail(Damaged, theLog, "restore the database", "it names row %v as its last, and ends with row %v", head, r.at)
			return fmt.Errorf("%w: rows after %d are not there", ErrIncomplete, r.at.Index)
		}
		for _, row := range rows {
			if err := r.apply(row, head.Index); err != nil {
				return err
			}
		}
	}
	if r.at.Index == head.Index && r.at != head {
		r.fail(Damaged, theLog, "restore the database", "it names row %v as its last, and has %v there", head, r.at)
		return fmt.Errorf("%w: rows before %d were replaced", ErrIncomplete, head.Index)
	}
	return nil
}

// apply applies the next row, unless it lies beyond an index, and compares
// digests.
func (r *replay) apply(row commands.Row, until commands.Index) error {
	if row.Index > until {
		return nil
	}
	if row.Index != r.at.Index+1 || row.Previous != r.at.Row {
		r.fail(LostRows, theLog, "the log was restored to an older state or replaced; see Backup",
			"row %v follows %016x, and the state was built up to %v", row.Position(), uint64(row.Previous), r.at)
		return fmt.Errorf("%w: the log does not follow its snapshots", ErrIncomplete)
	}
	payload, err := commands.DecodePayload(row.Payload)
	if err != nil {
		r.fail(Damaged, theLog, "check with the newest release in use", "row %d cannot be read: %v", row.Index, err)
		return fmt.Errorf("%w: row %d cannot be applied", ErrIncomplete, row.Index)
	}
	entry := commands.Entry{Index: row.Index, DatabaseTime: row.DatabaseTime, Payload: payload}
	outcome := r.state.Apply(&entry)
	r.at = row.Position()
	r.report.Rows++
	if !r.quiet {
		r.compare(&entry, outcome)
	}
	return nil
}

// compare compares the state with the digests that were recorded of it.
func (r *replay) compare(entry *commands.Entry, outcome *statemachine.Outcome) {
	const do = "keep the log and the snapshots, and report it"
	if s, ok := r.recorded[entry.Index]; ok && s.Digest != r.state.Digest() {
		r.fail(Diverged, s.Key, do, "replaying the log up to row %d gives digest %016x, the snapshot has %016x",
			s.Index, uint64(r.state.Digest()), uint64(s.Digest))
	}
	for i := range entry.Proposals {
		for j, cmd := range entry.Proposals[i].Commands {
			report, ok := cmd.(*commands.Checkpoint)
			if ok && j < len(outcome.Proposals[i].Results) && outcome.Proposals[i].Results[j].Verdict == statemachine.Diverged {
				r.fail(Diverged, theLog, do, "node %d reported digest %016x at row %d, which is not what replaying gives",
					entry.Proposals[i].Origin.Node, uint64(report.Digest), report.At)
			}
		}
	}
}
