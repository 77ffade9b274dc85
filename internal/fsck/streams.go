package fsck

import (
	"context"

	"github.com/picomq/picomq/statemachine"
	"github.com/picomq/picomq/stream"
)

// reportIt is what to do about a state that commands cannot have made.
const reportIt = "keep the log and the snapshots, and report it"

// checkStreams checks that the extents of each stream join.
func (c *checker) checkStreams(ctx context.Context) error {
	total := c.view.Counts().Streams
	for after, more := stream.Name(""), true; more; {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.progress("streams", c.report.Streams, total)
		var page []statemachine.Stream
		page, more = c.view.List("", after, atOnce.streams)
		for i := range page {
			c.checkStream(&page[i])
			after = page[i].Name
		}
	}
	return nil
}

func (c *checker) checkStream(st *statemachine.Stream) {
	c.report.Streams++
	c.report.Extents += uint64(st.Extents)
	j := joint{at: st.Start}
	for from := st.Start; ; {
		extents := c.view.Extents(st.ID, from, atOnce.ofStream)
		for i := range extents {
			e := &extents[i]
			if kind, what := j.add(e.First, e.End()); kind != "" {
				c.fail(kind, named(st), reportIt, "%s", what)
			}
			c.checkIn(st, e)
		}
		if len(extents) < atOnce.ofStream {
			break
		}
		from = extents[len(extents)-1].End()
	}
	if kind, what := j.end(st.Tail); kind != "" {
		c.fail(kind, named(st), reportIt, "%s", what)
	}
}

// checkIn checks the segment that an extent lies in.
func (c *checker) checkIn(st *statemachine.Stream, e *statemachine.Located) {
	switch {
	case e.In.Epoch == 0:
		c.fail(Missing, named(st), reportIt, "its records %s lie in slot %d, where there is no segment", span(e.First, e.End()), e.Segment)
	case e.In.Doomed != 0:
		c.fail(Missing, named(st), reportIt, "its records %s lie in segment %s, which is doomed", span(e.First, e.End()), c.key(&e.In))
	}
}
