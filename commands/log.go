package commands

import (
	"encoding/hex"
	"fmt"

	"github.com/picomq/picomq/stream"
)

// Index is a position in the log: 1-based and dense. Zero is "before the log".
type Index uint64

// NodeID numbers a node within a cluster, from 1. Zero asks for the lowest
// free number.
type NodeID uint32

// Epoch numbers one process start of a node: the index of the entry that
// registered it, so it only grows.
type Epoch uint64

// Incarnation is the random name of one process start.
type Incarnation [16]byte

// String is the incarnation in hexadecimal.
func (i Incarnation) String() string { return hex.EncodeToString(i[:]) }

// ClusterID is the random identity of a cluster, the same in its log and its
// bucket.
type ClusterID [16]byte

// String is the identity in hexadecimal, as it stands in object keys.
func (c ClusterID) String() string { return hex.EncodeToString(c[:]) }

// Digest is a hash over canonical state; equal states have equal digests.
type Digest uint64

// Origin says whose a proposal is: the Seq-th of one epoch of a node. The log
// keeps it unique, which makes a retried insert harmless.
type Origin struct {
	Node  NodeID
	Epoch Epoch
	Seq   uint64
}

// String prints node/epoch/sequence.
func (o Origin) String() string { return fmt.Sprintf("%d/%d/%d", o.Node, o.Epoch, o.Seq) }

// RegistrationOrigin is the origin of a node's registration, which has no epoch
// yet: node 0 and 63 bits of the incarnation in place of the epoch.
func RegistrationOrigin(i Incarnation) Origin {
	var e uint64
	for _, b := range i[:8] {
		e = e<<8 | uint64(b)
	}
	return Origin{Epoch: Epoch(e>>1 | 1), Seq: 1}
}

// Proposal is commands that one node wants applied together, in order. Each is
// accepted or refused alone.
type Proposal struct {
	Origin   Origin
	Commands []Command
}

// Payload is what a log row holds: the clock of the node that proposed it, the
// latest of several, and its proposals.
type Payload struct {
	Clock     stream.Time
	Proposals []Proposal
}

// Entry is a payload at its place in the log.
type Entry struct {
	Index Index
	// DatabaseTime is the database's clock when the row was inserted. Log time
	// is max(previous entry's, min(DatabaseTime, Payload.Clock)).
	DatabaseTime stream.Time
	Payload
}
