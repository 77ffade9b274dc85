package blobwal

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/picomq/picomq/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// someone is the identity that tests write under.
func someone() Identity {
	id := Identity{Log: 0, Node: 7, Epoch: 1042}
	for i := range id.Cluster {
		id.Cluster[i], id.Incarnation[i] = byte(i), byte(0xf0+i)
	}
	return id
}

// to is an append of bodies to a stream.
func to(dense uint64, bodies ...string) *Append {
	return &Append{Stream: stream.MakeID(0, dense), Records: records(bodies...)}
}

// creating is an append that creates its stream.
func creating(name stream.Name, bodies ...string) *Append {
	return &Append{Name: name, Records: records(bodies...)}
}

func records(bodies ...string) []stream.Record {
	out := make([]stream.Record, len(bodies))
	for i, b := range bodies {
		out[i].Body = []byte(b)
	}
	return out
}

// decodeAll is every record of a segment, in ordinal order, with its stream.
func decodeAll(t require.TestingT, object []byte) (out []located) {
	index, err := Verify(object)
	require.NoError(t, err)
	for _, info := range index.Blocks {
		block, err := DecodeBlock(info, object[info.Position:][:info.Length])
		require.NoError(t, err)
		require.Equal(t, int(info.Count), block.Len())
		out = append(out, contents(block)...)
	}
	require.Len(t, out, int(index.Records))
	return out
}

func contents(b *Block) (out []located) {
	for len(out) < b.Len() {
		run := b.Run(b.First()+uint32(len(out)), b.Len())
		for i := range run.Len() {
			r := located{
				stream: b.Info.Stream, name: b.Name, json: b.JSON,
				body: string(run.Body(i)), headers: fmt.Sprint(run.HeadersOf(i)),
			}
			if b.Packed() {
				r.offset, r.time = run.First+stream.Offset(i), run.Time
			}
			out = append(out, r)
		}
	}
	return out
}

type located struct {
	stream  stream.ID
	name    stream.Name
	json    bool
	body    string
	headers string
	offset  stream.Offset // only in packed segments
	time    stream.Time   // only in packed segments
}

// expected is what decodeAll must give for appends in segment order.
func expected(appends []*Append) (out []located) {
	for _, a := range appends {
		k := a.key()
		for _, r := range a.Records {
			out = append(out, located{stream: k.id, name: k.name, json: a.JSON, body: string(r.Body), headers: fmt.Sprint(r.Headers)})
		}
	}
	return out
}

func fill64(n int) string { return string(bytes.Repeat([]byte{'x'}, n)) }
