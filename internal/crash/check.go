package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/picomq/picomq/stream"
)

// copyOf is a stream as read back whole.
type copyOf struct {
	exists  bool
	gone    bool // deleted, and kept for its forks
	closed  bool
	holds   uint64 // live forks
	content []seen
}

// check reads streams back, forks after what they are forks of, and compares
// them with their ledgers. Nobody may write meanwhile.
func check(ctx context.Context, c *clients, ledgers []*ledger) error {
	copies := make([]copyOf, len(ledgers))
	err := each(ctx, ledgers, func(ctx context.Context, l *ledger, i int) (err error) {
		if copies[i], err = read(ctx, c.pick(i), l); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, l := range ledgers {
		if err := l.verify(copies[i]); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	for _, l := range ledgers {
		if err := l.verifyHolds(); err != nil {
			return err
		}
	}
	return nil
}

// read reads a stream back through both protocols, which must agree.
func read(ctx context.Context, s *server, l *ledger) (copyOf, error) {
	h, err := readHead(ctx, s, l)
	if err != nil {
		return copyOf{}, fmt.Errorf("HEAD: %w", err)
	}
	if err := l.verifyOrigin(h); err != nil {
		return copyOf{}, err
	}
	native, err := readBack(ctx, s, pico{}, l)
	if err != nil {
		return native, fmt.Errorf("read through Pico: %w", err)
	}
	other, err := readBack(ctx, s, durable{}, l)
	if err != nil {
		return native, fmt.Errorf("read through Durable Streams: %w", err)
	}
	if err := sameRecords(native, other); err != nil {
		return native, fmt.Errorf("through Pico and through Durable Streams: %w", err)
	}
	if got := (head{exists: native.exists, gone: native.gone, closed: native.closed, tail: offset(len(native.content))}); !h.describes(got) {
		return native, fmt.Errorf("HEAD says %+v, read back was %+v", h, got)
	}
	native.holds = h.holds
	return native, nil
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
		case gone(status) && from == 0:
			c.gone = status == http.StatusGone
			return c, nil
		case status != http.StatusOK:
			return c, fmt.Errorf("from %d: status %d %.200q", from, status, body)
		}
		got, err := p.page(l, from, h, body)
		if err != nil {
			return c, fmt.Errorf("from %d: %w", from, err)
		}
		if err := c.add(p, l, &got); err != nil {
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
func (c *copyOf) add(p protocol, l *ledger, got *page) error {
	_, numbered := p.(pico)
	for i := range got.records {
		r := &got.records[i]
		id, err := l.decode(offset(len(c.content)), r.Body)
		if err != nil {
			return fmt.Errorf("record %d: %w", len(c.content), err)
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
	if a.exists != b.exists || a.gone != b.gone || a.closed != b.closed || len(a.content) != len(b.content) {
		return fmt.Errorf("exists %v and %v, gone %v and %v, closed %v and %v, %d and %d records",
			a.exists, b.exists, a.gone, b.gone, a.closed, b.closed, len(a.content), len(b.content))
	}
	for i := range a.content {
		if a.content[i].id != b.content[i].id {
			return fmt.Errorf("at %d: %v and %v", i, a.content[i].id, b.content[i].id)
		}
	}
	return nil
}

// verify compares a copy with everything known about the stream, and remembers
// it. It is what this package is about. The stream that a fork comes from must
// have been verified before.
func (l *ledger) verify(c copyOf) error {
	if deleted, err := l.verifyDeleted(c); deleted || err != nil {
		return err
	}
	if err := l.verifyHistory(c); err != nil {
		return err
	}
	if l.fork != nil && c.exists {
		if base := l.base(); offset(len(c.content)) < base {
			return fmt.Errorf("it has %d records and inherited %d", len(c.content), base)
		}
		if err := l.fork.parent.verifyInherited(c.content[:l.base()]); err != nil {
			return fmt.Errorf("inherited: %w", err)
		}
	}
	found, err := l.verifyRecords(c.content, false)
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
	l.exists, l.closed, l.content, l.holds, l.touched = c.exists, c.closed, c.content, c.holds, false
	l.hear(offset(len(c.content)))
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

// verifyRecords: every record of the stream's own was sent, once, whole with its
// request, after the earlier ones of its writer, and not before the time of the
// one before. It returns where each request begins. Of the last request a part
// is enough if the content ends where a fork branched off.
func (l *ledger) verifyRecords(content []seen, branched bool) (map[*write]stream.Offset, error) {
	found := map[*write]stream.Offset{}
	last := map[int]int{} // request by writer
	for at := int(l.base()); at < len(content); {
		id := content[at].id
		w := l.lookup(id)
		if w == nil || id.Index != 0 {
			return nil, fmt.Errorf("record %d is %v, which no request begins with", at, id)
		}
		if before, ok := last[id.Writer]; ok && id.Request <= before {
			return nil, fmt.Errorf("record %d: %v comes after request %d", at, w, before)
		}
		if at+w.count > len(content) && !branched {
			return nil, fmt.Errorf("record %d: %v has %d records, the stream ends at %d", at, w, w.count, len(content))
		}
		for i := range min(w.count, len(content)-at) {
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
	case w.deletes: // which it did not, or there would be nothing to verify
		return nil
	case w.count == 0 && w.creates:
		start, there = l.base(), c.exists
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
	case there && w.creates && start != l.base():
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
