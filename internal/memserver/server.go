package memserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi"
	"github.com/picomq/picomq/internal/memstreams"
)

// Server is one running server. Its methods are for the test's goroutine,
// except Intercept.
type Server struct {
	Streams *memstreams.Streams
	URL     string

	t         testing.TB
	api       *httpapi.API
	address   string
	server    *http.Server
	served    chan struct{} // closed when server stopped serving
	intercept atomic.Pointer[Intercept]
}

// Intercept handles a request in front of the server, which is next.
type Intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Start runs a server on a free port of the loopback until the test ends. Live
// reads end often, so that every test of them also reconnects, unless its
// configuration is adjusted.
func Start(t testing.TB, adjust ...func(*httpapi.Config)) *Server {
	t.Helper()
	s := &Server{Streams: memstreams.New(), t: t}
	config := httpapi.Config{
		Streams:         s.Streams,
		LongPollTimeout: 300 * time.Millisecond,
		SSEMaxDuration:  500 * time.Millisecond,
	}
	for _, f := range adjust {
		f(&config)
	}
	api, err := httpapi.New(config)
	require.NoError(t, err)
	s.api = api
	s.Restart()
	t.Cleanup(s.Stop)
	return s
}

// Restart serves again at the same address after Stop.
func (s *Server) Restart() {
	s.t.Helper()
	listener, err := s.listen()
	require.NoError(s.t, err)
	s.address = listener.Addr().String()
	s.URL = "http://" + s.address
	server := &http.Server{Handler: http.HandlerFunc(s.handle), ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	s.server, s.served = server, served
	go func() {
		defer close(served)
		_ = server.Serve(listener) // always http.ErrServerClosed, by Stop
	}()
}

const (
	// firstPort and ports are where servers listen: outside of what a kernel gives to
	// connections, which could take the port of one that is stopped.
	firstPort, ports = 20000, 12000
	// portsTried is how many are tried at first: any may be taken.
	portsTried = 5
)

// listen listens at the server's address, or at first at any.
func (s *Server) listen() (listener net.Listener, err error) {
	var config net.ListenConfig
	if s.address != "" {
		return config.Listen(context.Background(), "tcp", s.address)
	}
	for range portsTried {
		listener, err = config.Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(ports)))
		if err == nil {
			break
		}
	}
	return listener, err
}

// Stop ends the server at once, whatever it is doing, as a crash would.
func (s *Server) Stop() {
	_ = s.server.Close()
	<-s.served
}

// Intercept puts f in front of the requests to come; nil takes it away.
func (s *Server) Intercept(f Intercept) {
	if f == nil {
		s.intercept.Store(nil)
		return
	}
	s.intercept.Store(&f)
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	if f := s.intercept.Load(); f != nil {
		(*f)(w, r, s.api.Handler())
		return
	}
	s.api.Handler().ServeHTTP(w, r)
}

// LoseAnswer carries a request out and then breaks the connection instead of
// answering.
func LoseAnswer(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(discard{http.Header{}}, r)
	panic(http.ErrAbortHandler)
}

// discard is a response that nobody sees.
type discard struct{ header http.Header }

// Header implements http.ResponseWriter.
func (d discard) Header() http.Header { return d.header }

// Write implements http.ResponseWriter.
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader implements http.ResponseWriter.
func (discard) WriteHeader(int) {}

// CutAfter passes n bytes of the response's body and then breaks the
// connection.
func CutAfter(n int) Intercept {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		c := &cutter{ResponseWriter: w, left: n}
		next.ServeHTTP(c, r)
		if c.left == 0 {
			panic(http.ErrAbortHandler)
		}
	}
}

var errCut = errors.New("the connection was cut by the test")

type cutter struct {
	http.ResponseWriter
	left int
}

// Write implements http.ResponseWriter.
func (c *cutter) Write(p []byte) (int, error) {
	if len(p) < c.left {
		c.left -= len(p)
		return c.ResponseWriter.Write(p)
	}
	n, _ := c.ResponseWriter.Write(p[:c.left])
	c.left = 0
	_ = http.NewResponseController(c.ResponseWriter).Flush()
	return n, errCut
}

// Unwrap lets response controllers reach the connection.
func (c *cutter) Unwrap() http.ResponseWriter { return c.ResponseWriter }
