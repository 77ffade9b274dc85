package blobwal_test

import (
	"context"
	"fmt"

	"gocloud.dev/blob/memblob"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/stream"
)

// A node writes two appends of one stream, and a reader that knows only the
// segment's key and size finds a record by its ordinal.
func Example() {
	ctx := context.Background()
	bucket := memblob.OpenBucket(nil)
	defer func() { _ = bucket.Close() }()

	cluster, err := blobwal.EnsureIdentity(ctx, bucket, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	identity := blobwal.Identity{Cluster: cluster, Node: 1, Epoch: 7, Incarnation: [16]byte{42}}
	if err := blobwal.WriteMarker(ctx, bucket, identity); err != nil {
		fmt.Println(err)
		return
	}

	var segments []*blobwal.Sealed
	w, err := blobwal.NewWriter(blobwal.WriterConfig{
		Bucket: bucket, Identity: identity,
		Sealed: func(s *blobwal.Sealed) {
			segments = append(segments, s)
			s.Decided()
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, bodies := range [][]string{{"a", "b"}, {"c"}} {
		a := &blobwal.Append{Stream: stream.MakeID(0, 1)}
		for _, body := range bodies {
			a.Records = append(a.Records, stream.Record{Body: []byte(body)})
		}
		if err := w.Add(a); err != nil {
			fmt.Println(err)
		}
	}
	if err := w.Close(ctx); err != nil {
		fmt.Println(err)
	}

	for _, s := range segments {
		index, err := blobwal.ReadIndex(ctx, bucket, s.Key, s.Size)
		if err != nil {
			fmt.Println(err)
			return
		}
		info, _ := index.Find(0)
		blocks, err := blobwal.ReadBlocks(ctx, bucket, s.Key, index, int(info.Number), int(info.Number)+1)
		if err != nil {
			fmt.Println(err)
			return
		}
		run := blocks[0].Run(0, blocks[0].Len())
		for i := range run.Len() {
			fmt.Printf("segment %v has %s\n", s.ID, run.Body(i))
		}
	}
	// Output:
	// segment 0/1/7/1 has a
	// segment 0/1/7/1 has b
	// segment 0/1/7/2 has c
}

// Records of two segments are packed into one, which says of each record where
// in its stream it is and when it was appended.
func ExamplePacker() {
	identity := blobwal.Identity{Node: 1, Epoch: 7}
	id := stream.MakeID(0, 1)
	p, err := blobwal.NewPacker(identity, 3, 1<<20)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, run := range []stream.Run{ // as [blobwal.Block.Run] gives them, with what the log knows
		{First: 10, Time: 1_000, Bodies: []byte("ab"), Ends: []uint32{1, 2}},
		{First: 12, Time: 2_000, Bodies: []byte("c"), Ends: []uint32{1}},
	} {
		if _, err := p.Add(id, run); err != nil {
			fmt.Println(err)
			return
		}
	}

	packed := p.Seal()
	index, err := blobwal.Verify(packed.Object)
	if err != nil {
		fmt.Println(err)
		return
	}
	info := index.Blocks[0]
	block, err := blobwal.DecodeBlock(info, packed.Object[info.Position:][:info.Length])
	if err != nil {
		fmt.Println(err)
		return
	}
	for ordinal := uint32(0); block.Has(ordinal); {
		run := block.Run(ordinal, block.Len())
		fmt.Printf("%d records from %d on, of time %d: %s\n", run.Len(), run.First, run.Time, run.Bodies)
		ordinal += uint32(run.Len())
	}
	// Output:
	// 2 records from 10 on, of time 1000: ab
	// 1 records from 12 on, of time 2000: c
}
