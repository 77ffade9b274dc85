package blobwal

import (
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/stream"
)

// packedRun is one call of Packer.Add.
type packedRun struct {
	id  stream.ID
	run stream.Run
}

// runOf is a run as it comes from a block.
func runOf(dense uint64, first stream.Offset, at stream.Time, bodies ...string) packedRun {
	r := stream.Run{First: first, Time: at}
	for _, body := range bodies {
		r.Bodies = append(r.Bodies, body...)
		r.Ends = append(r.Ends, uint32(len(r.Bodies)))
	}
	return packedRun{stream.MakeID(0, dense), r}.separated(bodies)
}

// asJSON is the run as one of a JSON stream.
func (p packedRun) asJSON() packedRun {
	bodies := make([]string, p.run.Len())
	for i := range bodies {
		bodies[i] = string(p.run.Body(i))
	}
	p.run.JSON = true
	return p.separated(bodies)
}

// separated puts the bodies into the run, with commas if it is one of a JSON
// stream.
func (p packedRun) separated(bodies []string) packedRun {
	separator := ""
	if p.run.JSON {
		separator = ","
	}
	p.run.Bodies, p.run.Ends = []byte(strings.Join(bodies, separator)), nil
	end := 0
	for i, body := range bodies {
		if i > 0 {
			end += len(separator)
		}
		end += len(body)
		p.run.Ends = append(p.run.Ends, uint32(end))
	}
	return p
}

// recordsOf is what decodeAll must give for runs.
func recordsOf(runs []packedRun) (out []located) {
	for _, p := range runs {
		for i := range p.run.Len() {
			out = append(out, located{
				stream: p.id, json: p.run.JSON, body: string(p.run.Body(i)), headers: fmt.Sprint(p.run.HeadersOf(i)),
				offset: p.run.First + stream.Offset(i), time: p.run.Time,
			})
		}
	}
	return out
}

func newPacker(t require.TestingT, maxBytes int) *Packer {
	p, err := NewPacker(someone(), goldenSequence, maxBytes)
	require.NoError(t, err)
	return p
}

// pack packs runs and checks their ordinals.
func pack(t require.TestingT, runs []packedRun) *Packed {
	p := newPacker(t, 8<<20)
	next := uint32(0)
	for _, r := range runs {
		ordinal, err := p.Add(r.id, r.run)
		require.NoError(t, err)
		require.Equal(t, next, ordinal)
		next += uint32(r.run.Len())
		require.Equal(t, next, p.Records())
	}
	bytes := p.Bytes()
	packed := p.Seal()
	require.Len(t, packed.Object, bytes)
	require.Equal(t, next, packed.Records)
	return packed
}

// drawRuns draws runs of a few streams, some with gaps, and headers here and
// there.
func drawRuns(t *rapid.T) (runs []packedRun) {
	size := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(0, 70_000))
	for dense := range rapid.Uint64Range(1, 3).Draw(t, "streams") {
		next := stream.Offset(rapid.Uint64Range(0, 1000).Draw(t, "first"))
		json := rapid.Bool().Draw(t, "json")
		for range rapid.IntRange(1, 6).Draw(t, "runs") {
			next += stream.Offset(rapid.SampledFrom([]int{0, 0, 0, 5}).Draw(t, "gap"))
			at := stream.Time(rapid.Int64Range(-1, 3).Draw(t, "time"))
			bodies := make([]string, rapid.IntRange(1, 6).Draw(t, "records"))
			for i := range bodies {
				bodies[i] = strings.Repeat(string(rune('a'+i)), size.Draw(t, "size"))
			}
			r := runOf(dense+1, next, at, bodies...)
			if json {
				r = r.asJSON()
			}
			if rapid.Bool().Draw(t, "headers") {
				r.run.Headers = make([][]stream.Header, len(bodies))
				r.run.Headers[len(bodies)/2] = []stream.Header{{Name: "n", Value: rapid.String().Draw(t, "value")}}
			}
			runs = append(runs, r)
			next += stream.Offset(len(bodies))
		}
	}
	return runs
}

// packedRoundTrip is what a packer is for: what it was given is read back.
func packedRoundTrip(t *rapid.T) {
	runs := drawRuns(t)
	packed := pack(t, runs)
	require.Equal(t, recordsOf(runs), decodeAll(t, packed.Object))
	checkBlocks(t, packed.Object)
	checkPlaces(t, packed)
	require.Equal(t, packed.Object, pack(t, cutUp(t, runs)).Object, "how records were cut into runs has no part in it")
}

// cutUp is the same records in smaller runs.
func cutUp(t *rapid.T, runs []packedRun) (out []packedRun) {
	for _, r := range runs {
		for from := 0; from < r.run.Len(); {
			to := rapid.IntRange(from+1, r.run.Len()).Draw(t, "to")
			out = append(out, packedRun{r.id, r.run.Slice(from, to)})
			from = to
		}
	}
	return out
}

