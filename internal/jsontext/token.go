package jsontext

import (
	"encoding/binary"
	"math/bits"
)

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
	quotes   = lowBits * '"'
	escapes  = lowBits * '\\'
	spaces   = lowBits * ' '
)

// stops marks, with the high bit of its byte, the first byte of a word that is a
// quote, a backslash or a control character; bytes above the first may be marked
// wrongly, since a difference borrows from the byte above it.
func stops(word uint64) uint64 {
	quote, escape := word^quotes, word^escapes
	return ((quote - lowBits) | (escape - lowBits) | (word - spaces)) &^ word & highBits
}

// fault is the place of what is not there.
const fault = -1

// skipKey is the place of the value behind the key that should begin at a place,
// or a fault.
func skipKey(text []byte, at int) int {
	if at >= len(text) || text[at] != '"' {
		return fault
	}
	if at = skipString(text, at); uint(at) >= uint(len(text)) {
		return fault
	}
	if text[at] != ':' {
		if at = skipSpace(text, at); at >= len(text) || text[at] != ':' {
			return fault
		}
	}
	return skipSpace(text, at+1)
}

// skipString is the place behind the string whose first quote is at a place, or a
// fault.
func skipString(text []byte, at int) int {
	at++
	for {
		for rest := text[at:]; len(rest) >= 8; rest = rest[8:] {
			if found := stops(binary.LittleEndian.Uint64(rest)); found != 0 {
				at += bits.TrailingZeros64(found) / 8
				break
			}
			at += 8
		}
		// The first byte that matters, or one of the last seven of the text.
		if at >= len(text) {
			return fault
		}
		switch c := text[at]; {
		case c == '"':
			return at + 1
		case c == '\\':
			if at = skipEscape(text, at); at < 0 {
				return fault
			}
		case c < ' ':
			return fault
		default:
			at++
		}
	}
}

// skipEscape is the place behind the escape that begins at a place, or a fault.
func skipEscape(text []byte, at int) int {
	if at+1 >= len(text) {
		return fault
	}
	switch text[at+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return at + 2
	case 'u':
		if at+6 > len(text) {
			return fault
		}
		for _, c := range text[at+2 : at+6] {
			if !isHex(c) {
				return fault
			}
		}
		return at + 6
	default:
		return fault
	}
}

func isHex(c byte) bool { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func skipWord(text []byte, at int, word string) int {
	if len(text)-at < len(word) || string(text[at:at+len(word)]) != word {
		return fault
	}
	return at + len(word)
}

// skipNumber is the place behind the number that begins at a place, or a fault.
func skipNumber(text []byte, at int) int {
	if at < len(text) && text[at] == '-' {
		at++
	}
	if at < len(text) && text[at] == '0' {
		at++
	} else if at = skipDigits(text, at); at < 0 {
		return fault
	}
	if at < len(text) && text[at] == '.' {
		if at = skipDigits(text, at+1); at < 0 {
			return fault
		}
	}
	if at < len(text) && text[at]|0x20 == 'e' {
		at++
		if at < len(text) && (text[at] == '+' || text[at] == '-') {
			at++
		}
		at = skipDigits(text, at)
	}
	return at
}

// skipDigits is the place behind the digits at a place, a fault if there are none.
func skipDigits(text []byte, at int) int {
	first := at
	for at < len(text) && isDigit(text[at]) {
		at++
	}
	if at == first {
		return fault
	}
	return at
}

// skipSpace is the place of the first byte from one on that is not white space.
func skipSpace(text []byte, at int) int {
	for uint(at) < uint(len(text)) && text[at] <= ' ' {
		switch text[at] {
		case ' ', '\t', '\r', '\n':
			at++
		default:
			return at
		}
	}
	return at
}
