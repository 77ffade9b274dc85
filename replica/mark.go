package replica

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/commands"
)

// A mark is a small object in the bucket that says how far a node had applied
// the log: the memory of a lost tail that outlives the process which noticed it,
// and notices one that happened while no process ran. Each node overwrites its
// own: when [Replica.KeepMarks] is called, every markEvery while the log grows,
// and when it ends. What is lost of the log after the last mark of all nodes is not noticed
// by a start; a running node notices it by itself.
const markEvery = 5 * time.Second

// markFormat is a mark's whole content: index and row id.
const markFormat = "picomq applied 1 %d %016x\n"

// maxMark bounds what is read of a mark, in bytes.
const maxMark = 128

func markPrefix(cluster commands.ClusterID) string { return fmt.Sprintf("%s/0000/applied/", cluster) }

// CompareMarks looks whether the log has what all nodes say that they applied, but
// for rows that were truncated. If not, the error is [commands.ErrLostTail]: another
// database goes on beside the same bucket, the one that replaced this node's or one
// that was replaced and lives. Its streams may need what none need here, so nothing
// may be deleted.
func (r *Replica) CompareMarks(ctx context.Context) error {
	archive, err := r.archived(ctx, r.log.Archive)
	if err != nil {
		return err
	}
	return r.eachMark(ctx, r.self.Cluster, func(ctx context.Context, at commands.Position) error {
		if at.Index <= archive.Truncated.Index {
			return nil
		}
		return r.checkPosition(ctx, at)
	})
}

// checkMarks compares every node's mark with the log. It runs before anything is
// written, so that a start that is refused leaves no trace.
func (r *Replica) checkMarks(ctx context.Context, cluster commands.ClusterID) error {
	return r.eachMark(ctx, cluster, r.checkPosition)
}

// eachMark reads all marks in the bucket and checks their positions.
func (r *Replica) eachMark(ctx context.Context, cluster commands.ClusterID, check func(context.Context, commands.Position) error) error {
	list := r.cfg.Bucket.List(&blob.ListOptions{Prefix: markPrefix(cluster)})
	for {
		object, err := r.nextMark(ctx, list)
		if err == io.EOF { //nolint:errorlint // the iterator's documented end
			return nil
		}
		if err != nil {
			return fmt.Errorf("list the marks of applied rows: %w", err)
		}
		at, err := r.readMark(ctx, object.Key)
		if err != nil {
			return err
		}
		if err := check(ctx, at); err != nil {
			return fmt.Errorf("compare the log with the mark %s: %w", object.Key, err)
		}
	}
}

// nextMark and readMark end within the time of a call, also where a bucket never
// answers.
func (r *Replica) nextMark(ctx context.Context, list *blob.ListIterator) (*blob.ListObject, error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	return list.Next(ctx)
}

func (r *Replica) readMark(ctx context.Context, key string) (at commands.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.cfg.CallTimeout)
	defer cancel()
	reader, err := r.cfg.Bucket.NewReader(ctx, key, nil)
	if err != nil {
		return at, fmt.Errorf("read %s: %w", key, err)
	}
	defer func() { _ = reader.Close() }()
	text, err := io.ReadAll(io.LimitReader(reader, maxMark))
	if err != nil {
		return at, fmt.Errorf("read %s: %w", key, err)
	}
	var row uint64
	if _, err := fmt.Sscanf(string(text), markFormat, &at.Index, &row); err != nil || at.Index == 0 {
		return at, fmt.Errorf("object %s does not hold a mark of applied rows: %q", key, text)
	}
	at.Row = commands.RowID(row)
	return at, nil
}

// Mark writes how far this node has applied the log, whether that changed or
// not. It succeeds only if the bucket takes objects.
func (r *Replica) Mark(ctx context.Context) error { return r.mark(ctx, r.position()) }

// mark writes this node's mark for a position.
func (r *Replica) mark(ctx context.Context, at commands.Position) error {
	node, _ := r.Node()
	key := fmt.Sprintf("%s%08x", markPrefix(r.self.Cluster), node)
	text := fmt.Sprintf(markFormat, at.Index, uint64(at.Row))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.CallTimeout)
	defer cancel()
	err := r.cfg.Bucket.Upload(ctx, key, strings.NewReader(text), &blob.WriterOptions{ContentType: "text/plain"})
	if err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

// KeepMarks writes this node's mark now, and from now on by itself. Call it once
// after Register, when it is certain that this process goes on with the
// bucket's history: a mark of another history would refuse the right one.
func (r *Replica) KeepMarks(ctx context.Context) error {
	if err := r.Mark(ctx); err != nil {
		return err
	}
	r.marked = r.position()
	r.loop.Go(func() { r.marker(r.background) })
	return nil
}

// marker writes marks until its context ends. The loop hands it positions; it
// never waits for the bucket.
func (r *Replica) marker(ctx context.Context) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	var failed <-chan struct{} = r.failed
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-failed:
			// A node that ends because the log lost its tail marks what it had
			// applied: the next start must not take the shorter log for whole.
			failed = nil // once, and without waiting for the next tick
		}
		r.markNew(ctx)
	}
}

// lastMark writes the mark of a replica whose goroutines have ended.
func (r *Replica) lastMark() {
	if r.marked.Index > 0 {
		r.markNew(context.Background())
	}
}

// markNew writes a mark if there is something to say.
func (r *Replica) markNew(ctx context.Context) {
	at := r.position()
	if at == r.marked {
		return
	}
	if err := r.mark(ctx, at); err != nil {
		r.cfg.Logger.Warn("how far the log is applied was not marked; the next mark tries again", "error", err)
		return
	}
	r.marked = at
}

// position is the last applied row, for other goroutines than the loop.
func (r *Replica) position() commands.Position {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.published
}
