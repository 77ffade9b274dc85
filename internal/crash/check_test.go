package crash

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

// history is a small stream with a request of every fate, and a copy that
// keeps every promise.
func history() (*ledger, copyOf) {
	l := newLedger("s", textPlain)
	tail := offset(5)
	for _, w := range []*write{
		{writer: 0, request: 0, creates: true, fate: acknowledged},
		{writer: 1, request: 0, count: 2, fate: acknowledged, start: 0},
		{writer: 2, request: 0, count: 1, fate: sent, lost: 1},
		{writer: 3, request: 0, count: 1, fate: refused},
		{writer: 1, request: 1, count: 2, fate: sent, lost: 1, producer: &stream.Producer{ID: "p"}},
		{writer: 4, request: 0, count: 1, fate: acknowledged, start: 5, match: &tail, closes: true},
	} {
		l.begin(w)
	}
	return l, copyOf{exists: true, closed: true, content: []seen{
		{recordID{1, 0, 0}, 10},
		{recordID{1, 0, 1}, 10},
		{recordID{2, 0, 0}, 11},
		{recordID{1, 1, 0}, 12},
		{recordID{1, 1, 1}, 12},
		{recordID{4, 0, 0}, 12},
	}}
}

func TestAKeptPromisePasses(t *testing.T) {
	l, c := history()
	require.NoError(t, l.verify(c))
	require.NoError(t, l.verify(c), "and again")
	lost := l.lookup(recordID{1, 1, 0})
	require.True(t, lost.found, "what the kill took the answer of is found")
	require.Equal(t, offset(3), lost.start)
}

// TestEveryBrokenPromiseIsFound shows that the crash test can fail.
func TestEveryBrokenPromiseIsFound(t *testing.T) {
	for _, test := range []struct {
		name string
		harm func(l *ledger, c *copyOf)
	}{
		{"an acknowledged record is lost", func(_ *ledger, c *copyOf) { c.content = c.content[2:] }},
		{"a batch is torn", func(_ *ledger, c *copyOf) { c.content = append(c.content[:3:3], c.content[4:]...) }},
		{"the tail is torn", func(_ *ledger, c *copyOf) { c.content, c.closed = c.content[:4], false }},
		{"a record is there twice", func(_ *ledger, c *copyOf) { c.content = append(c.content[:3:3], c.content[2:]...) }},
		{"a request is there twice", func(_ *ledger, c *copyOf) { c.content = append(c.content, c.content[3:5]...) }},
		{"a refused request is there", func(_ *ledger, c *copyOf) { c.content[2].id.Writer = 3 }},
		{"nobody sent a record", func(_ *ledger, c *copyOf) { c.content[2].id.Writer = 9 }},
		{"records changed places", func(_ *ledger, c *copyOf) { c.content[0], c.content[1] = c.content[1], c.content[0] }},
		{"requests changed places", func(l *ledger, c *copyOf) {
			l.lookup(recordID{1, 0, 0}).fate = sent
			copy(c.content, append(append([]seen{}, c.content[3:5]...), c.content[2], c.content[0], c.content[1]))
		}},
		{"a record is not where it was acknowledged", func(l *ledger, _ *copyOf) { l.lookup(recordID{1, 0, 0}).start = 1 }},
		{"a condition did not hold", func(l *ledger, _ *copyOf) { *l.lookup(recordID{4, 0, 0}).match = 4 }},
		{"time went back", func(_ *ledger, c *copyOf) { c.content[3].time = 9 }},
		{"the closed stream is open", func(_ *ledger, c *copyOf) { c.closed = false }},
		{"a record follows the close", func(l *ledger, c *copyOf) {
			l.begin(&write{writer: 5, count: 1})
			c.content = append(c.content, seen{recordID{5, 0, 0}, 13})
		}},
		{"the stream is gone", func(_ *ledger, c *copyOf) { *c = copyOf{} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, c := history()
			test.harm(l, &c)
			require.Error(t, l.verify(c))
		})
	}
}

func TestWhatWasReadStays(t *testing.T) {
	for _, test := range []struct {
		name string
		harm func(c *copyOf)
	}{
		{"a lost answer's record goes away again", func(c *copyOf) { c.content = append(c.content[:2:2], c.content[3:]...) }},
		{"a time changes", func(c *copyOf) { c.content[5].time = 13 }},
		{"the stream goes away", func(c *copyOf) { *c = copyOf{} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, c := history()
			l.lookup(recordID{4, 0, 0}).match = nil
			require.NoError(t, l.verify(c))
			_, again := history()
			test.harm(&again)
			require.Error(t, l.verify(again))
		})
	}
}

