package crash

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

// family is a stream, a fork of it within a batch, and a fork of that one at its
// tail, with copies that keep every promise.
type family struct {
	ledgers [3]*ledger
	copies  [3]copyOf
}

func newFamily() *family {
	parent := newLedger("parent", textPlain)
	for _, w := range []*write{
		{writer: 0, request: 0, creates: true, fate: acknowledged},
		{writer: 1, request: 0, count: 1, fate: acknowledged, start: 0},
		{writer: 1, request: 1, count: 3, fate: acknowledged, start: 1},
		{writer: 2, request: 0, count: 1, fate: refused},
		{writer: 1, request: 3, count: 1, fate: acknowledged, start: 4},
	} {
		parent.begin(w)
	}
	at := offset(3)
	child := newFork("child", &fork{parent: parent, at: &at, end: at, known: true})
	child.begin(&write{writer: 1, request: 2, count: 1, creates: true, fate: acknowledged, start: 3})
	child.begin(&write{writer: 1, request: 4, count: 1, fate: acknowledged, start: 4, producer: &stream.Producer{ID: "p"}})
	child.hear(5)
	grandchild := newFork("grandchild", &fork{parent: child})
	grandchild.begin(&write{writer: 1, request: 5, creates: true, fate: sent, lost: 1})

	begin := []seen{{recordID{1, 0, 0}, 10}, {recordID{1, 1, 0}, 11}, {recordID{1, 1, 1}, 11}}
	branch := append(begin[:3:3], seen{recordID{1, 2, 0}, 12}, seen{recordID{1, 4, 0}, 13})
	return &family{
		ledgers: [3]*ledger{parent, child, grandchild},
		copies: [3]copyOf{
			{exists: true, holds: 1, content: append(begin[:3:3], seen{recordID{1, 1, 2}, 11}, seen{recordID{1, 3, 0}, 12})},
			{exists: true, holds: 1, content: branch},
			{exists: true, content: append([]seen(nil), branch...)},
		},
	}
}

// verify is what check does with copies that were read.
func (f *family) verify() error {
	if l := f.ledgers[2]; f.copies[2].exists && !l.fork.known {
		if err := l.verifyOrigin(head{exists: true, from: "/child", at: 5}); err != nil {
			return err
		}
	}
	for i, l := range f.ledgers {
		if err := l.verify(f.copies[i]); err != nil {
			return err
		}
	}
	for _, l := range f.ledgers {
		if err := l.verifyHolds(); err != nil {
			return err
		}
	}
	return nil
}

// delete has members deleted and read as such: kept for their forks or not.
func (f *family) delete(kept bool, members ...int) {
	for _, i := range members {
		if f.ledgers[i].deletion() == nil {
			f.ledgers[i].begin(&write{writer: 9, request: i, deletes: true, fate: acknowledged})
		}
		f.copies[i] = copyOf{gone: kept}
	}
}

func TestForksThatKeepTheirPromisesPass(t *testing.T) {
	f := newFamily()
	require.NoError(t, f.verify())
	require.NoError(t, f.verify(), "and again")
	require.True(t, f.ledgers[2].lookupCreate().found)
	require.Equal(t, offset(5), f.ledgers[2].base())

	f.delete(true, 0, 1)
	require.NoError(t, f.verify(), "the grandchild keeps both")
	f.delete(false, 0, 1, 2)
	require.NoError(t, f.verify(), "and takes them along")
}

func (l *ledger) lookupCreate() *write { return l.any(func(w *write) bool { return w.creates }) }

