package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/picomq/picomq/internal/jsontext"
	"github.com/picomq/picomq/stream"
)

// jsonScanner walks a text that is known to be valid JSON and valid UTF-8, so
// that its steps need not check syntax: they look only at what kind of value
// comes next. After the first error every step does nothing, so callers check
// err once at the end.
//
// encoding/json is not used to decode, because it would replace unpaired
// surrogates silently, match keys in any case, lose the order of headers and
// copy every body twice.
type jsonScanner struct {
	data []byte
	pos  int // always at a value, a delimiter or the end; never in white space
	err  error
}

// newJSONScanner checks the text.
func newJSONScanner(data []byte) (*jsonScanner, error) {
	if !jsontext.Valid(data, jsontext.StandardDepth) {
		return nil, explainInvalid(data)
	}
	s := &jsonScanner{data: data}
	s.space()
	return s, nil
}

// explainInvalid parses a text that is not valid JSON once more for the place
// of the error.
func explainInvalid(data []byte) error {
	if !utf8.Valid(data) {
		return stream.Errorf(stream.CodeBadRequest, "the JSON text is not UTF-8; send binary bodies as body_b64")
	}
	var raw json.RawMessage
	err := json.Unmarshal(data, &raw)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return stream.Errorf(stream.CodeBadRequest, "the JSON text is not valid at byte %d: %w", syntax.Offset, err)
	}
	return stream.Errorf(stream.CodeBadRequest, "the JSON text is not valid")
}

func (s *jsonScanner) fail(format string, args ...any) {
	if s.err == nil {
		args = append([]any{s.pos}, args...)
		s.err = stream.Errorf(stream.CodeBadRequest, "the JSON text is not as expected at byte %d: "+format, args...)
	}
}

func (s *jsonScanner) check(err error, key string) {
	if err != nil {
		s.fail("%q is not a whole number in range", key)
	}
}

// once marks a key of the format as seen and refuses it the second time.
func (s *jsonScanner) once(seen *bool, key string) {
	if *seen {
		s.fail("%q is there twice", key)
	}
	*seen = true
}

func (s *jsonScanner) space() {
	for s.pos < len(s.data) {
		switch s.data[s.pos] {
		case ' ', '\t', '\r', '\n':
			s.pos++
		default:
			return
		}
	}
}

// step moves over one byte and the white space after it.
func (s *jsonScanner) step() {
	s.pos++
	s.space()
}

// null tells whether the next value is null.
func (s *jsonScanner) null() bool { return s.err == nil && s.data[s.pos] == 'n' }

// object calls member for each key of an object, which may share the input;
// member consumes the value.
func (s *jsonScanner) object(what string, member func(key []byte)) {
	s.items(what, "an object", '{', '}', func() {
		key := s.text("a key")
		s.step() // the colon
		if s.err == nil {
			member(key)
		}
	})
}

// array calls element at each element of an array; element consumes it.
func (s *jsonScanner) array(what string, element func()) {
	s.items(what, "an array", '[', ']', element)
}

func (s *jsonScanner) items(what, kind string, open, shut byte, item func()) {
	if s.err == nil && s.data[s.pos] != open {
		s.fail("%s is not %s", what, kind)
	}
	if s.err != nil {
		return
	}
	s.step()
	for s.data[s.pos] != shut {
		item()
		if s.err != nil {
			return
		}
		if s.data[s.pos] == ',' {
			s.step()
		}
	}
	s.step()
}

// quoted takes a string value without its quotes, escapes as they stand.
func (s *jsonScanner) quoted(what string) []byte {
	if s.err == nil && s.data[s.pos] != '"' {
		s.fail("%s is not a string", what)
	}
	if s.err != nil {
		return nil
	}
	start := s.pos + 1
	end := start + bytes.IndexByte(s.data[start:], '"')
	for at := start; ; {
		escape := bytes.IndexByte(s.data[at:end], '\\')
		if escape < 0 {
			break
		}
		// What is escaped may be the quote that was found.
		at += escape + 2
		if at > end {
			end = at + bytes.IndexByte(s.data[at:], '"')
		}
	}
	s.pos = end
	s.step()
	return s.data[start:end:end]
}

// text takes a string value. Without escapes the result shares the input.
func (s *jsonScanner) text(what string) []byte {
	raw := s.quoted(what)
	at := bytes.IndexByte(raw, '\\')
	if at < 0 {
		return raw
	}
	out := make([]byte, 0, len(raw)) // escapes are never shorter than what they mean
	for ; at >= 0; at = bytes.IndexByte(raw, '\\') {
		out = append(out, raw[:at]...)
		r, size := unescape(raw[at:])
		if r < 0 {
			s.fail("%s holds half of a surrogate pair (%s), which has no UTF-8 form", what, raw[at:at+size])
			return nil
		}
		out = utf8.AppendRune(out, r)
		raw = raw[at+size:]
	}
	return append(out, raw...)
}

// unescape reads the escape that raw begins with. The rune is negative for a
// surrogate without its other half.
func unescape(raw []byte) (r rune, size int) {
	if raw[1] != 'u' {
		const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
		return rune(to[strings.IndexByte(from, raw[1])]), 2
	}
	r = hexRune(raw[2:6])
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		if pair := utf16.DecodeRune(r, hexRune(raw[8:12])); pair != utf8.RuneError {
			return pair, 12
		}
	}
	return -1, 6
}

func hexRune(digits []byte) rune {
	var r rune
	for _, c := range digits {
		switch {
		case c <= '9':
			c -= '0'
		case c <= 'F':
			c -= 'A' - 10
		default:
			c -= 'a' - 10
		}
		r = r<<4 | rune(c)
	}
	return r
}

// base64 takes a string value of standard, padded base64.
func (s *jsonScanner) base64(what string) []byte {
	text := s.text(what)
	if s.err != nil {
		return nil
	}
	// The decoder would skip line breaks; the format has none.
	if bytes.ContainsAny(text, "\r\n") {
		s.fail("%q holds a line break", what)
		return nil
	}
	out := make([]byte, 0, base64.StdEncoding.DecodedLen(len(text)))
	out, err := base64.StdEncoding.Strict().AppendDecode(out, text)
	if err != nil {
		s.fail("%q is not standard, padded base64", what)
		return nil
	}
	return out
}

// number takes a number value as it is written.
func (s *jsonScanner) number(what string) string {
	if s.err == nil && s.data[s.pos] != '-' && (s.data[s.pos] < '0' || s.data[s.pos] > '9') {
		s.fail("%q is not a number", what)
	}
	if s.err != nil {
		return ""
	}
	start := s.pos
	s.scalar()
	return string(bytes.TrimRight(s.data[start:s.pos], " \t\r\n"))
}

// scalar moves over a number, true, false or null.
func (s *jsonScanner) scalar() {
	for s.pos < len(s.data) && strings.IndexByte(",]} \t\r\n", s.data[s.pos]) < 0 {
		s.pos++
	}
	s.space()
}

// skip moves over one value of any kind, however deep, without recursion.
func (s *jsonScanner) skip() {
	if s.err != nil {
		return
	}
	for depth := 0; ; {
		switch s.data[s.pos] {
		case '{', '[':
			depth++
			s.step()
		case '}', ']':
			depth--
			s.step()
		case ',', ':':
			s.step()
		case '"':
			s.quoted("a string")
		default:
			s.scalar()
		}
		if depth == 0 {
			return
		}
	}
}
