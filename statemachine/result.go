package statemachine

import (
	"fmt"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// Outcome is what one entry did.
type Outcome struct {
	Index commands.Index
	Time  stream.Time // the entry's log time: what records it commits carry
	// OutOfOrder says that the entry is not the one after the last applied:
	// nothing was applied and the other fields are empty. It is a fault of the
	// caller, who checks the log's order before it applies.
	OutOfOrder bool
	Proposals  []ProposalOutcome // parallel to the entry's proposals
	// Changed are the streams whose tail, closed flag or existence changed, in
	// the order of the changes; a stream may occur more than once.
	Changed []stream.ID
}

// ProposalStatus says whether a proposal's commands were looked at.
type ProposalStatus uint8

// The statuses of a proposal.
const (
	Applied        ProposalStatus = iota // Results has one Result per command
	AlreadyApplied                       // its sequence is not above the last applied of its epoch: it had its effect before
	Fenced                               // its node registered again since, or is gone: nothing was applied
	Unregistered                         // its origin never registered, or is no origin for its commands: nothing was applied
)

var statusNames = [...]string{"applied", "already_applied", "fenced", "unregistered"}

// String is the status's name in metrics and logs.
func (s ProposalStatus) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status_%d", uint8(s))
}

// ProposalOutcome is what one proposal did.
type ProposalOutcome struct {
	Status  ProposalStatus
	Results []Result // parallel to the commands when Applied, else nil
}

// Verdict is the decision about one command or one append.
type Verdict uint8

// The verdicts. After each: the fields of [AppendResult] that are set beside
// ID, Start, Tail and Closed, which are set whenever the stream exists.
const (
	Refused        Verdict = iota // not a verdict of this release: the zero value accepts nothing
	Accepted                      // First, FirstKnown, and for a producer ProducerEpoch and ProducerSeq
	Duplicate                     // acknowledged before: ProducerEpoch, ProducerSeq (highest), First if FirstKnown
	Exists                        // the stream to create is there with the same configuration; nothing was appended
	NotFound                      // no such stream, or past its deadline; for Checkpoint: index not remembered; for Depart: no node has the epoch
	Deleted                       // the stream was deleted and keeps its name for its forks
	Conflict                      // the name is bound to a stream of another configuration; a fork's type is not its parent's
	Closed                        // the stream is closed
	FencedProducer                // producer epoch is stale: ProducerEpoch is the current one
	EpochStart                    // a new producer epoch must begin at sequence 0: ProducerEpoch is the current one
	SequenceGap                   // producer sequence skipped: ExpectedSeq
	MatchFailed                   // the tail is not where the request requires it
	StreamSeq                     // Stream-Seq is not greater than the last accepted
	Full                          // the tail would pass stream.MaxOffset, or all numbers are given out
	Invalid                       // a value outside its documented range, or a command out of place
	ParentGone                    // fork: no such parent, or past its deadline
	ParentDeleted                 // fork: the parent was deleted; ID, Start and Tail are its own, as below
	Trimmed                       // fork: the fork offset lies below the parent's start
	BeyondTail                    // fork: it would end beyond the parent's tail
	NotDue                        // Expire, Doom, Collected, Swap: nothing of what is named is as it must be
	WrongCluster                  // registration: the log belongs to another cluster
	LevelTooLow                   // registration: the node does not understand the level in force
	NodeTaken                     // registration: the number was given to another incarnation in this entry
	GivenUp                       // commit or pack: its sequence was given up before
	Used                          // commit or pack: its sequence was committed before
	Diverged                      // checkpoint: the digests differ
	LevelRefused                  // activation: the level does not grow, or a node does not understand it
)

var verdictNames = [...]string{
	Refused: "refused", Accepted: "accepted", Duplicate: "duplicate", Exists: "exists", NotFound: "not_found",
	Deleted: "deleted", ParentGone: "parent_gone", ParentDeleted: "parent_deleted", Trimmed: "trimmed", BeyondTail: "beyond_tail",
	Conflict: "conflict", Closed: "closed", FencedProducer: "fenced_producer", EpochStart: "epoch_start",
	SequenceGap: "sequence_gap", MatchFailed: "match_failed", StreamSeq: "stream_seq", Full: "full",
	Invalid: "invalid", NotDue: "not_due", WrongCluster: "wrong_cluster", LevelTooLow: "level_too_low",
	NodeTaken: "node_taken", GivenUp: "given_up", Used: "used", Diverged: "diverged", LevelRefused: "level_refused",
}

// String is the verdict's name in metrics, logs and test scripts.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict_%d", uint8(v))
}

// AppendResult is the answer about one stream: of one append of a
// CommitSegment, or of a command that concerns a single stream.
type AppendResult struct {
	Verdict    Verdict
	FirstKnown bool
	Closed     bool      // the stream is closed now
	ID         stream.ID // zero when there is no stream
	Start      stream.Offset
	Tail       stream.Offset // after the command
	First      stream.Offset // of the first record, valid if FirstKnown
	// ProducerEpoch is the producer's epoch in force, ProducerSeq its highest
	// accepted sequence, ExpectedSeq the one that would have been accepted.
	ProducerEpoch uint64
	ProducerSeq   uint64
	ExpectedSeq   uint64
}

// Result is the answer to one command. The embedded part is set for Create,
// Close, Trim and Delete; for the other kinds only its Verdict is.
type Result struct {
	AppendResult
	Node    commands.NodeID // RegisterNode: the number that the node has
	Epoch   commands.Epoch  // RegisterNode: the epoch that it has
	Segment uint32          // CommitSegment, Pack: the slot given to the segment, when Accepted
	Appends []AppendResult  // CommitSegment: one per append, when Accepted
	Removed uint32          // Expire, Doom, Collected, Swap: how many of the streams, segments or runs it was true of
}
