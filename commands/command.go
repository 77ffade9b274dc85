package commands

import (
	"fmt"

	"github.com/picomq/picomq/stream"
)

// Kind is the stable wire number of a command.
type Kind uint8

// The kinds. Numbers are for ever.
const (
	KindRegisterNode  Kind = 1
	KindCommitSegment Kind = 2
	KindCreate        Kind = 3
	KindClose         Kind = 4
	KindTrim          Kind = 5
	KindDelete        Kind = 6
	KindTouch         Kind = 7
	KindExpire        Kind = 8
	KindTick          Kind = 9
	KindCheckpoint    Kind = 10
	KindActivate      Kind = 11
	KindDoom          Kind = 12
	KindCollected     Kind = 13
	KindPack          Kind = 14
	KindSwap          Kind = 15
	KindDepart        Kind = 16
)

var kindNames = map[Kind]string{
	KindRegisterNode: "register", KindCommitSegment: "commit", KindCreate: "create", KindClose: "close",
	KindTrim: "trim", KindDelete: "delete", KindTouch: "touch", KindExpire: "expire", KindTick: "tick",
	KindCheckpoint: "checkpoint", KindActivate: "activate",
	KindDoom: "doom", KindCollected: "collected", KindPack: "pack", KindSwap: "swap", KindDepart: "depart",
}

// String is the kind's name in columns, logs and metrics.
func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind_%d", uint8(k))
}

// Command is one requested change. The set is closed: only this package's
// types implement it.
type Command interface {
	// Kind is the command's wire number.
	Kind() Kind
	// code names the fields once, in ascending order, for both directions.
	code(c *coder)
}

// RegisterNode announces one process start of a node. The index of its entry
// becomes the node's epoch and fences every earlier one.
type RegisterNode struct {
	Cluster     ClusterID // the first registration sets it, later ones must match
	Node        NodeID    // 0: the lowest number not in use
	Incarnation Incarnation
	Address     string // where other nodes reach it; may be empty
	Level       uint32 // highest feature level it understands
	Release     string // for people
	// Previous is the incarnation that had Node when this process was last told its
	// number. With it Node is a wish: where a live node of another incarnation has
	// the number, the lowest free one is given. Zero: Node is taken from whoever has it.
	Previous Incarnation
}

// Create asks for a new stream. It stands alone, or inside a CommitSegment for
// the append that is the new stream's first content.
type Create struct {
	Name   stream.Name
	Config stream.Config
	Closed bool
	Fork   *Fork // the stream begins as another's history; nil: empty
}

// Fork is the part of a create that names the parent. An empty content type in
// the create is then the parent's, and an expiry of stream.ExpiresNever the
// parent's.
type Fork struct {
	Parent stream.ID
	At     *stream.Offset // the fork offset; nil: the parent's tail
	// Sub is how much the fork has of its parent beyond At, as it was asked for:
	// messages of a JSON stream, otherwise bytes of the record there. Above zero it
	// needs At.
	Sub uint64
	// Cut is Sub where the fork ends inside the record at At, and zero where it has
	// the record whole. The proposer has read the record; Apply cannot.
	Cut uint32
}

// Close closes a stream without appending.
type Close struct {
	ID        stream.ID
	Producer  *stream.Producer
	Match     *stream.Offset
	StreamSeq *string
}

// Trim drops the records below To, which is clamped to the tail.
type Trim struct {
	ID stream.ID
	To stream.Offset
	// Upkeep says that retention trims, not a client: the idle deadline goes on.
	Upkeep bool
}

// Delete removes a stream; its name is free at once.
type Delete struct {
	ID stream.ID
}

// Touch restarts the idle deadlines of streams that were read. At most
// MaxIDs.
type Touch struct {
	IDs []stream.ID
}

// Expire removes those of the streams that are past their deadline at this
// entry's log time. At most MaxIDs.
type Expire struct {
	IDs []stream.ID
}