// TestEveryBrokenPromiseOfForksIsFound shows that the crash test can fail.
func TestEveryBrokenPromiseOfForksIsFound(t *testing.T) {
	const parent, child, grandchild = 0, 1, 2
	for _, test := range []struct {
		name string
		harm func(f *family, c *copyOf) // c is the child's
	}{
		{"an inherited record is lost", func(_ *family, c *copyOf) { c.content = append(c.content[:1:1], c.content[2:]...) }},
		{"the end of the inherited part is lost", func(_ *family, c *copyOf) { c.content = append(c.content[:2:2], c.content[3:]...) }},
		{"nothing but the inherited part is there", func(_ *family, c *copyOf) { c.content = c.content[:3] }},
		{"a part of the inherited part is there", func(_ *family, c *copyOf) { c.content = c.content[:2] }},
		{"the parent's next record is there", func(f *family, c *copyOf) {
			c.content = append(append(c.content[:3:3], f.copies[parent].content[3]), c.content[3:]...)
		}},
		{"a later append to the parent is there", func(f *family, c *copyOf) { c.content = append(c.content, f.copies[parent].content[4]) }},
		{"an inherited time changed", func(_ *family, c *copyOf) { c.content = append([]seen{{c.content[0].id, 9}}, c.content[1:]...) }},
		{"a record of its own is older than the inherited ones", func(_ *family, c *copyOf) { c.content[3].time = 10 }},
		{"an own record is there twice", func(_ *family, c *copyOf) { c.content = append(c.content, c.content[4]) }},
		{"the record of the create is lost", func(_ *family, c *copyOf) { c.content = append(c.content[:3:3], c.content[4]) }},
		{"the fork is gone", func(_ *family, c *copyOf) { *c = copyOf{} }},
		{"the fork is deleted by nobody", func(_ *family, c *copyOf) { *c = copyOf{gone: true} }},
		{"the fork of the fork is gone again", func(f *family, _ *copyOf) {
			_ = f.verify()
			f.copies[grandchild], f.copies[child].holds = copyOf{}, 0
		}},
		{"the fork is not counted", func(f *family, _ *copyOf) { f.copies[parent].holds = 0 }},
		{"a fork is counted that is not there", func(f *family, _ *copyOf) { f.copies[parent].holds = 2 }},
		{"a fork is counted as somebody else's", func(f *family, _ *copyOf) { f.copies[grandchild].holds = 1 }},
		{"a deleted parent is free while a fork lives", func(f *family, _ *copyOf) { f.delete(false, parent) }},
		{"a deleted parent is free while a fork of a deleted fork lives", func(f *family, _ *copyOf) {
			f.delete(true, child)
			f.delete(false, parent)
		}},
		{"a deleted parent is kept for nothing", func(f *family, _ *copyOf) {
			f.delete(true, parent)
			f.delete(false, child, grandchild)
		}},
		{"a deleted parent is there", func(f *family, _ *copyOf) {
			kept := f.copies[parent]
			f.delete(true, parent)
			f.copies[parent] = kept
		}},
		{"a deleted parent is back", func(f *family, _ *copyOf) {
			kept := f.copies[parent]
			f.delete(true, parent)
			_ = f.verify()
			f.ledgers[parent].deletion().fate = sent
			f.copies[parent] = kept
		}},
		{"what a deleted parent had is lost in its fork", func(f *family, c *copyOf) {
			f.delete(true, parent)
			c.content = append(c.content[:1:1], c.content[2:]...)
		}},
		{"a deleted parent had another record there", func(f *family, c *copyOf) {
			f.delete(true, parent)
			c.content[2].id = recordID{2, 0, 0}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFamily()
			test.harm(f, &f.copies[child])
			require.Error(t, f.verify())
		})
	}
}

func TestARefusedRequestIsNotInherited(t *testing.T) {
	l := newLedger("deleted", textPlain)
	l.begin(&write{writer: 2, count: 1, fate: refused})
	require.Error(t, l.verifyInherited([]seen{{recordID{2, 0, 0}, 1}}))
}

// TestForksOfADeletedStreamAgree: where the answers leave open what it had, the
// first fork that is read decides for all.
func TestForksOfADeletedStreamAgree(t *testing.T) {
	l := newLedger("deleted", textPlain)
	for writer := range 2 {
		l.begin(&write{writer: writer, count: 1, lost: 1})
	}
	one, other := []seen{{recordID{0, 0, 0}, 1}}, []seen{{recordID{1, 0, 0}, 1}}
	require.NoError(t, l.verifyInherited(one))
	require.NoError(t, l.verifyInherited(nil), "a fork of the start")
	require.NoError(t, l.verifyInherited(append(one, other...)))
	require.Error(t, l.verifyInherited(other))
}

func TestWhatAForkSaysOfItsOrigin(t *testing.T) {
	at := offset(3)
	parent := newLedger("p", textPlain)
	parent.hear(4)
	asked := func() *ledger { return newFork("f", &fork{parent: parent, at: &at, sub: 2, end: 4, known: true}) }
	tail := func() *ledger { return newFork("f", &fork{parent: parent}) }
	require.NoError(t, asked().verifyOrigin(head{exists: true, from: "/p", at: 3, sub: 2}))
	require.NoError(t, tail().verifyOrigin(head{exists: true, from: "/p", at: 4}))
	require.NoError(t, tail().verifyOrigin(head{}), "it need not be there yet")
	for name, err := range map[string]error{
		"no fork":                      asked().verifyOrigin(head{exists: true}),
		"a plain stream":               newLedger("s", textPlain).verifyOrigin(head{exists: true, from: "/p"}),
		"another parent":               asked().verifyOrigin(head{exists: true, from: "/q", at: 3, sub: 2}),
		"another offset":               asked().verifyOrigin(head{exists: true, from: "/p", at: 2, sub: 2}),
		"another sub-offset":           asked().verifyOrigin(head{exists: true, from: "/p", at: 3}),
		"a tail without what had been": tail().verifyOrigin(head{exists: true, from: "/p", at: 3}),
	} {
		require.Error(t, err, name)
	}
}

