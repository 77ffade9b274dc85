package statemachine

import (
	"strings"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// interner gives equal strings one small number, counting references. Numbers
// of strings no longer referenced are used again, so they are never part of the
// canonical state: hashes and snapshots speak of the strings.
//
// The apply goroutine owns it. Readers may call value and hash for a number
// while they hold a lock under which a row refers to it: the entry of such a
// number is not written.
type interner struct {
	numbers map[string]uint32
	entries atomic.Pointer[[]interned]
	free    []uint32
}

type interned struct {
	text string
	hash uint64
	refs uint64
}

func (t *interner) init() {
	t.numbers = make(map[string]uint32)
	t.entries.Store(new([]interned))
}

func (t *interner) value(n uint32) string { return (*t.entries.Load())[n].text }
func (t *interner) hash(n uint32) uint64  { return (*t.entries.Load())[n].hash }

// find is the number of a string that is referenced somewhere.
func (t *interner) find(text string) (uint32, bool) {
	n, ok := t.numbers[text]
	return n, ok
}

// acquire is the string's number, with one more reference.
func (t *interner) acquire(text string) uint32 {
	entries := *t.entries.Load()
	if n, ok := t.numbers[text]; ok {
		entries[n].refs++
		return n
	}
	text = strings.Clone(text) // not a part of something larger
	entry := interned{text: text, hash: xxhash.Sum64String(text), refs: 1}
	var n uint32
	if last := len(t.free) - 1; last >= 0 {
		n = t.free[last]
		t.free = t.free[:last]
		entries[n] = entry
	} else {
		n = uint32(len(entries))
		grown := append(entries, entry) // a variable of its own, so that only this allocates
		t.entries.Store(&grown)
	}
	t.numbers[text] = n
	return n
}

// release drops one reference. No row may refer to the number under it.
func (t *interner) release(n uint32) {
	entries := *t.entries.Load()
	entries[n].refs--
	if entries[n].refs > 0 {
		return
	}
	delete(t.numbers, entries[n].text)
	entries[n] = interned{}
	t.free = append(t.free, n)
}
