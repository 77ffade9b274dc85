package fsck

import (
	"fmt"

	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// joint is how far the parts of a stream have joined.
type joint struct{ at stream.Offset }

// add adds the part that holds the records [first, end). It says what is wrong,
// or nothing.
func (j *joint) add(first, end stream.Offset) (kind Kind, what string) {
	switch {
	case end <= first:
		return Gap, fmt.Sprintf("one of its extents holds nothing at record %d", first)
	case first > j.at:
		kind, what = Gap, fmt.Sprintf("no extent holds its records %s", span(j.at, first))
	case first < j.at:
		kind, what = Overlap, fmt.Sprintf("two extents hold its records %s", span(first, min(j.at, end)))
	}
	j.at = max(j.at, end)
	return kind, what
}

// end says what is wrong if the parts do not end at the tail.
func (j *joint) end(tail stream.Offset) (kind Kind, what string) {
	switch {
	case j.at < tail:
		return Gap, fmt.Sprintf("no extent holds its records %s", span(j.at, tail))
	case j.at > tail:
		return Overlap, fmt.Sprintf("its extents go on to record %d, and its tail is %d", j.at-1, tail)
	default:
		return "", ""
	}
}

// span names the records [first, end) as people do.
func span(first, end stream.Offset) string {
	if end == first+1 {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d to %d", first, end-1)
}

// named is a stream in findings.
func named(st *statemachine.Stream) string { return fmt.Sprintf("stream %q", string(st.Name)) }