// TestWrongAnswersAboutForksAreFound: to creates of forks, and to deletes.
func TestWrongAnswersAboutForksAreFound(t *testing.T) {
	at := offset(3)
	for _, test := range []struct {
		name   string
		fork   fork
		write  write
		answer answer
	}{
		{"made elsewhere", fork{at: &at, end: 3, known: true}, write{creates: true, count: 1}, answer{verdict: accepted, next: 5}},
		{"made without its record", fork{at: &at, end: 3, known: true}, write{creates: true, count: 1}, answer{verdict: accepted, next: 3}},
		{"made with less than its record", fork{}, write{creates: true, count: 5}, answer{verdict: accepted, next: 4}},
		{"at a tail that has been passed", fork{}, write{creates: true, count: 1}, answer{verdict: accepted, next: 7}},
		{"made twice", fork{}, write{creates: true, fate: acknowledged}, answer{verdict: accepted, next: 7}},
		{"made again after it was found", fork{}, write{creates: true, lost: 1, found: true}, answer{verdict: accepted, next: 7}},
		{"there at the first time", fork{}, write{creates: true}, answer{verdict: duplicate, next: 7}},
		{"there elsewhere", fork{at: &at, end: 3, known: true}, write{creates: true, lost: 1}, answer{verdict: duplicate, next: 4}},
		{"there with less than it had", fork{}, write{creates: true, fate: acknowledged, start: 8}, answer{verdict: duplicate, next: 7}},
		{"gone, and nobody deleted it", fork{}, write{count: 1}, answer{verdict: streamGone}},
		{"deleted before, at the first time", fork{}, write{deletes: true}, answer{verdict: duplicate}},
		{"deleted twice", fork{}, write{deletes: true, lost: 1, found: true}, answer{verdict: accepted}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, f := test.write, test.fork
			f.parent = newLedger("p", textPlain)
			f.parent.hear(7)
			w.stream = newFork("f", &f)
			require.NotEmpty(t, w.decide(test.answer))
		})
	}
}

func TestADeletedStreamIsNotFreeWhileAForkLives(t *testing.T) {
	f := newFamily()
	f.delete(true, 0)
	late := func(status int) string {
		return (&write{stream: f.ledgers[0], count: 1}).decide(answer{verdict: streamGone, status: status})
	}
	require.Empty(t, late(http.StatusGone))
	require.NotEmpty(t, late(http.StatusNotFound))
	f.delete(true, 1)
	require.Empty(t, late(http.StatusNotFound), "nobody knows whether the other fork was made")
}

func TestALostForkIsDecidedByItsRetry(t *testing.T) {
	parent := newLedger("p", textPlain)
	parent.hear(7)
	w := &write{creates: true, count: 2, lost: 1, stream: newFork("f", &fork{parent: parent})}
	require.Empty(t, w.decide(answer{verdict: duplicate, next: 10}), "committed before the kill, at the tail of then")
	require.Equal(t, offset(8), w.start)
	require.Equal(t, offset(8), w.stream.base())
	require.Empty(t, w.decide(answer{verdict: duplicate, next: 12}), "and again when it has grown")
	require.Equal(t, offset(8), w.stream.base())
}

// TestCutRecords: what a fork has of a record is told apart from what follows,
// and any other cut is found.
func TestCutRecords(t *testing.T) {
	whole, of := records(1, 0, 3), 3
	id := recordID{1, 0, 1}
	at := offset(1)
	child := newFork("child", &fork{
		parent: newLedger("parent", textPlain), at: &at, sub: 20, cut: &cut{id, of, 20}, end: 2, known: true,
	})
	grandchild := newFork("grandchild", &fork{parent: child, at: &at, sub: 4, cut: &cut{id, of, 4}, end: 2, known: true})
	heir := newFork("heir", &fork{parent: child, end: 3, known: true})
	before := newFork("before", &fork{parent: child, at: &at, end: at, known: true})
	require.Nil(t, before.cutAt(1), "its own record is whole")

	own := encodeBody(recordID{1, 9, 0}, 1)
	for _, test := range []struct {
		fork  *ledger
		bytes int
	}{{child, 20}, {grandchild, 4}, {heir, 20}, {before, len(whole[1].Body)}} {
		want := [][]byte{whole[0].Body, whole[1].Body[:test.bytes], own, own}
		text := []byte{}
		for _, b := range want {
			text = append(text, b...)
		}
		for from := range want {
			got, err := splitBodies(test.fork, offset(from), text)
			require.NoError(t, err)
			require.Equal(t, want[from:], got, "%s from %d", test.fork.name, from)
			text = text[len(want[from]):]
		}
		got, err := test.fork.decode(1, want[1])
		require.NoError(t, err)
		require.Equal(t, id, got)
		for _, other := range [][]byte{want[1][:test.bytes-1], append(want[1][:test.bytes:test.bytes], '!'), own} {
			if got, err := test.fork.decode(1, other); err == nil {
				require.NotEqual(t, id, got)
			}
		}
	}
}
