package commands

import (
	"fmt"
	"testing"

	"github.com/picomq/picomq/stream"
)

// BenchmarkCommit lays 1,000 appends out in a command, encodes its row, and
// decodes and walks it as every node does. It counts what that allocates, which is
// of no account for each append.
func BenchmarkCommit(b *testing.B) {
	const appends = 1000
	for _, producers := range []bool{false, true} {
		list := make([]Append, appends)
		for i := range list {
			list[i] = Append{ID: stream.ID(1 + i*7919%100_000), Records: 1, Bytes: 256}
			if producers {
				list[i].HasProducer = true
				list[i].Producer = stream.Producer{ID: fmt.Sprintf("producer-%d", i), Seq: uint64(i)}
			}
		}
		payload := func() Payload {
			commit := NewCommitSegment(7, 1<<20, list, nil)
			return Payload{Clock: 1, Proposals: []Proposal{{Origin: Origin{Node: 1, Epoch: 1, Seq: 1}, Commands: []Command{commit}}}}
		}
		encoded := payload()
		row := encoded.Encode()
		b.Run(fmt.Sprintf("encode/producers=%v", producers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p := payload()
				p.Encode()
			}
			b.ReportMetric(float64(len(row))/appends, "B/append")
		})
		b.Run(fmt.Sprintf("decode/producers=%v", producers), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := DecodePayload(row)
				if err != nil {
					b.Fatal(err)
				}
				it := p.Proposals[0].Commands[0].(*CommitSegment).Appends()
				n := 0
				for a := (Append{}); it.Next(&a); {
					n++
				}
				if n != appends {
					b.Fatal(n)
				}
			}
		})
	}
}
