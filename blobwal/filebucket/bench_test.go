package filebucket

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/drivertest"
)

// BenchmarkPut makes durable create-only puts, as the WAL does, in one directory.
func BenchmarkPut(b *testing.B) {
	for _, size := range []int{4 << 10, 1 << 20} {
		for _, ways := range []int{1, 16} {
			b.Run(fmt.Sprintf("%dKiB/%d-way", size>>10, ways), func(b *testing.B) {
				benchmarkPut(b, size, ways)
			})
		}
	}
}

func benchmarkPut(b *testing.B, size, ways int) {
	bucket := openTest(b, b.TempDir())
	data := bytes.Repeat([]byte{0xa5}, size)
	var next atomic.Int64
	put := func() error {
		key := fmt.Sprintf("log/0/node/1/%016x", next.Add(1))
		return bucket.Upload(context.Background(), key, bytes.NewReader(data), createOnly())
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	b.SetParallelism(max(1, ways/runtime.GOMAXPROCS(0)))
	b.ResetTimer()
	if ways == 1 {
		for b.Loop() {
			if err := put(); err != nil {
				b.Fatal(err)
			}
		}
		return
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := put(); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkDriver(b *testing.B) { drivertest.RunBenchmarks(b, openTest(b, b.TempDir())) }

// createOnly are the options of every put that PicoMQ makes.
func createOnly() *blob.WriterOptions {
	return &blob.WriterOptions{ContentType: defaultContentType, IfNotExist: true}
}

func openTest(t testing.TB, dir string) *blob.Bucket {
	t.Helper()
	return openTapped(t, dir, nil)
}

// openTapped opens the bucket in dir with tap before every step.
func openTapped(t testing.TB, dir string, tap func(call) error) *blob.Bucket {
	t.Helper()
	return openOn(t, dir, disk{tap: tap})
}

// openOn opens the bucket in dir with d for its system calls.
func openOn(t testing.TB, dir string, d disk) *blob.Bucket {
	t.Helper()
	driver, err := openBucket(dir, nil, d)
	if err != nil {
		t.Fatal(err)
	}
	bucket := blob.NewBucket(driver)
	t.Cleanup(func() { _ = bucket.Close() })
	return bucket
}
