package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// copyOf is a stream as read back whole.
type copyOf struct {
	exists  bool
	closed  bool
	content []seen
}

// check reads a stream back through both protocols and compares it with the
// ledger. Nobody may write meanwhile.
func check(ctx context.Context, s *server, l *ledger) error {
	native, err := readBack(ctx, s, pico{}, l)
	if err != nil {
		return fmt.Errorf("%s, read through Pico: %w", l.name, err)
	}
	other, err := readBack(ctx, s, durable{}, l)
	if err != nil {
		return fmt.Errorf("%s, read through Durable Streams: %w", l.name, err)
	}
	if err := sameRecords(native, other); err != nil {
		return fmt.Errorf("%s, Pico against Durable Streams: %w", l.name, err)
	}
	if err := checkHead(ctx, s, l, native); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	if err := l.verify(native); err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	return nil
}

// readBack reads a whole stream, page by page.
func readBack(ctx context.Context, s *server, p protocol, l *ledger) (copyOf, error) {
	var c copyOf
	for {
		from := offset(len(c.content))
		status, h, body, err := s.roundTrip(ctx, http.MethodGet, p.path(l.name)+"?"+p.position(from).Encode(), nil, nil)
		switch {
		case err != nil:
			return c, err
		case status == http.StatusNotFound && from == 0:
			return c, nil
		case status != http.StatusOK:
			return c, fmt.Errorf("from %d: status %d %.200q", from, status, body)
		}
		got, err := p.page(l, h, body)
		if err != nil {
			return c, fmt.Errorf("from %d: %w", from, err)
		}
		if err := c.add(p, &got); err != nil {
			return c, fmt.Errorf("from %d: %w", from, err)
		}
		if got.upToDate {
			c.exists, c.closed = true, got.closed
			return c, nil
		}
		if len(got.records) == 0 {
			return c, fmt.Errorf("from %d: nothing, and not up to date", from)
		}
	}
}

// add appends a page, whose offsets must go on where the copy ends.
func (c *copyOf) add(p protocol, got *page) error {
	_, numbered := p.(pico)
	for i := range got.records {
		r := &got.records[i]
		id, err := decodeBody(r.Body)
		if err != nil {
			return err
		}
		if numbered && r.Seq != offset(len(c.content)) {
			return fmt.Errorf("%v comes as %d, expected %d", id, r.Seq, len(c.content))
		}
		c.content = append(c.content, seen{id: id, time: r.Time})
	}
	if got.next != offset(len(c.content)) {
		return fmt.Errorf("the next offset is %d after %d records", got.next, len(c.content))
	}
	return nil
}

func sameRecords(a, b copyOf) error {
	if a.exists != b.exists || a.closed != b.closed || len(a.content) != len(b.content) {
		return fmt.Errorf("exists %v and %v, closed %v and %v, %d and %d records",
			a.exists, b.exists, a.closed, b.closed, len(a.content), len(b.content))
	}
	for i := range a.content {
		if a.content[i].id != b.content[i].id {
			return fmt.Errorf("at %d: %v and %v", i, a.content[i].id, b.content[i].id)
		}
	}
	return nil
}

func checkHead(ctx context.Context, s *server, l *ledger, c copyOf) error {
	status, h, _, err := s.roundTrip(ctx, http.MethodHead, pico{}.path(l.name), nil, nil)
	switch {
	case err != nil:
		return err
	case !c.exists && status == http.StatusNotFound:
		return nil
	case !c.exists || status != http.StatusOK:
		return fmt.Errorf("HEAD: status %d, exists %v", status, c.exists)
	}
	tail, err := offsetHeader(h, wire.PicoNextSeq)
	if err != nil {
		return err
	}
	if closed := h.Get(wire.PicoClosed) == "true"; tail != offset(len(c.content)) || closed != c.closed {
		return fmt.Errorf("HEAD: tail %d and closed %v, read back %d and %v", tail, closed, len(c.content), c.closed)
	}
	return nil
}