// MaxIDs bounds the streams that one Touch or Expire names.
const MaxIDs = 4096

// Tick moves time and nothing else.
type Tick struct{}

// Checkpoint reports the digest of the proposer's state after the entry At.
type Checkpoint struct {
	At     Index
	Digest Digest
}

// Activate switches on a feature level, once every live node understands it.
type Activate struct {
	Level   uint32
	Release string // the first release that understands it, named to nodes that do not
}

// Doom makes those of the segments that no extent refers to unreferencable, so
// that their objects may be deleted. At most MaxSlots.
type Doom struct {
	Slots []uint32
}

// Collected removes those of the segments that are doomed: their objects are
// gone, their slots free. At most MaxSlots.
type Collected struct {
	Slots []uint32
}

// MaxSlots bounds the segments that one Doom or Collected names.
const MaxSlots = 4096

// Pack makes a packed segment known: an object that compaction wrote, to which
// nothing refers yet. Like a commit it uses up a sequence of its origin's epoch.
type Pack struct {
	Sequence uint64
	Size     uint64 // bytes of the object
	Level    uint8  // at least 1: how often its records were rewritten, at most
	Oldest   stream.Time
	Newest   stream.Time // of its records
	First    stream.ID   // the lowest and the highest stream that its records are for
	Last     stream.ID
	// GivenUp is as in CommitSegment.
	GivenUp []uint64
}

// Depart says that a node is gone: from here on its epoch is fenced, its number
// free. A node that ends proposes it for itself, the lease holder for one that
// stayed away. It is refused unless Epoch is the node's own and not gone yet.
type Depart struct {
	Node  NodeID
	Epoch Epoch
}

// Kind implements Command.
func (*Depart) Kind() Kind { return KindDepart }

// Kind implements Command.
func (*Doom) Kind() Kind { return KindDoom }

// Kind implements Command.
func (*Collected) Kind() Kind { return KindCollected }

// Kind implements Command.
func (*Pack) Kind() Kind { return KindPack }

// Kind implements Command.
func (*RegisterNode) Kind() Kind { return KindRegisterNode }

// Kind implements Command.
func (*CommitSegment) Kind() Kind { return KindCommitSegment }

// Kind implements Command.
func (*Create) Kind() Kind { return KindCreate }

// Kind implements Command.
func (*Close) Kind() Kind { return KindClose }

// Kind implements Command.
func (*Trim) Kind() Kind { return KindTrim }

// Kind implements Command.
func (*Delete) Kind() Kind { return KindDelete }

// Kind implements Command.
func (*Touch) Kind() Kind { return KindTouch }

// Kind implements Command.
func (*Expire) Kind() Kind { return KindExpire }

// Kind implements Command.
func (*Tick) Kind() Kind { return KindTick }

// Kind implements Command.
func (*Checkpoint) Kind() Kind { return KindCheckpoint }

// Kind implements Command.
func (*Activate) Kind() Kind { return KindActivate }

// newCommand is an empty command of a kind and version, or nil when this
// binary does not know it.
func newCommand(kind Kind, version uint64) Command {
	if version != 1 {
		return nil
	}
	switch kind {
	case KindRegisterNode:
		return new(RegisterNode)
	case KindCommitSegment:
		return new(CommitSegment)
	case KindCreate:
		return new(Create)
	case KindClose:
		return new(Close)
	case KindTrim:
		return new(Trim)
	case KindDelete:
		return new(Delete)
	case KindTouch:
		return new(Touch)
	case KindExpire:
		return new(Expire)
	case KindTick:
		return new(Tick)
	case KindCheckpoint:
		return new(Checkpoint)
	case KindActivate:
		return new(Activate)
	case KindDoom:
		return new(Doom)
	case KindCollected:
		return new(Collected)
	case KindPack:
		return new(Pack)
	case KindSwap:
		return new(Swap)
	case KindDepart:
		return new(Depart)
	default:
		return newNext(kind)
	}
}
