package jsontext

import "unicode/utf8"

// Scanner walks a text. It is for one goroutine. After a method has returned false
// for a fault of the text, nothing it says is of use but TooDeep.
type Scanner struct {
	text     []byte
	pos      int
	maxDepth int
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
	return s.pos == len(s.text) && utf8.Valid(s.text)
}

// freeDepth is how many levels are kept track of without memory of the heap.
const freeDepth = 64

// Value moves over the value that begins at the very next byte. Whether its
// strings are UTF-8 is only known at the End.
func (s *Scanner) Value() bool {
	text, at := s.text, s.pos
	var open nesting
	for uint(at) < uint(len(text)) {
		// A value begins.
		switch c := text[at]; c {
		case '"':
			at = skipString(text, at)
		case '{', '[':
			inside, closing := false, c+('}'-'{') // as far as ']' is from '['
			if at, inside = s.enter(&open, closing, at); inside {
				continue
			}
		case 't':
			at = skipWord(text, at, "true")
		case 'f':
			at = skipWord(text, at, "false")
		case 'n':
			at = skipWord(text, at, "null")
		default:
			at = skipNumber(text, at)
		}
		// It has ended, and what is around it may end, too.
		for open.depth > 0 {
			if at = skipSpace(text, at); uint(at) >= uint(len(text)) {
				return false
			}
			if text[at] == ',' {
				at = skipSpace(text, at+1)
				if open.closing == '}' {
					at = skipKey(text, at)
				}
				break
			}
			if text[at] != open.closing {
				return false
			}
			open.pop()
			at++
		}
		if open.depth == 0 {
			s.pos = max(at, s.pos) // a fault is before it
			return at >= 0
		}
	}
	return false
}

// enter goes from the beginning of an array or object, which end with closing, to
// the first value inside, or to its end if there is none.
func (s *Scanner) enter(open *nesting, closing byte, at int) (to int, inside bool) {
	text := s.text
	if open.depth == s.maxDepth {
		s.tooDeep = true
		return fault, false
	}
	at = skipSpace(text, at+1)
	if at < len(text) && text[at] == closing {
		return at + 1, false
	}
	open.push(closing)
	if closing == '}' {
		at = skipKey(text, at)
	}
	return at, true
}

// nesting is what is open around a value.
type nesting struct {
	depth   int
	closing byte     // what ends the innermost; 0 at depth 0
	outer   uint64   // whether the levels around it are objects, a bit for each
	inner   []uint64 // the same of those from freeDepth on
}

// push opens an array or object, and pop ends it. The bit of a level is set while
// another is open in it.
func (n *nesting) push(closing byte) {
	if n.depth > 0 {
		word, bit := n.word(n.depth - 1)
		if *word &^= bit; n.closing == '}' {
			*word |= bit
		}
	}
	n.depth++
	n.closing = closing
}

func (n *nesting) pop() {
	n.depth--
	n.closing = 0
	if n.depth == 0 {
		return
	}
	word, bit := n.word(n.depth - 1)
	if n.closing = ']'; *word&bit != 0 {
		n.closing = '}'
	}
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