// verify compares a copy with everything known about the stream, and remembers
// it. It is what this package is about.
func (l *ledger) verify(c copyOf) error {
	if err := l.verifyHistory(c); err != nil {
		return err
	}
	found, err := l.verifyRecords(c.content)
	if err != nil {
		return err
	}
	for _, w := range l.writes {
		if err := l.verifyWrite(w, c, found); err != nil {
			return err
		}
	}
	if c.closed && !l.closeSent() {
		return errors.New("closed, and nobody closed it")
	}
	l.exists, l.closed, l.content, l.touched = c.exists, c.closed, c.content, false
	return nil
}

// verifyHistory: what was read once stays as it was.
func (l *ledger) verifyHistory(c copyOf) error {
	switch {
	case l.exists && !c.exists:
		return fmt.Errorf("it existed and does not any more")
	case l.closed && (!c.closed || len(c.content) != len(l.content)):
		return fmt.Errorf("it was closed with %d records; closed is %v now, with %d", len(l.content), c.closed, len(c.content))
	case len(c.content) < len(l.content):
		return fmt.Errorf("%d records were read before, %d now", len(l.content), len(c.content))
	}
	for i, before := range l.content {
		if c.content[i] != before {
			return fmt.Errorf("record %d was %v and is %v", i, before, c.content[i])
		}
	}
	return nil
}

// verifyRecords: every record was sent, once, whole with its request, after
// the earlier ones of its writer, and not before the time of the one before. It
// returns where each request begins.
func (l *ledger) verifyRecords(content []seen) (map[*write]stream.Offset, error) {
	found := map[*write]stream.Offset{}
	last := map[int]int{} // request by writer
	for at := 0; at < len(content); {
		id := content[at].id
		w := l.lookup(id)
		if w == nil || id.Index != 0 {
			return nil, fmt.Errorf("record %d is %v, which no request begins with", at, id)
		}
		if before, ok := last[id.Writer]; ok && id.Request <= before {
			return nil, fmt.Errorf("record %d: %v comes after request %d", at, w, before)
		}
		if at+w.count > len(content) {
			return nil, fmt.Errorf("record %d: %v has %d records, the stream ends at %d", at, w, w.count, len(content))
		}
		for i := range w.count {
			r := content[at+i]
			if want := (recordID{id.Writer, id.Request, i}); r.id != want {
				return nil, fmt.Errorf("record %d is %v, not %v", at+i, r.id, want)
			}
			if at+i > 0 && r.time < content[at+i-1].time {
				return nil, fmt.Errorf("record %d has time %d after %d", at+i, r.time, content[at+i-1].time)
			}
		}
		found[w], last[id.Writer] = offset(at), id.Request
		at += w.count
	}
	return found, nil
}

// verifyWrite: a request is where its answer said, or nowhere if it was
// refused. One whose answer was lost is marked when its effect is there.
func (l *ledger) verifyWrite(w *write, c copyOf, found map[*write]stream.Offset) error {
	start, there := found[w]
	switch {
	case w.count == 0 && w.creates:
		there = c.exists
	case w.count == 0:
		start, there = offset(len(c.content)), c.closed
	}
	tail := offset(len(c.content))
	switch {
	case w.fate == refused && there && w.count > 0:
		return fmt.Errorf("%v was refused and is there at %d", w, start)
	case w.fate == acknowledged && !there:
		return fmt.Errorf("%v was acknowledged at %d and is not there", w, w.start)
	case w.fate == acknowledged && w.start != start && !w.startUnknown:
		return fmt.Errorf("%v was acknowledged at %d and is at %d", w, w.start, start)
	case there && w.closes && (!c.closed || start+offset(w.count) != tail):
		return fmt.Errorf("%v closes at %d; closed is %v, the tail %d", w, start, c.closed, tail)
	case there && w.creates && start != 0:
		return fmt.Errorf("%v creates the stream and is at %d", w, start)
	case there && w.match != nil && start != *w.match:
		return fmt.Errorf("%v asks for the tail %d and is at %d", w, *w.match, start)
	case w.creates && !there && c.exists:
		return fmt.Errorf("the stream exists without the records of its create, %v", w)
	}
	switch {
	case there:
		w.found, w.start = true, start
	case w.fate == sent && w.sentOnce() && w.lost > 0:
		w.fate = refused // what a restart did not bring back never comes
	}
	return nil
}
