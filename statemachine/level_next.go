//go:build nextlevel

package statemachine

import (
	"strings"

	"github.com/picomq/picomq/commands"
)

// nextLevel is the level of the release that the tag nextlevel makes up.
const nextLevel = 2

// applyNext applies the kind that came with it.
func (s *State) applyNext(c commands.Command) Verdict {
	if _, ok := c.(*commands.Next); ok && s.level >= nextLevel {
		return Accepted
	}
	return Invalid
}

// nextRefuses is its rule: no stream's name begins with "level-one".
func (s *State) nextRefuses(m *commands.Create) bool {
	return s.level >= nextLevel && strings.HasPrefix(string(m.Name), "level-one")
}
