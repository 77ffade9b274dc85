package wire_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// benchRecords are a thousand log lines of 200 bytes, as a reader gets them.
func benchRecords() []stream.Record {
	records := make([]stream.Record, 1000)
	for i := range records {
		records[i].Body = []byte(strings.Repeat(`GET /some/path "Mozilla/5.0" é 200 1234 - `, 5)[:200])
	}
	return records
}

func BenchmarkEncodeJSONRead(b *testing.B) {
	runs := []stream.Run{runOf(1000, 1_700_000_000_000, false, benchRecords())}
	dst := wire.EncodeJSONRead(nil, runs)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = wire.EncodeJSONRead(dst[:0], runs)
	}
}

func BenchmarkDecodeJSONAppend(b *testing.B) {
	batch := wire.EncodeJSONAppend(nil, benchRecords())
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeJSONAppend(batch, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeBinaryRead(b *testing.B) {
	runs := []stream.Run{runOf(1000, 1_700_000_000_000, false, benchRecords())}
	dst := wire.EncodeBinaryRead(nil, runs)
	b.SetBytes(int64(len(dst)))
	b.ReportAllocs()
	for b.Loop() {
		dst = wire.EncodeBinaryRead(dst[:0], runs)
	}
}

func BenchmarkDecodeBinaryAppend(b *testing.B) {
	batch := wire.EncodeBinaryAppend(nil, benchRecords())
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.DecodeBinaryAppend(batch, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEventReader(b *testing.B) {
	var text []byte
	for range 1000 {
		text = append(text, event("data", "7", strings.Repeat("x", 200))...)
	}
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		reader := wire.NewEventReader(bytes.NewReader(text), 1<<20)
		for {
			if _, err := reader.Next(); err != nil {
				break
			}
		}
	}
}
