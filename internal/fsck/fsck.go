package fsck

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/statemachine"
)

// Log is the command log, as far as it is checked. sqllog implements it.
type Log interface {
	// Exclusive tells whether only this process has the log open.
	Exclusive() bool
	// Head is the last row.
	Head(ctx context.Context) (commands.Position, error)
	// Read returns rows after an index, dense and in order, at least one when one
	// exists. Rows that were truncated are [commands.ErrTruncated], those that do
	// not prove true [commands.ErrDamaged].
	Read(ctx context.Context, after commands.Index, maxRows, maxBytes int) ([]commands.Row, error)
	// Snapshots are those that the log names, newest first.
	Snapshots(ctx context.Context) ([]commands.Snapshot, error)
	// Archive is what of the log is in the bucket, and what is only there.
	Archive(ctx context.Context) (commands.Archive, error)
	// AcquireLease takes or renews a lease and reports whether the holder has it.
	AcquireLease(ctx context.Context, name string, holder commands.Holder, ttl time.Duration) (bool, error)
	// ReleaseLease gives it back.
	ReleaseLease(ctx context.Context, name string, holder commands.Holder) error
}

// Config is what is checked, and how.
type Config struct {
	Log    Log
	Bucket *blob.Bucket
	// Found is told each finding, by one goroutine at a time. Required.
	Found func(Finding)
	// Progress is told now and then how far the check is, by one goroutine at a
	// time. May be nil.
	Progress func(Progress)
	// Parallel is how many objects are read at a time, 1 to 256. Default 8.
	Parallel int
	Quick    bool // leave out what takes reading whole objects
	Deep     bool // replay from the first row, not from the oldest snapshot
	Repair   bool // delete orphans
}

// Progress is how far one stage is.
type Progress struct {
	Stage       string
	Done, Total uint64 // Total 0: not known
}

// DefaultParallel is how many objects are read at a time unless stated.
const DefaultParallel = 8

func (c *Config) validate() error {
	switch {
	case c.Log == nil || c.Bucket == nil || c.Found == nil:
		return errors.New("fsck: Log, Bucket and Found are required")
	case c.Parallel == 0:
		c.Parallel = DefaultParallel
	case c.Parallel < 0 || c.Parallel > 256:
		return fmt.Errorf("fsck: %d objects at a time; 1 to 256 can be", c.Parallel)
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	return nil
}

// ErrIncomplete is a check that could not go on because of what it found.
var ErrIncomplete = errors.New("the check could not be completed")

// Run checks. The report is of what was checked also with an error, which says
// that the check did not come to its end: bucket or log could not be read, or
// [ErrIncomplete].
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &checker{Config: cfg, shared: !cfg.Log.Exclusive(), verified: map[string]bool{}}
	c.report.Quick = cfg.Quick
	err := c.run(ctx)
	return &c.report, err
}

// checker is one check under way.
type checker struct {
	Config
	shared  bool // others may write to the log
	cluster commands.ClusterID

	// Set stage by stage, and then only read.
	snapshots []commands.Snapshot // that the log names, newest first
	verified  map[string]bool     // of their keys: whether the object is good
	archive   commands.Archive
	view      statemachine.View
	index     commands.Index // of the state
	nodes     map[commands.NodeID]statemachine.Node
	claims    []claim
	starts    map[start]commands.Incarnation
	known     *catalogue

	mu      sync.Mutex // guards Found, Progress and what follows
	report  Report
	doubt   bool // a finding was one of inDoubt
	notes   map[Kind]*note
	pending []pending
}

// start is one start of a node.
type start struct {
	node  commands.NodeID
	epoch commands.Epoch
}

// note counts what is worth knowing of one class.
type note struct {
	objects, bytes uint64
	example        string
}

// run goes through the stages.
func (c *checker) run(ctx context.Context) error {
	if err := c.build(ctx); err != nil {
		return err
	}
	cluster, served := c.view.Cluster()
	if !served {
		return fmt.Errorf("%w: the log names no cluster: no server was ever started with it", ErrIncomplete)
	}
	c.cluster = cluster
	for _, stage := range []func(context.Context) error{
		c.identity, c.layout, c.marks, c.markers, c.history, c.checkArchive, c.checkStreams, c.listSnapshots, c.listSegments,
		c.checkSegments, c.confirm,
	} {
		if err := stage(ctx); err != nil {
			return err
		}
	}
	c.tellNotes()
	return nil
}

// tell hands out a finding.
func (c *checker) tell(f Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f.Severity {
	case Error:
		c.report.Errors++
	case Warning:
		c.report.Warnings++
	case Info:
	}
	if f.Repaired {
		c.report.Repaired++
	}
	if f.Severity == Error && inDoubt[f.Kind] {
		c.doubt = true
	}
	c.Found(f)
}

func (c *checker) fail(kind Kind, object, do, format string, args ...any) {
	c.tell(Finding{Severity: Error, Kind: kind, Object: object, What: fmt.Sprintf(format, args...), Do: do})
}

func (c *checker) warn(kind Kind, object, do, format string, args ...any) {
	c.tell(Finding{Severity: Warning, Kind: kind, Object: object, What: fmt.Sprintf(format, args...), Do: do})
}

// progress tells how far a stage is.
func (c *checker) progress(stage string, done, total uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Progress(Progress{Stage: stage, Done: done, Total: total})
}

// noteOf counts an object in a class of information.
func (c *checker) noteOf(kind Kind, example string, bytes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.notes == nil {
		c.notes = map[Kind]*note{}
	}
	if c.notes[kind] == nil {
		c.notes[kind] = &note{example: example}
	}
	c.notes[kind].objects++
	c.notes[kind].bytes += bytes
}

// meaning is what the classes of information mean, in the order they are told.
var meaning = []struct {
	kind Kind
	what string
}{
	{Uncommitted, "of an epoch in force and not in the log: on their way, or of a node that died, whose next start fences them"},
	{Waiting, "of segments that nothing refers to: upkeep deletes them"},
	{Unrecorded, "that the log does not name: being written, or left by a node that died; taken up or deleted in time"},
	{Newer, "left out, because the log went on while they were read"},
}

func (c *checker) tellNotes() {
	for _, m := range meaning {
		if n := c.notes[m.kind]; n != nil {
			c.tell(Finding{Severity: Info, Kind: m.kind, Object: n.example, What: fmt.Sprintf(
				"%s (%d bytes) like this one, %s", count(n.objects, "object"), n.bytes, m.what)})
		}
	}
}
