package fsck

import (
	"fmt"

	"github.com/picomq/picomq/commands"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // something stored is gone or wrong
	Warning Severity = "warning" // nothing is lost, but it should not be so
	Info    Severity = "info"    // as it should be
)

// Kind says what was found. The text is the kind's name for scripts and stays.
type Kind string

// The kinds of findings on objects.
const (
	Missing   Kind = "missing"   // an object that is needed is not there
	Truncated Kind = "truncated" // it is shorter than it was written
	TooLong   Kind = "too_long"  // it is longer
	Checksum  Kind = "checksum"  // its bytes were altered
	Format    Kind = "format"    // it is not what this release reads
	Foreign   Kind = "foreign"   // it is another's: under a wrong key, of another start or cluster
	Orphan    Kind = "orphan"    // nothing refers to it, and nothing will
	Unknown   Kind = "unknown"   // nothing of PicoMQ has such a key
)

// The kinds of findings on what streams have in segments.
const (
	Records    Kind = "records"    // an extent's records are not in its segment
	Owner      Kind = "owner"      // they are another stream's
	Offsets    Kind = "offsets"    // they have other offsets
	Times      Kind = "times"      // their times fall, or lie outside what the log says
	MediaType  Kind = "media_type" // JSON where the stream is not, or the other way
	Shared     Kind = "shared"     // two streams have the same records and are no relatives
	References Kind = "references" // a segment has not the references that it counts
	Gap        Kind = "gap"        // a stream, or the archive, lacks something between two parts
	Overlap    Kind = "overlap"    // or has it twice
)

// The kinds of findings on the history.
const (
	Damaged  Kind = "damaged"   // a row of the log, or an archive object, is not as it was written
	LostRows Kind = "lost_rows" // the log lacks rows that something in the bucket is evidence of
	Chain    Kind = "chain"     // archive objects that are not of one history
	Diverged Kind = "diverged"  // replaying the log gives another state than was recorded
)

// The kinds of information.
const (
	Uncommitted Kind = "uncommitted" // objects of epochs in force that the log does not know yet
	Waiting     Kind = "waiting"     // segments that nothing refers to, or that wait to be deleted
	Unrecorded  Kind = "unrecorded"  // snapshot or archive objects that the log does not name yet
	Refused     Kind = "refused"     // why nothing was repaired
	Newer       Kind = "newer"       // findings left out, since the log went on
)

// inDoubt are kinds after which nothing is deleted: if the history is not the
// one that wrote the bucket, nothing follows from what it does not know.
var inDoubt = map[Kind]bool{
	Damaged: true, LostRows: true, Chain: true, Diverged: true, Foreign: true, Gap: true, Overlap: true, References: true,
}

// Finding is one thing that was found.
type Finding struct {
	Severity Severity `json:"severity"`
	Kind     Kind     `json:"kind"`
	// Object is what it is about: an object's key, "stream NAME", or "log".
	Object   string `json:"object"`
	What     string `json:"what"`
	Do       string `json:"do,omitempty"`
	Repaired bool   `json:"repaired,omitempty"`
}

// String is the finding on one line.
func (f Finding) String() string {
	line := fmt.Sprintf("%s %s: %s: %s", f.Severity, f.Object, f.Kind, f.What)
	switch {
	case f.Repaired:
		return line + "; repaired"
	case f.Do != "":
		return line + "; " + f.Do
	default:
		return line
	}
}

// Report is what was checked, and how much was found.
type Report struct {
	Index     commands.Index `json:"index"` // the state that was checked is the one at this row
	Rows      uint64         `json:"rows"`  // replayed
	Snapshots int            `json:"snapshots"`
	Archives  int            `json:"archives"` // objects
	Streams   uint64         `json:"streams"`
	Extents   uint64         `json:"extents"`
	Objects   uint64         `json:"objects"`  // segments in the bucket
	Segments  uint64         `json:"segments"` // whose objects were read
	Bytes     uint64         `json:"bytes"`    // of those, read in whole or in part
	Errors    int            `json:"errors"`
	Warnings  int            `json:"warnings"`
	Repaired  int            `json:"repaired"` // of the errors and warnings
	Quick     bool           `json:"quick,omitempty"`
}

// Clean tells whether nothing is left that is not as it should be.
func (r *Report) Clean() bool { return r.Errors+r.Warnings == r.Repaired }

// String is the report on one line.
func (r *Report) String() string {
	how := "checked"
	if r.Quick {
		how = "checked quickly"
	}
	text := fmt.Sprintf("%s %s, %s and %s (%d bytes) as of row %d: ", how, count(r.Streams, "stream"), count(r.Extents, "extent"),
		count(r.Segments, "segment"), r.Bytes, r.Index)
	if r.Errors+r.Warnings == 0 {
		return text + "all is well"
	}
	text += fmt.Sprintf("%s, %s", count(uint64(r.Errors), "error"), count(uint64(r.Warnings), "warning"))
	if r.Repaired > 0 {
		text += fmt.Sprintf(", %d of them repaired", r.Repaired)
	}
	return text
}

func count(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
