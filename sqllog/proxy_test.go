package sqllog_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy stands between a log and its server, and breaks what passes.
type proxy struct {
	url string
	// mute swallows the server's answers.
	mute atomic.Bool
	// freeze, when set, is given the next bytes that the log sends, and returns
	// how many of them still pass; nothing does after them.
	freeze atomic.Pointer[func([]byte) int]

	mu    sync.Mutex
	pairs []net.Conn // guarded by mu
}

func startProxy(t *testing.T, server string) *proxy {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	target := u.Host
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	u.Host = listener.Addr().String()
	p := &proxy{url: u.String()}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", target) //nolint:noctx // a test's own server
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.pairs = append(p.pairs, client, server)
			p.mu.Unlock()
			running.Go(func() { _, _ = io.Copy(freezing{p, server}, client); _ = server.Close() })
			running.Go(func() { _, _ = io.Copy(muted{p, client}, server); _ = client.Close() })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		running.Wait()
	})
	return p
}

// muted swallows what is written while its proxy is mute.
type muted struct {
	*proxy
	client net.Conn
}

func (m muted) Write(b []byte) (int, error) {
	if m.mute.Load() {
		return len(b), nil
	}
	return m.client.Write(b)
}

// freezing passes on only what its proxy lets through.
type freezing struct {
	*proxy
	server net.Conn
}

func (f freezing) Write(b []byte) (int, error) {
	pass := len(b)
	if limit := f.freeze.Load(); limit != nil {
		pass = (*limit)(b)
	}
	if _, err := f.server.Write(b[:pass]); err != nil {
		return 0, err
	}
	return len(b), nil
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.pairs {
		_ = c.Close()
	}
	p.pairs = nil
}
