package jsontext

import "unicode/utf8"

// Scanner walks a text. It is for one goroutine. After a method has returned false
// for a fault of the text, nothing it says is of use but TooDeep.
type Scanner struct {
	text     []byte
	pos      int
	maxDepth int
	high     uint64 // bytes of strings, ORed: whether any is beyond ASCII
	tooDeep  bool
}

// StandardDepth is how deep encoding/json goes.
const StandardDepth = 10_000

// New begins at the start of a text whose values nest at most maxDepth levels: a
// number has none, an array of numbers one.
func New(text []byte, maxDepth int) *Scanner { return &Scanner{text: text, maxDepth: maxDepth} }

// Valid tells whether a text is one JSON value in UTF-8, white space around it
// allowed.
func Valid(text []byte, maxDepth int) bool {
	s := Scanner{text: text, maxDepth: maxDepth}
	s.Space()
	return s.Value() && s.End()
}

// Pos is where the scanner stands, in bytes.
func (s *Scanner) Pos() int { return s.pos }

// TooDeep tells whether Value returned false because of the depth.
func (s *Scanner) TooDeep() bool { return s.tooDeep }

// Space moves over white space.
func (s *Scanner) Space() { s.pos = skipSpace(s.text, s.pos) }

// Take moves over one byte if it is the next.
func (s *Scanner) Take(b byte) bool {
	if s.pos < len(s.text) && s.text[s.pos] == b {
		s.pos++
		return true
	}
	return false
}

// End tells whether nothing but white space follows, and whether the whole text
// is UTF-8.
func (s *Scanner) End() bool {
	s.Space()
	return s.pos == len(s.text) && (s.high&highBits == 0 || utf8.Valid(s.text))
}

// freeDepth is how many levels are kept track of without memory of the heap.
const freeDepth = 64

// Value moves over the value that begins at the very next byte. Whether its
// strings are UTF-8 is only known at the End.
func (s *Scanner) Value() bool {
	var open nesting
	at := s.pos
	for closed := false; at >= 0; {
		if closed && open.depth == 0 {
			s.pos = at
			return true
		}
		if closed {
			at, closed = s.next(&open, skipSpace(s.text, at))
		} else {
			at, closed = s.begin(&open, at)
		}
	}
	return false
}

// begin goes from the beginning of a value to its end, or if it is an array or
// object that is not empty, to the first value inside. Closed tells which. The
// place is negative where the text is at fault.
func (s *Scanner) begin(open *nesting, at int) (to int, closed bool) {
	text := s.text
	if at >= len(text) {
		return fault, false
	}
	switch text[at] {
	case '"':
		return s.skipString(at), true
	case '{', '[':
		return s.enter(open, at)
	case 't':
		return skipWord(text, at, "true"), true
	case 'f':
		return skipWord(text, at, "false"), true
	case 'n':
		return skipWord(text, at, "null"), true
	default:
		return skipNumber(text, at), true
	}
}

// enter is begin for arrays and objects.
func (s *Scanner) enter(open *nesting, at int) (to int, closed bool) {
	text := s.text
	if open.depth == s.maxDepth {
		s.tooDeep = true
		return fault, false
	}
	object := text[at] == '{'
	at = skipSpace(text, at+1)
	if at < len(text) && text[at] == closing(object) {
		return at + 1, true
	}
	open.push(object)
	if object {
		at = s.skipKey(at)
	}
	return at, false
}

// next goes from behind a value that lies in another to the value after it, or
// over the end of the one around it, which closes that.
func (s *Scanner) next(open *nesting, at int) (to int, closed bool) {
	text, object := s.text, open.object()
	if at >= len(text) {
		return fault, false
	}
	switch text[at] {
	case ',':
		at = skipSpace(text, at+1)
		if object {
			at = s.skipKey(at)
		}
		return at, false
	case closing(object):
		open.depth--
		return at + 1, true
	default:
		return fault, false
	}
}

func closing(object bool) byte {
	if object {
		return '}'
	}
	return ']'
}

// nesting is what is open around a value: a bit for each level, set for objects.
type nesting struct {
	depth int
	outer uint64   // the first levels
	inner []uint64 // those after them
}

func (n *nesting) push(object bool) {
	word, bit := n.word(n.depth)
	if object {
		*word |= bit
	} else {
		*word &^= bit
	}
	n.depth++
}

// object tells whether the innermost is one; something must be open.
func (n *nesting) object() bool {
	if n.depth <= freeDepth {
		return n.outer>>(n.depth-1)&1 != 0
	}
	word, bit := n.word(n.depth - 1)
	return *word&bit != 0
}

// word has the bit of a level, counted from 0.
func (n *nesting) word(level int) (word *uint64, bit uint64) {
	bit = 1 << (level % freeDepth)
	if level < freeDepth {
		return &n.outer, bit
	}
	at := level/freeDepth - 1
	if at == len(n.inner) {
		n.inner = append(n.inner, 0)
	}
	return &n.inner[at], bit
}
