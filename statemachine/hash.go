package statemachine

import "math/bits"

// The primes of XXH64.
const (
	prime1 uint64 = 0x9e3779b185ebca87
	prime2 uint64 = 0xc2b2ae3d27d4eb4f
	prime3 uint64 = 0x165667b19e3779f9
	prime4 uint64 = 0x85ebca77c2b2ae63
	prime5 uint64 = 0x27d4eb2f165667c5
)

// hash is the XXH64, with seed 0, of words in little endian. It takes them as
// they are: by way of bytes in a buffer an item costs twice as much, and
// a fork may hash millions.
func hash(words ...uint64) uint64 {
	h, rest := prime5, words
	if len(words) >= 4 {
		a, b, c, d := prime1, prime2, uint64(0), prime1
		a, d = a+prime2, -d
		for ; len(rest) >= 4; rest = rest[4:] {
			a, b, c, d = mix(a, rest[0]), mix(b, rest[1]), mix(c, rest[2]), mix(d, rest[3])
		}
		h = bits.RotateLeft64(a, 1) + bits.RotateLeft64(b, 7) + bits.RotateLeft64(c, 12) + bits.RotateLeft64(d, 18)
		h = (h^mix(0, a))*prime1 + prime4
		h = (h^mix(0, b))*prime1 + prime4
		h = (h^mix(0, c))*prime1 + prime4
		h = (h^mix(0, d))*prime1 + prime4
	}
	h += 8 * uint64(len(words))
	for _, w := range rest {
		h = bits.RotateLeft64(h^mix(0, w), 27)*prime1 + prime4
	}
	h = (h ^ h>>33) * prime2
	h = (h ^ h>>29) * prime3
	return h ^ h>>32
}

// mix takes a word into one lane of the hash.
func mix(lane, word uint64) uint64 {
	return bits.RotateLeft64(lane+word*prime2, 31) * prime1
}
