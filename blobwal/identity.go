package blobwal

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// Identity is who writes: one start of one node of one cluster. The epoch is
// the node's number for this start, the incarnation a random name for the same
// start, which tells two processes apart that believe in the same epoch.
type Identity struct {
	Cluster     [16]byte
	Log         uint16
	Node        uint32
	Epoch       uint64
	Incarnation [16]byte
}

// SegmentID names a segment within its cluster. Sequence counts from 1 within
// the epoch. It is comparable and small, meant as a map key.
type SegmentID struct {
	Log      uint16
	Node     uint32
	Epoch    uint64
	Sequence uint64
}

// Segment is the ID of the sequence-th segment of this identity.
func (i Identity) Segment(sequence uint64) SegmentID {
	return SegmentID{Log: i.Log, Node: i.Node, Epoch: i.Epoch, Sequence: sequence}
}

// String prints the ID for logs.
func (id SegmentID) String() string {
	return fmt.Sprintf("%d/%d/%d/%d", id.Log, id.Node, id.Epoch, id.Sequence)
}

// IdentityKey is the key of the object that holds the cluster's identity.
const IdentityKey = "picomq-cluster"

// keyGroup is how many consecutive sequences share a key prefix, so that a
// listing or a directory of one prefix stays small.
const keyGroup = 4096

// Key is the key of a segment of a cluster.
func Key(cluster [16]byte, id SegmentID) string {
	return fmt.Sprintf("%s%013x/%016x.seg", EpochPrefix(cluster, id.Log, id.Node, id.Epoch), id.Sequence/keyGroup, id.Sequence)
}

// LogPrefix is what the keys of all segments of a log begin with, and no other.
func LogPrefix(cluster [16]byte, log uint16) string { return logPrefix(cluster, log) + "/wal/" }

// NodePrefix is what the keys of all segments of a node begin with, and no other.
func NodePrefix(cluster [16]byte, log uint16, node uint32) string {
	return fmt.Sprintf("%s%08x/", LogPrefix(cluster, log), node)
}

// EpochPrefix is what the keys of all segments of one start of a node begin
// with, and no other.
func EpochPrefix(cluster [16]byte, log uint16, node uint32, epoch uint64) string {
	return fmt.Sprintf("%s%016x/", NodePrefix(cluster, log, node), epoch)
}

// ParseKey is the inverse of [Key]. It refuses every other string, also one
// that spells the same numbers differently.
func ParseKey(key string) (cluster [16]byte, id SegmentID, err error) {
	refused := fmt.Errorf("%q is not the key of a segment", key)
	parts := strings.Split(strings.TrimSuffix(key, ".seg"), "/")
	if len(parts) != 7 || len(parts[0]) != 2*len(cluster) {
		return cluster, id, refused
	}
	if _, err := hex.Decode(cluster[:], []byte(parts[0])); err != nil {
		return cluster, id, refused
	}
	numbers := make([]uint64, 0, 4)
	for _, part := range []string{parts[1], parts[3], parts[4], parts[6]} {
		n, err := strconv.ParseUint(part, 16, 64)
		if err != nil {
			return cluster, id, refused
		}
		numbers = append(numbers, n)
	}
	id = SegmentID{Log: uint16(numbers[0]), Node: uint32(numbers[1]), Epoch: numbers[2], Sequence: numbers[3]}
	if Key(cluster, id) != key { // widths, upper case, overflow, group
		return cluster, SegmentID{}, refused
	}
	return cluster, id, nil
}

// MarkerKey is the key of the object that says which incarnation owns an epoch
// of a node.
func MarkerKey(cluster [16]byte, log uint16, node uint32, epoch uint64) string {
	return fmt.Sprintf("%s/marker/%08x/%016x", logPrefix(cluster, log), node, epoch)
}

func logPrefix(cluster [16]byte, log uint16) string {
	return fmt.Sprintf("%x/%04x", cluster, log)
}
