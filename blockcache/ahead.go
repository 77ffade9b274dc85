package blockcache

import "time"

// aheadStays is how long at least what was read ahead waits for its reader. Until
// then nothing that is read ahead later pushes it out: it would be fetched twice.
const aheadStays = 5 * time.Second

// ahead is what was read ahead and nobody asked for yet.
type ahead struct {
	*fifo
	flying int // bytes of flights under way
}

// room tells whether so many bytes more can be read ahead, and drops for them
// what has waited in vain.
func (a *ahead) room(bytes int) bool {
	for now := time.Now(); a.bytes+a.flying+bytes > a.limit; {
		oldest := a.oldest()
		if oldest == nil || now.Sub(oldest.at) < aheadStays {
			return false
		}
		a.drop(oldest)
	}
	return true
}
