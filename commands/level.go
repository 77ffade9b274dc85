//go:build !nextlevel

package commands

// Level is the feature level this binary understands. Activate raises the
// level in force; kinds, rules and formats newer than it are not used.
const Level uint32 = 1

// newNext is an empty command of a kind that came with a later level than the
// first. There is none; builds with the tag nextlevel, for tests of how releases
// follow each other, have one.
func newNext(Kind) Command { return nil }
