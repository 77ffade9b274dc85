package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"sync"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/blobwal/filebucket"
)

// storeGroup is how many bytes of bodies are put beside a put under way; fewer
// wait for its end, as in the server.
const storeGroup = 1 << 20

// store is the least that keeps what it is sent: it reads bodies, puts those that
// have come as one object, and answers. There is no log, no format and no check.
type store struct {
	bucket *blob.Bucket

	mu       sync.Mutex // guards all below
	waiting  []*stored
	bytes    int // of those that wait
	puts     int // so far
	underWay int
}

// stored is one body on its way.
type stored struct {
	body []byte
	done chan error
}

// openStore makes the handler, which keeps objects in the working folder, when it
// is needed. It has as many goroutines run beside its puts as the server has.
var openStore = sync.OnceValues(func() (*store, error) {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 4)
	dir, err := os.MkdirTemp(".", "store-")
	if err != nil {
		return nil, err
	}
	bucket, err := filebucket.Open(dir, nil)
	return &store{bucket: bucket}, err
})

// bodyBuffers are used again, as the server's are.
var bodyBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// serveStore answers PUT at once, and anything else when its body is stored.
func serveStore(w http.ResponseWriter, r *http.Request) {
	s, err := openStore()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if r.Method == http.MethodPut {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
		return
	}
	buffer := bodyBuffers.Get().(*bytes.Buffer)
	defer bodyBuffers.Put(buffer)
	buffer.Reset()
	buffer.Grow(int(r.ContentLength) + bytes.MinRead)
	if _, err := buffer.ReadFrom(r.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
	one := &stored{body: buffer.Bytes(), done: make(chan error, 1)}
	s.mu.Lock()
	s.waiting, s.bytes = append(s.waiting, one), s.bytes+len(one.body)
	s.pump()
	s.mu.Unlock()
	if err := <-one.done; err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// pump puts what waits, if it is time. It is called with mu held.
func (s *store) pump() {
	if len(s.waiting) == 0 || s.underWay == ingestUploads || s.underWay > 0 && s.bytes < storeGroup {
		return
	}
	s.underWay++
	s.puts++
	go s.put(fmt.Sprintf("segments/%d", s.puts), s.waiting, s.bytes)
	s.waiting, s.bytes = nil, 0
}

// put stores bodies of so many bytes together.
func (s *store) put(key string, bodies []*stored, size int) {
	object := make([]byte, 0, size)
	for _, one := range bodies {
		object = append(object, one.body...)
	}
	err := s.bucket.Upload(context.Background(), key, bytes.NewReader(object), &blob.WriterOptions{ContentType: "application/octet-stream", IfNotExist: true})
	for _, one := range bodies {
		one.done <- err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.underWay--
	s.pump()
}
