package statemachine

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

// The budgets that ARCHITECTURE.md promises are of a state of a million
// streams: run with -bench . and read the metric that each benchmark reports.
const (
	benchStreams = 1_000_000
	benchAppends = 1_000 // in one commit
)

// log builds entries as one node would propose them.
type log struct {
	index    commands.Index
	seq      uint64
	sequence uint64
}

var benchIncarnation = commands.Incarnation{1}

// entry is the next entry with one proposal of node 1.
func (l *log) entry(cmds ...commands.Command) *commands.Entry {
	l.index++
	origin := commands.RegistrationOrigin(benchIncarnation)
	if l.index > 1 {
		l.seq++
		origin = commands.Origin{Node: 1, Epoch: 1, Seq: l.seq}
	}
	now := stream.Time(l.index) * 10
	return &commands.Entry{Index: l.index, DatabaseTime: now, Payload: commands.Payload{
		Clock: now, Proposals: []commands.Proposal{{Origin: origin, Commands: cmds}},
	}}
}

func (l *log) register() *commands.Entry {
	return l.entry(&commands.RegisterNode{Incarnation: benchIncarnation, Level: firstLevel})
}

func (l *log) commit(appends []commands.Append) *commands.Entry {
	l.sequence++
	return l.entry(commands.NewCommitSegment(l.sequence, 1<<30, appends, nil))
}

// pack makes a segment known that holds records of some time.
func (l *log) pack(oldest, newest stream.Time) *commands.Pack {
	l.sequence++
	return &commands.Pack{Sequence: l.sequence, Size: 1 << 25, Level: 1, Oldest: oldest, Newest: newest, First: 1, Last: 9}
}

// benchName is a name of 40 bytes; neighbours in the order of creation are not
// neighbours in the order of names.
func benchName(i int) stream.Name {
	return stream.Name(fmt.Sprintf("tenants/%04d/agents/%08x/events/log", i%997, i))
}

// populate makes streams with one extent each.
func populate(tb require.TestingT, streams int) (*State, *log) {
	s, l := New(), &log{}
	s.Apply(l.register())
	for made := 0; made < streams; {
		var appends []commands.Append
		for ; made < streams && len(appends) < benchAppends; made++ {
			appends = append(appends, commands.Append{
				Create:  &commands.Create{Name: benchName(made), Config: stream.Config{ContentType: "application/json"}},
				Records: 1, Bytes: 100,
			})
		}
		out := s.Apply(l.commit(appends))
		require.Equal(tb, Accepted, out.Proposals[0].Results[0].Appends[0].Verdict)
	}
	return s, l
}

// randomAppends is a commit's appends to streams drawn at random, a fifth of
// them drawn from few.
func randomAppends(rng *rand.Rand, streams int, seqs map[stream.ID]uint64) []commands.Append {
	appends := make([]commands.Append, benchAppends)
	for i := range appends {
		dense := uint64(1 + rng.IntN(streams))
		if i%5 == 0 {
			dense = uint64(1 + rng.IntN(min(streams, 100)))
		}
		a := commands.Append{ID: stream.MakeID(0, dense), Records: 1, Bytes: 120}
		if seqs != nil {
			a.HasProducer = true
			a.Producer = stream.Producer{ID: fmt.Sprintf("producer-%d", dense%1000), Seq: seqs[a.ID]}
			seqs[a.ID]++
		}
		appends[i] = a
	}
	return appends
}

