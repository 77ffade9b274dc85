package blobwal

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

// BenchmarkPack packs the blocks of a written segment over and over, until a
// packed one of 16 MiB is full: what compaction does, without the bucket.
func BenchmarkPack(b *testing.B) {
	for _, s := range []struct {
		appends, streams, bytes int
		headers                 bool
	}{{1000, 1000, 100, false}, {1000, 10, 100, false}, {1000, 10, 4096, false}, {40, 1, 100_000, false}, {1000, 10, 4096, true}} {
		b.Run(fmt.Sprintf("appends=%d/streams=%d/bytes=%d/headers=%v", s.appends, s.streams, s.bytes, s.headers), func(b *testing.B) {
			appends := shape{s.appends, s.streams, 1, s.bytes}.laidOut()
			if s.headers {
				for _, a := range appends {
					a.Records[0].Headers = []stream.Header{{Name: "content-type", Value: "text/plain"}}
				}
			}
			source := Encode(someone(), 1, appends).Object
			blocks := allBlocks(b, source)
			size := packUntilFull(b, blocks)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				packUntilFull(b, blocks)
			}
		})
	}
}

func allBlocks(t require.TestingT, object []byte) (blocks []*Block) {
	index, err := ParseObject(object)
	require.NoError(t, err)
	for _, info := range index.Blocks {
		block, err := DecodeBlock(info, object[info.Position:][:info.Length])
		require.NoError(t, err)
		blocks = append(blocks, block)
	}
	return blocks
}

func packUntilFull(b *testing.B, blocks []*Block) int {
	p, err := NewPacker(someone(), 1, 16<<20)
	if err != nil {
		b.Fatal(err)
	}
	next := stream.Offset(0)
	for i := 0; ; i++ {
		block := blocks[i%len(blocks)]
		run := block.Run(block.First(), block.Len())
		run.First, run.Time = next, stream.Time(i)
		next += stream.Offset(run.Len())
		if _, err := p.Add(block.Info.Stream, run); errors.Is(err, ErrPackerFull) {
			return len(p.Seal().Object)
		} else if err != nil {
			b.Fatal(err)
		}
	}
}
