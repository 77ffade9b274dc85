package statemachine

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// TestSequences compares the set with a map.
func TestSequences(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q sequences
		want := map[uint64]bool{}
		near := rapid.OneOf(rapid.Uint64Range(0, 40), rapid.Uint64Range(math.MaxUint64-9, math.MaxUint64))
		for _, n := range rapid.SliceOf(near).Draw(t, "added") {
			q.add(n)
			want[n] = true
			if !q.sound() {
				t.Fatalf("not ascending and apart: %v", q.spans)
			}
		}
		for n := range uint64(50) {
			for _, n := range []uint64{n, math.MaxUint64 - n} {
				if q.has(n) != want[n] {
					t.Fatalf("has(%d) = %t in %v", n, q.has(n), q.spans)
				}
			}
		}
	})
}

// TestSequencesAreBounded uses every other sequence: beyond the bound the
// lowest gaps close.
func TestSequencesAreBounded(t *testing.T) {
	var q sequences
	const n = 3 * maxRanges
	for i := range uint64(n) {
		q.add(2 * i)
	}
	assert.Len(t, q.spans, maxRanges)
	assert.True(t, q.sound())
	assert.True(t, q.has(1), "a closed gap refuses")
	assert.False(t, q.has(2*n-3))
	for i := range uint64(n) {
		assert.True(t, q.has(2*i))
	}
}

func TestInterner(t *testing.T) {
	var x interner
	x.init()
	a := x.acquire("a")
	b := x.acquire("b")
	assert.Equal(t, a, x.acquire("a"))
	assert.Equal(t, "a", x.value(a))
	assert.NotEqual(t, x.hash(a), x.hash(b))
	x.release(a)
	_, ok := x.find("a")
	assert.True(t, ok, "one reference is left")
	x.release(a)
	_, ok = x.find("a")
	assert.False(t, ok)
	assert.Equal(t, a, x.acquire("c"), "numbers are used again")
	assert.Equal(t, "b", x.value(b))
}

// TestProducerKnows compares what is remembered of requests with all of them.
func TestProducerKnows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p producer
		var firsts []stream.Offset
		first := stream.Offset(0)
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			first += stream.Offset(rapid.SampledFrom([]uint64{0, 1, 7, math.MaxUint32, math.MaxUint32 + 1}).Draw(t, "distance"))
			p.accept(3, uint64(len(firsts)), first)
			firsts = append(firsts, first)
		}
		reach := 0 // how far back no distance was too long
		for i := len(firsts) - 1; i > 0 && reach < maxKnown-1 && firsts[i]-firsts[i-1] <= math.MaxUint32; i-- {
			reach++
		}
		for seq, want := range firsts {
			got, ok := p.firstOf(uint64(seq))
			if ok != (seq >= len(firsts)-1-reach) || (ok && got != want) {
				t.Fatalf("request %d of %v: %d, %t", seq, firsts, got, ok)
			}
		}
	})
}

// TestDirectory keeps pages far apart without making room for those between.
func TestDirectory(t *testing.T) {
	var d directory[int]
	far := uint64(maxDense / pageRows)
	one, two := new(int), new(int)
	d.put(far, one)
	d.put(0, two)
	assert.Same(t, one, d.at(far))
	assert.Same(t, two, d.at(0))
	assert.Nil(t, d.at(1))
	assert.Nil(t, d.at(far/2))
	assert.Nil(t, d.at(far+chunkPages))
	d.put(far, nil)
	assert.Nil(t, d.at(far))
}

// TestManyProducers passes the number from which a map finds them.
func TestManyProducers(t *testing.T) {
	s, l := populate(t, 1)
	for round := range uint64(2) {
		var appends []commands.Append
		for i := range 3 * indexedFrom {
			appends = append(appends, commands.Append{
				ID: 1, Records: 1, HasProducer: true, Producer: stream.Producer{ID: fmt.Sprint(i), Seq: round},
			})
		}
		out := s.Apply(l.commit(appends))
		for _, a := range out.Proposals[0].Results[0].Appends {
			assert.Equal(t, Accepted, a.Verdict)
		}
	}
	assert.Equal(t, uint64(3*indexedFrom), s.View().Counts().Producers)
	assert.Equal(t, s.items, s.recompute())
	assert.Equal(t, s.dump(), restore(t, encode(t, s.BeginSnapshot())).dump())
	s.Apply(l.entry(&commands.Delete{ID: 1}))
	assert.Zero(t, s.View().Counts().Producers)
	assert.Empty(t, s.producers.numbers)
	assert.Empty(t, s.types.numbers)
}