// BenchmarkApply decodes and applies commits of 1,000 appends to a million
// streams. Budget: 500,000 appends a second, 250,000 with producers.
func BenchmarkApply(b *testing.B) {
	for _, producers := range []bool{false, true} {
		b.Run(fmt.Sprintf("producers=%v", producers), func(b *testing.B) {
			s, l := populate(b, benchStreams)
			rng := rand.New(rand.NewPCG(1, 2))
			var seqs map[stream.ID]uint64
			if producers {
				seqs = make(map[stream.ID]uint64)
			}
			accepted := 0
			b.ResetTimer()
			for b.Loop() {
				b.StopTimer()
				e := l.commit(randomAppends(rng, benchStreams, seqs))
				payload := e.Encode()
				b.StartTimer()
				decoded, err := commands.DecodePayload(payload)
				if err != nil {
					b.Fatal(err)
				}
				out := s.Apply(&commands.Entry{Index: e.Index, DatabaseTime: e.DatabaseTime, Payload: decoded})
				_ = s.Digest()
				b.StopTimer()
				for _, a := range out.Proposals[0].Results[0].Appends {
					if a.Verdict == Accepted {
						accepted++
					}
				}
				b.StartTimer()
			}
			require.Equal(b, b.N*benchAppends, accepted)
			b.ReportMetric(float64(accepted)/b.Elapsed().Seconds(), "appends/s")
		})
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkHeap measures what lives. Budget: 250 bytes per idle stream with a
// name of 40 bytes and one extent, 24 per further extent, 64 per producer.
func BenchmarkHeap(b *testing.B) {
	const streams, extents, producers = 200_000, 20, 8
	for b.Loop() {
		appends := make([]commands.Append, streams/10)
		before := liveHeap()
		s, l := populate(b, streams)
		idle := liveHeap()
		b.ReportMetric(float64(idle-before)/streams, "B/stream")

		for range extents {
			for i := range appends {
				appends[i] = commands.Append{ID: stream.MakeID(0, uint64(1+10*i)), Records: 1, Bytes: 10}
			}
			s.Apply(l.commit(appends))
		}
		appended := liveHeap()
		b.ReportMetric(float64(appended-idle)/float64(len(appends)*extents), "B/extent")

		for p := range producers {
			for i := range appends {
				appends[i].HasProducer, appends[i].Producer = true, stream.Producer{ID: fmt.Sprintf("producer-%d", p)}
			}
			s.Apply(l.commit(appends))
		}
		produced := liveHeap()
		grown := float64(produced-appended) - float64(len(appends)*producers*24)
		b.ReportMetric(grown/float64(len(appends)*producers), "B/producer")
		runtime.KeepAlive(s)
	}
}

// BenchmarkSnapshotStall applies commits of 1,000 appends to a million streams
// before a snapshot of them, after it has begun and before it is encoded (when
// every row that changes must be kept), and while it is encoded. The last shares
// the processors with the encoder. Budget: 5 ms apart.
func BenchmarkSnapshotStall(b *testing.B) {
	s, l := populate(b, benchStreams)
	rng := rand.New(rand.NewPCG(1, 2))
	apply := func() time.Duration {
		e := l.commit(randomAppends(rng, benchStreams, nil))
		start := time.Now()
		s.Apply(e)
		return time.Since(start)
	}
	report := func(when string, took []time.Duration) {
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), when+"-median-µs")
		b.ReportMetric(float64(took[len(took)*9/10].Microseconds()), when+"-p90-µs")
	}
	for b.Loop() {
		var before, begun, encoding []time.Duration
		for range 300 {
			before = append(before, apply())
		}
		p := s.BeginSnapshot()
		for range 100 {
			begun = append(begun, apply())
		}
		encoded := make(chan error, 1)
		go func() { encoded <- p.Encode(io.Discard) }()
		for len(encoded) == 0 {
			encoding = append(encoding, apply())
		}
		require.NoError(b, <-encoded)
		all := slices.Concat(begun, encoding)
		for _, took := range [][]time.Duration{before, begun, encoding, all} {
			slices.Sort(took)
		}
		// What else the machine does is in both.
		stall := all[len(all)*99/100] - before[len(before)*99/100]
		b.ReportMetric(float64(max(stall, 0).Microseconds()), "stall-p99-µs")
		report("before", before)
		report("begun", begun)
		report("encoding", encoding)
	}
}

// BenchmarkRead reads streams and their extents while entries are applied, and
// reports the slow ones. Budget: a millisecond.
func BenchmarkRead(b *testing.B) {
	s, l := populate(b, benchStreams)
	rng := rand.New(rand.NewPCG(1, 2))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				s.Apply(l.commit(randomAppends(rng, benchStreams, nil)))
			}
		}
	}()
	v := s.View()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		id := stream.ID(1 + i%100) // those appended to most
		st, _ := v.Stream(id)
		v.Extents(id, st.Tail-min(st.Tail, 10), 10)
		took = append(took, time.Since(start))
	}
	close(stop)
	<-stopped
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*999/1000].Nanoseconds())/1000, "p99.9-µs")
}

// BenchmarkRestore reads a snapshot of a million streams. Budget: 3 s.
func BenchmarkRestore(b *testing.B) {
	s, _ := populate(b, benchStreams)
	var snapshot bytes.Buffer
	require.NoError(b, s.BeginSnapshot().Encode(&snapshot))
	s = nil
	runtime.GC()
	for b.Loop() {
		if _, err := Restore(bytes.NewReader(snapshot.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(snapshot.Len())/benchStreams, "B/stream")
}