func TestALostRequestThatIsAbsentStaysAbsent(t *testing.T) {
	l := newLedger("s", textPlain)
	l.begin(&write{writer: 1, count: 1, lost: 1})
	require.NoError(t, l.verify(copyOf{exists: true}))
	require.Error(t, l.verify(copyOf{exists: true, content: []seen{{recordID{1, 0, 0}, 1}}}))
}

func TestAStreamIsThereWithTheBodyOfItsCreateOrNotAtAll(t *testing.T) {
	create := func() *ledger {
		l := newLedger("s", textPlain)
		l.begin(&write{writer: 1, count: 1, creates: true, lost: 1})
		return l
	}
	require.NoError(t, create().verify(copyOf{}))
	require.NoError(t, create().verify(copyOf{exists: true, content: []seen{{recordID{1, 0, 0}, 1}}}))
	require.Error(t, create().verify(copyOf{exists: true}))
}

// TestWrongAnswersAreFound: answers that contradict what the ledger knows.
func TestWrongAnswersAreFound(t *testing.T) {
	producer := &stream.Producer{ID: "p"}
	tail := offset(7)
	for _, test := range []struct {
		name   string
		write  write
		answer answer
	}{
		{"committed before and accepted again", write{count: 1, producer: producer, lost: 1, found: true, start: 3}, answer{verdict: accepted, start: 9, startKnown: true, next: 10}},
		{"accepted twice", write{count: 1, producer: producer, fate: acknowledged}, answer{verdict: accepted, next: 1}},
		{"a duplicate elsewhere", write{count: 1, producer: producer, fate: acknowledged, start: 3}, answer{verdict: duplicate, start: 4, startKnown: true, next: 5}},
		{"a duplicate before its original", write{count: 2, producer: producer, fate: acknowledged, start: 3}, answer{verdict: duplicate, next: 4}},
		{"a duplicate of nothing", write{count: 1, producer: producer}, answer{verdict: duplicate, next: 1}},
		{"offsets that do not fit", write{count: 2}, answer{verdict: accepted, start: 3, startKnown: true, next: 4}},
		{"another tail than asked for", write{count: 1, match: &tail}, answer{verdict: accepted, start: 8, startKnown: true, next: 9}},
		{"refused for the tail it has", write{count: 1, match: &tail}, answer{verdict: conditionFail, next: 7}},
		{"a condition nobody made", write{count: 1}, answer{verdict: conditionFail}},
		{"a new stream sequence refused", write{count: 1, streamSeq: "1"}, answer{verdict: conditionFail}},
		{"closed by nobody", write{count: 1}, answer{verdict: streamClosed}},
		{"created over records", write{count: 1, creates: true}, answer{verdict: accepted, next: 2}},
		{"a close that leaves it open", write{count: 1, closes: true}, answer{verdict: accepted, next: 1}},
		{"nonsense", write{count: 1}, answer{verdict: unexpected}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := test.write
			w.stream = newLedger("s", textPlain)
			require.NotEmpty(t, w.decide(test.answer))
		})
	}
}

func TestALostConditionalRequestIsDecidedByItsRetry(t *testing.T) {
	tail := offset(7)
	there := write{count: 1, match: &tail, lost: 1, found: true, start: 7}
	require.Empty(t, there.decide(answer{verdict: conditionFail, next: 9}))
	require.Equal(t, acknowledged, there.fate)

	overtaken := write{count: 1, match: &tail, lost: 1}
	require.Empty(t, overtaken.decide(answer{verdict: conditionFail, next: 9}))
	require.Equal(t, refused, overtaken.fate)
}

func TestBodiesTellDamage(t *testing.T) {
	id := recordID{Writer: 3, Request: 17, Index: 1}
	text := encodeBody(id, 2)
	got, err := decodeBody(text)
	require.NoError(t, err)
	require.Equal(t, id, got)
	for at := range text {
		damaged := append([]byte(nil), text...)
		damaged[at] ^= 1
		other, err := decodeBody(damaged)
		require.True(t, err != nil || other != id, "byte %d", at)
	}
}

func TestThePlanFollowsFromItsSeed(t *testing.T) {
	require.Equal(t, plan(newRandom(5), 90), plan(newRandom(5), 90))
	count := map[killKind]int{}
	for _, k := range plan(newRandom(5), 90) {
		count[k.kind]++
	}
	require.Equal(t, map[killKind]int{killAfterPut: 30, killAfterCommit: 30, killOutside: 20, killStarting: 10}, count)
}
