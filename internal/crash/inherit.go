package crash

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// head is what Pico says about a stream without its records.
type head struct {
	exists bool
	gone   bool // deleted, and kept for its forks
	closed bool
	tail   stream.Offset
	holds  uint64 // live forks

	from string        // the path of what it is a fork of; empty for no fork
	at   stream.Offset // of a fork
	sub  uint64        // of a fork
}

func readHead(ctx context.Context, s *server, l *ledger) (got head, err error) {
	status, h, _, err := s.roundTrip(ctx, http.MethodHead, pico{}.path(l.name), nil, nil)
	switch {
	case err != nil:
		return got, err
	case gone(status):
		return head{gone: status == http.StatusGone}, nil
	case status != http.StatusOK:
		return got, fmt.Errorf("status %d", status)
	}
	got.exists, got.closed, got.from = true, h.Get(wire.PicoClosed) == "true", h.Get(wire.PicoForkedFrom)
	if got.tail, err = offsetHeader(h, wire.PicoNextSeq); err != nil {
		return got, err
	}
	if got.holds, err = absentIsZero(h, wire.PicoForks); err != nil {
		return got, err
	}
	if got.from == "" {
		return got, nil
	}
	if got.at, err = offsetHeader(h, wire.PicoForkSeq); err != nil {
		return got, err
	}
	got.sub, err = absentIsZero(h, wire.PicoForkSubOffset)
	return got, err
}

// describes reports whether a stream that was read whole is the described one.
func (h head) describes(read head) bool {
	return h.exists == read.exists && h.gone == read.gone && h.closed == read.closed && h.tail == read.tail
}

// absentIsZero reads a number that is not shown when it is 0.
func absentIsZero(h http.Header, name string) (uint64, error) {
	text := h.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s is %q", name, text)
	}
	return n, nil
}

// verifyOrigin: a fork says what it was asked to be a fork of, and everything
// else says nothing of the kind. Of a fork at the tail it learns where that was.
func (l *ledger) verifyOrigin(got head) error {
	f := l.fork
	switch {
	case !got.exists:
		return nil
	case f == nil && got.from != "":
		return fmt.Errorf("it is said to be a fork of %s", got.from)
	case f == nil:
		return nil
	case got.from != (pico{}).path(f.parent.name) || got.sub != f.sub:
		return fmt.Errorf("it is said to be a fork of %q, %d beyond %d, and was asked to be one of %q, %d beyond",
			got.from, got.sub, got.at, f.parent.name, f.sub)
	case f.at != nil && got.at != *f.at:
		return fmt.Errorf("it is said to branch off at %d, and was asked to at %d", got.at, *f.at)
	case f.at != nil:
		return nil
	}
	if problem := l.beginAt(got.at); problem != "" {
		return fmt.Errorf("at %d: %s", got.at, problem)
	}
	return nil
}

// verifyInherited compares the beginning of a fork of this stream, up to where
// it branched off, with all that is known about the stream: what was read from
// it, what was acknowledged, and what earlier forks show of a deleted one.
func (l *ledger) verifyInherited(content []seen) error {
	for i := range min(len(content), len(l.content)) {
		if content[i] != l.content[i] {
			return fmt.Errorf("record %d is %v, in %s it is %v", i, content[i], l.name, l.content[i])
		}
	}
	if l.exists && len(content) > len(l.content) {
		return fmt.Errorf("%d records come from %s, which has %d", len(content), l.name, len(l.content))
	}
	if l.fork != nil {
		if err := l.fork.parent.verifyInherited(content[:min(l.base(), offset(len(content)))]); err != nil {
			return err
		}
	}
	found, err := l.verifyRecords(content, true)
	if err != nil {
		return err
	}
	for _, w := range l.writes {
		if err := w.verifyInherited(content, found); err != nil {
			return err
		}
	}
	if len(content) > len(l.content) { // of a deleted stream, whose forks must agree
		l.content = content
	}
	return nil
}

// verifyInherited: a request is in the part that a fork inherited where its
// answer said, if that is there, or nowhere if it was refused.
func (w *write) verifyInherited(content []seen, found map[*write]stream.Offset) error {
	start, there := found[w]
	known := (w.fate == acknowledged || w.found) && w.count > 0
	switch {
	case w.fate == refused && there:
		return fmt.Errorf("%v was refused and is inherited at %d", w, start)
	case known && w.startUnknown:
		return nil
	case known && there && start != w.start:
		return fmt.Errorf("%v is at %d and inherited at %d", w, w.start, start)
	case known && !there && w.start < offset(len(content)):
		return fmt.Errorf("%v is at %d and not inherited by a fork up to %d", w, w.start, len(content))
	}
	return nil
}

// verifyDeleted: a stream stays deleted once anybody knows that it is. done says
// that it is, and there is nothing else to verify.
func (l *ledger) verifyDeleted(c copyOf) (done bool, err error) {
	w := l.deletion()
	switch {
	case w == nil && c.gone:
		return false, fmt.Errorf("it is deleted, and nobody deleted it")
	case w == nil:
		return false, nil
	case c.exists && (w.fate == acknowledged || w.found):
		return false, fmt.Errorf("%v deleted it, and it is there", w)
	case c.exists:
		return false, nil
	}
	w.found = true
	l.exists, l.gone, l.kept, l.holds, l.touched = false, c.gone, l.kept || c.gone, 0, false
	return true, nil
}

// verifyHolds: a stream has as many forks as are there, and a deleted one is
// kept if, and only if, there are some. All of them must have been verified.
func (l *ledger) verifyHolds() error {
	var live []stream.Name
	for _, f := range l.forks {
		if f.exists || f.gone {
			live = append(live, f.name)
		}
	}
	switch {
	case l.exists && l.holds != uint64(len(live)):
		return fmt.Errorf("%s is said to have %d live forks, there are %v", l.name, l.holds, live)
	case !l.exists && l.gone != (len(live) > 0):
		return fmt.Errorf("%s was deleted and has the live forks %v; that it is kept for them is %v", l.name, live, l.gone)
	}
	return nil
}