// checkPlaces checks what blocks say of their records, one by one and in runs.
func checkPlaces(t require.TestingT, packed *Packed) {
	index, err := ParseObject(packed.Object)
	require.NoError(t, err)
	require.Len(t, index.Blocks, packed.Blocks)
	require.Equal(t, packed.ID, index.ID())
	oldest, newest := stream.Time(1<<62), stream.Time(-1<<62)
	for _, info := range index.Blocks {
		b, err := DecodeBlock(info, packed.Object[info.Position:][:info.Length])
		require.NoError(t, err)
		require.True(t, b.Packed())
		for ordinal := b.First(); b.Has(ordinal); {
			run := b.Run(ordinal, b.Len())
			require.Equal(t, b.Base()+stream.Offset(ordinal-b.First()), run.First)
			for i := range uint32(run.Len()) {
				require.Equal(t, run.Time, b.TimeOf(ordinal+i))
			}
			ordinal += uint32(run.Len())
			require.True(t, !b.Has(ordinal) || b.TimeOf(ordinal) != run.Time, "a run goes on while the time is the same")
			oldest, newest = min(oldest, run.Time), max(newest, run.Time)
		}
	}
	require.Equal(t, []stream.Time{oldest, newest}, []stream.Time{packed.Oldest, packed.Newest})
}

func TestPackedRoundTrip(t *testing.T) { rapid.Check(t, packedRoundTrip) }

func FuzzPackedRoundTrip(f *testing.F) {
	f.Add([]byte("picomq"))
	f.Fuzz(rapid.MakeFuzz(packedRoundTrip))
}

// TestRecordsMoveFromSegmentToSegment packs what the writer wrote, and packs the
// result again.
func TestRecordsMoveFromSegmentToSegment(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGroup()
		for range rapid.IntRange(1, 8).Draw(t, "appends") {
			a := drawAppend(t)
			a.Stream, a.Name = a.Stream+1, ""
			g.add(a, a.bytes(), g.opened)
		}
		source := Encode(someone(), 3, g.ordered()).Object
		want := decodeAll(t, source)
		once := repack(t, source)
		for i, r := range decodeAll(t, once) {
			require.Equal(t, stream.Time(17), r.time)
			r.offset, r.time = 0, 0
			require.Equal(t, want[i], r)
		}
		require.Equal(t, once, repack(t, once), "packing changes nothing but what is said of the records")
	})
}

// repack copies all records of a segment, those of one stream end to end.
func repack(t require.TestingT, object []byte) []byte {
	index, err := Verify(object)
	require.NoError(t, err)
	p := newPacker(t, 16<<20)
	next := make(map[stream.ID]stream.Offset)
	for _, info := range index.Blocks {
		b, err := DecodeBlock(info, object[info.Position:][:info.Length])
		require.NoError(t, err)
		for ordinal := info.First; b.Has(ordinal); {
			run := b.Run(ordinal, 3)
			if !b.Packed() {
				run.First, run.Time = next[info.Stream], 17
			}
			_, err := p.Add(info.Stream, run)
			require.NoError(t, err)
			ordinal += uint32(run.Len())
			next[info.Stream] = run.First + stream.Offset(run.Len())
		}
	}
	return p.Seal().Object
}

func TestAPackerTakesARunWholeOrNotAtAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(minPackedBytes, 400_000).Draw(t, "limit")
		p := newPacker(t, limit)
		var taken []packedRun
		for _, r := range drawRuns(t) {
			records, bytes := p.Records(), p.Bytes()
			surely := p.Fits(1, r.run.Len(), ownBytes(&r.run))
			_, err := p.Add(r.id, r.run)
			if err != nil {
				require.ErrorIs(t, err, ErrPackerFull)
				require.False(t, surely)
				require.Equal(t, records, p.Records())
				require.Equal(t, bytes, p.Bytes())
				require.Greater(t, bytes+ownBytes(&r.run)+r.run.Len()+4*runBytes, limit*98/100, "and it was nearly full")
				continue
			}
			taken = append(taken, r)
		}
		packed := p.Seal()
		if len(taken) == 0 {
			require.Nil(t, packed)
			return
		}
		require.LessOrEqual(t, len(packed.Object), limit)
		require.Equal(t, recordsOf(taken), decodeAll(t, packed.Object))
	})
}

// ownBytes is what the records of a run take in a block.
func ownBytes(run *stream.Run) int {
	n := len(run.Bodies) + endBytes*run.Len()
	for i := range run.Headers {
		n += headersBytes(run.Headers[i])
	}
	return n
}

func TestWhatFitsTogetherIsTakenTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPacker(t, rapid.IntRange(minPackedBytes, 1<<20).Draw(t, "limit"))
		runs := drawRuns(t)
		for len(runs) > 0 {
			n := rapid.IntRange(1, len(runs)).Draw(t, "together")
			records, bytes := 0, 0
			for _, r := range runs[:n] {
				records, bytes = records+r.run.Len(), bytes+ownBytes(&r.run)
			}
			if p.Fits(n, records, bytes) {
				for _, r := range runs[:n] {
					_, err := p.Add(r.id, r.run)
					require.NoError(t, err)
				}
			}
			runs = runs[n:]
		}
	})
}

