// Package jsontext checks JSON text and finds where its values end. It parses
// nothing: what is stored is text, as it was sent.
//
//	s := jsontext.New(text, maxDepth)
//	s.Space()
//	start := s.Pos()
//	if !s.Value() || !s.End() {
//		return errNotJSON
//	}
//	value := text[start:…]
//
// It takes what encoding/json takes (RFC 8259), less what is not UTF-8, and is
// there because it does so several times as fast: every byte of every message to a
// JSON stream goes through it. Strings, which are most of most texts, are looked at
// in words of eight bytes, and whether all is UTF-8 once, at the End. Why a text is
// not JSON it does not say; who wants to tell a client lets encoding/json find out.
//
// # Bounds
//
// Time is linear in the text, and no recursion follows it. The only memory taken
// is a bit for each level of nesting beyond [freeDepth], up to the depth that the
// caller allows.
package jsontext
