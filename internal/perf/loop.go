package main

import (
	"io"
	"net"
	"net/http"
	"sync"
)

// loop is the least that gives many readers the same bytes: their sockets, and a
// loop that writes to one after the other. GET makes a socket a reader's; POST
// writes its body to all of them, once it is acknowledged.
type loop struct {
	mu      sync.Mutex
	readers map[net.Conn]struct{}
}

func newLoop() *loop { return &loop{readers: make(map[net.Conn]struct{})} }

// attached tells a reader that it is one, as an event stream's first event does.
const attached = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nevent: control\n\n\r\n"

func (l *loop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		l.attach(w)
		return
	}
	event, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusNoContent)
	if err := http.NewResponseController(w).Flush(); err != nil {
		panic(http.ErrAbortHandler)
	}
	l.write(event)
}

func (l *loop) attach(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readers[conn] = struct{}{}
	go l.release(conn)
	_, _ = io.WriteString(conn, attached)
}

// release closes a socket when its reader has gone.
func (l *loop) release(conn net.Conn) {
	_, _ = io.Copy(io.Discard, conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.readers, conn)
	_ = conn.Close()
}

func (l *loop) write(event []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.readers {
		_, _ = conn.Write(event) // one that has gone is released
	}
}