// TestTheBoundHolds packs what needs most beside its bytes into the least bound
// that Fits admits it to.
func TestTheBoundHolds(t *testing.T) {
	withHeader := func(n int, value string) packedRun { // n empty records, the last with a header
		r := runOf(1, 0, 1, make([]string, n)...)
		r.run.Headers = make([][]stream.Header, n)
		r.run.Headers[n-1] = []stream.Header{{Name: "n", Value: value}}
		return r
	}
	var apart []packedRun // the same, in many runs
	for whole := withHeader(6000, ""); len(apart) < 60; {
		from := 100 * len(apart)
		apart = append(apart, packedRun{whole.id, whole.run.Slice(from, from+100)})
	}
	halves := make([]string, 200)
	for i := range halves {
		halves[i] = fill64(MaxBlockBytes/2 + 1)
	}
	for name, runs := range map[string][]packedRun{
		"headers of the last record":          {withHeader(6000, "")},
		"headers of a record that is cut off": {withHeader(13_000, fill64(6000))},
		"no headers after headers":            {withHeader(1, ""), runOf(1, 1, 1, make([]string, 6000)...)},
		"headers of the last run":             apart,
		"a block for each record":             {runOf(1, 0, 1, halves...)},
		"a record larger than a block":        {runOf(1, 0, 1, "a", fill64(3*MaxBlockBytes), "b")},
	} {
		t.Run(name, func(t *testing.T) {
			take := func(limit int) *Packed {
				p := newPacker(t, limit)
				for _, r := range runs {
					if _, err := p.Add(r.id, r.run); err != nil {
						return nil
					}
				}
				return p.Seal()
			}
			least := sort.Search(8<<20, func(limit int) bool { return limit >= minPackedBytes && take(limit) != nil })
			packed := take(least)
			require.LessOrEqual(t, len(packed.Object), least)
			require.Greater(t, len(packed.Object), least*2/3)
			require.Equal(t, recordsOf(runs), decodeAll(t, packed.Object))
			checkBlocks(t, packed.Object)
		})
	}
}

func TestAPackerIsFullAtItsBlocks(t *testing.T) {
	p := newPacker(t, 64<<20)
	taken := 0
	for dense := uint64(1); ; dense++ {
		if _, err := p.Add(stream.MakeID(0, dense), runOf(dense, 5, 9, "x").run); err != nil {
			require.ErrorIs(t, err, ErrPackerFull)
			break
		}
		taken++
	}
	packed := p.Seal()
	assert.LessOrEqual(t, packed.Blocks, MaxPackedBlocks)
	assert.Greater(t, packed.Blocks, MaxPackedBlocks-4)
	index, err := Verify(packed.Object)
	require.NoError(t, err)
	assert.Equal(t, uint32(taken), index.Records)
}

func TestAPackerKeepsNothingOfARun(t *testing.T) {
	for _, bytes := range []int{10, MaxBlockBytes, 3 * MaxBlockBytes} {
		first, second := runOf(1, 0, 1, fill64(bytes)), runOf(1, 1, 1, fill64(bytes))
		want := pack(t, []packedRun{first, second}).Object
		p := newPacker(t, 1<<20)
		for _, r := range []packedRun{first, second} {
			_, err := p.Add(r.id, r.run)
			require.NoError(t, err)
			clear(r.run.Bodies)
			clear(r.run.Ends)
		}
		assert.Equal(t, want, p.Seal().Object, "%d bytes", bytes)
	}
}

func TestWrongRunsAreRefused(t *testing.T) {
	tooMany := runOf(1, 10, 1, "x")
	tooMany.run.Headers = [][]stream.Header{make([]stream.Header, MaxHeaders+1)}
	for name, r := range map[string]packedRun{
		"no stream":        runOf(0, 10, 1, "x"),
		"no record":        runOf(1, 10, 1),
		"backwards":        runOf(1, 9, 1, "x"),
		"beyond the end":   runOf(1, stream.MaxOffset, 1, "x"),
		"an offset's wrap": runOf(1, 1<<64-1, 1, "x"),
		"headers":          tooMany,
	} {
		p := newPacker(t, 1<<20)
		_, err := p.Add(stream.MakeID(0, 1), runOf(1, 9, 1, "a").run)
		require.NoError(t, err)
		_, err = p.Add(r.id, r.run)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, ErrPackerFull)
		assert.Equal(t, uint32(1), p.Records(), name)
	}
}

func TestPackersAreBounded(t *testing.T) {
	for _, maxBytes := range []int{-1, 0, minPackedBytes - 1, MaxObjectBytes + 1} {
		_, err := NewPacker(someone(), 1, maxBytes)
		require.Error(t, err)
	}
	_, err := NewPacker(someone(), 0, 1<<20)
	require.Error(t, err)
	p := newPacker(t, 1<<20)
	assert.Nil(t, p.Seal())
	_, err = p.Add(1, runOf(1, 0, 1, "x").run)
	require.ErrorIs(t, err, ErrPackerFull, "sealed")
}