// TestFull reaches the ends of what can be numbered.
func TestFull(t *testing.T) {
	s, l := populate(t, 1)
	p := damaged(s, 1)
	p.row().tail = stream.MaxOffset - 1
	answers := s.Apply(l.commit([]commands.Append{{ID: 1, Records: 2}, {ID: 1, Records: 1}, {ID: 1, Records: 1}})).Proposals[0].Results[0].Appends
	assert.Equal(t, Full, answers[0].Verdict)
	assert.Equal(t, Accepted, answers[1].Verdict)
	assert.Equal(t, Full, answers[2].Verdict)
	assert.Equal(t, stream.MaxOffset, answers[2].Tail)

	s.lastDense = maxDense
	results := s.Apply(l.entry(&commands.Create{Name: "x"})).Proposals[0].Results
	assert.Equal(t, Full, results[0].Verdict)
}

// TestInvalid holds values outside their bounds against each command.
func TestInvalid(t *testing.T) {
	long := string(make([]byte, 2000))
	create := func(c stream.Config) commands.Command { return &commands.Create{Name: "x", Config: c} }
	appends := func(a commands.Append) commands.Command {
		a.ID, a.Records = 1, 1
		return commands.NewCommitSegment(1000, 1<<40, []commands.Append{a}, nil)
	}
	tests := map[string]commands.Command{
		"no name":               &commands.Create{},
		"a long name":           &commands.Create{Name: stream.Name(long)},
		"a long type":           create(stream.Config{ContentType: long}),
		"a long ttl":            create(stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: stream.MaxTTL + 1}}),
		"ttl and instant":       create(stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 1, At: 1}}),
		"instant and ttl":       create(stream.Config{Expiry: stream.Expiry{Kind: stream.ExpiresAt, TTL: 1, At: 1}}),
		"an instant for nobody": create(stream.Config{Expiry: stream.Expiry{At: 1}}),
		"an unknown expiry":     create(stream.Config{Expiry: stream.Expiry{Kind: 9}}),
		"a producer's number": &commands.Close{ID: 1, Producer: &stream.Producer{
			ID: "p", Seq: stream.MaxProducerNumber + 1,
		}},
		"a nameless producer":   appends(commands.Append{HasProducer: true}),
		"a producer's name":     appends(commands.Append{HasProducer: true, Producer: stream.Producer{ID: long}}),
		"a producer's epoch":    appends(commands.Append{HasProducer: true, Producer: stream.Producer{ID: "p", Epoch: 1 << 60}}),
		"a long stream-seq":     appends(commands.Append{HasStreamSeq: true, StreamSeq: []byte(long)}),
		"bytes past 32 bits":    appends(commands.Append{Bytes: 1 << 32}),
		"too many touches":      &commands.Touch{IDs: make([]stream.ID, commands.MaxIDs+1)},
		"too many expiries":     &commands.Expire{IDs: make([]stream.ID, commands.MaxIDs+1)},
		"a long retention":      create(stream.Config{Retention: stream.Retention{Age: stream.MaxTTL + 1}}),
		"a large retention":     create(stream.Config{Retention: stream.Retention{Bytes: stream.MaxRetentionBytes + 1}}),
		"too many dooms":        &commands.Doom{Slots: make([]uint32, commands.MaxSlots+1)},
		"too many collected":    &commands.Collected{Slots: make([]uint32, commands.MaxSlots+1)},
		"too many given up":     &commands.Pack{Sequence: 1000, Level: 1, GivenUp: make([]uint64, commands.MaxGivenUp+1)},
		"a registration inside": &commands.RegisterNode{},
		"nothing":               nil,
	}
	for name, command := range tests {
		t.Run(name, func(t *testing.T) {
			s, l := populate(t, 1)
			result := s.Apply(l.entry(command)).Proposals[0].Results[0]
			if len(result.Appends) > 0 {
				result.AppendResult = result.Appends[0]
			}
			assert.Equal(t, Invalid, result.Verdict)
			assert.Equal(t, s.items, s.recompute())
		})
	}
}

func TestNames(t *testing.T) {
	for v := Refused; v <= LevelRefused; v++ {
		assert.NotEmpty(t, v.String())
	}
	assert.Equal(t, "verdict_200", Verdict(200).String())
	assert.Equal(t, "already_applied", AlreadyApplied.String())
	assert.Equal(t, "status_9", ProposalStatus(9).String())
}
