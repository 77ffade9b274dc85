package blobwal

import "time"

// sealInput is everything that decides when the buffer becomes a segment.
type sealInput struct {
	buffered  bool          // something waits
	full      bool          // the oldest group cannot take more, or the writer is closing
	free      int           // upload slots
	slots     int           // all of them
	underWay  bool          // see [Writer.underWay]
	sinceSeal time.Duration // since the last seal; very long before the first
	interval  time.Duration // at least this between two seals
	pace      time.Duration // at least this as well while a segment is under way; 0 for a large group
	meanPut   time.Duration // moving mean of what a put takes
}

// sealNever means that only an event can change the answer: an append, or an
// upload that ends.
const sealNever time.Duration = -1

// largeShare is the part of a full group that is large: one whose put takes its
// time for its bytes and not for its sync, so that puts side by side are worth
// their while on any bucket.
const largeShare = 4

// sealWait is how long to wait before sealing: 0 is now.
//
// While nothing is under way there is nothing to share, so that a lone client,
// who sends its next append when the last is answered, waits for no timer. Else
// the gap is meanPut/slots because that keeps all slots busy and evenly apart
// under load: shorter gaps would use up the slots with small segments and then
// stall for a whole put, longer ones leave slots idle. Puts that share a disk
// wait for each other and for the log's commit, so that there every gap is too
// short which is shorter than both: the pace says so. The gap counts from the
// last seal, not from the first append of the buffer, so that an append after a
// pause is sealed at once.
func sealWait(in sealInput) time.Duration {
	if !in.buffered || in.free == 0 {
		return sealNever
	}
	if in.full {
		return 0
	}
	gap := in.interval
	if in.underWay {
		gap = max(gap, in.meanPut/time.Duration(in.slots), in.pace)
	}
	return max(gap-in.sinceSeal, 0)
}

// meanWeight is the share of the newest put in the moving mean: one eighth
// follows a change within about ten puts, and one slow put moves it little.
const meanWeight = 8

// moveMean takes one more duration into a moving mean; 0 is a mean of nothing.
func moveMean(mean, d time.Duration) time.Duration {
	if mean == 0 {
		return d
	}
	return mean + (d-mean)/meanWeight
}

// Decided tells the writer, once, that nothing more comes of the segment: the log
// has its commit, or never will.
func (s *Sealed) Decided() {
	if s.writer != nil {
		s.writer.decided(len(s.Appends))
	}
}

func (w *Writer) decided(appends int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.undecided--
	w.unanswered -= appends
	w.pump(time.Now())
}

// crowd is the number of unanswered appends beyond which processors are what is
// short. Below it, disks are.
const crowd = 64

// underWay tells whether what waits had better wait for more: while an upload is
// under way, and in a crowd also while a commit is. That halves the number of puts
// and rows, but few clients would only take longer: their commit and the next put
// go side by side.
func (w *Writer) underWay() bool {
	return w.free < w.config.Slots || w.undecided > 0 && w.unanswered > crowd
}
