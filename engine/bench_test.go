package engine_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

// BenchmarkAppend is what an append costs behind the protocols when 256 are
// under way at a time: from the request to its answer, its share of segment,
// row and apply included. Bucket and log are in memory, and what they keep
// counts.
func BenchmarkAppend(b *testing.B) {
	n := newWorld(b).start(nil)
	n.create(b, "a", "text/plain")
	body := make([]byte, 256)
	b.ReportAllocs()
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := n.Append(b.Context(), "a", &stream.AppendRequest{ContentType: "text/plain", Records: []stream.Record{{Body: body}}})
			require.NoError(b, err)
		}
	})
}

// BenchmarkCreate is the same of creates without records.
func BenchmarkCreate(b *testing.B) {
	n := newWorld(b).start(nil)
	var made atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			name := stream.Name(strconv.AppendInt([]byte("tenants/"), made.Add(1), 10))
			_, err := n.Create(b.Context(), name, &stream.CreateRequest{Config: stream.Config{ContentType: "text/plain"}})
			require.NoError(b, err)
		}
	})
}
