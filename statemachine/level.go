//go:build !nextlevel

package statemachine

import "github.com/picomq/picomq/commands"

// What came with a level of its own is judged here, by the level in force and
// never by what the binary understands, since entries of before are replayed under
// the rules of then. The first level is everything so far.

// applyNext applies a kind that came with a later level: there is none.
func (s *State) applyNext(commands.Command) Verdict { return Invalid }

// nextRefuses tells whether a rule of a later level refuses a create.
func (s *State) nextRefuses(*commands.Create) bool { return false }
