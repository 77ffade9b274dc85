package blockcache

import "time"

// aheadStays is how long at least what was read ahead waits for its reader. Until
// then nothing that is read ahead later pushes it out: it would be fetched twice.
const aheadStays = 5 * time.Second

// ahead is what was read ahead and nobody asked for yet.
type ahead struct {
	*fifo      // of twice as many bytes: see land
	most   int // bytes that it has room for
	flying int // bytes of flights under way
}

func newAhead(most int) ahead {
	return ahead{fifo: newFIFO(2*most, nil), most: most}
}

// land keeps what a flight brought. It weighs more than the bytes that there was
// room for, which are those in the bucket, and an index had none, nor had blocks that
// a reader said it comes to next. What still waits for its reader stays all the same,
// up to twice the room: there is none for more until it is read.
func (a *ahead) land(key entryKey, e *entry) {
	a.put(key, e)
	a.room(0)
}

// room tells whether so many bytes more can be read ahead, and drops for them
// what has waited in vain.
func (a *ahead) room(bytes int) bool {
	for now := time.Now(); a.bytes+a.flying+bytes > a.most; {
		oldest := a.oldest()
		if oldest == nil || now.Sub(oldest.at) < aheadStays {
			return false
		}
		a.drop(oldest)
	}
	return true
}
