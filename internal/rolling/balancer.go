package rolling

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// lookEvery is how often a balancer asks a node whether it is ready.
	lookEvery = 100 * time.Millisecond
	// lookTakes is after how long it counts as not ready without an answer: long, so
	// that a busy machine does not look like three nodes that are gone.
	lookTakes = 30 * time.Second
)

// Node is where a balancer finds a node.
type Node struct{ URL, AdminURL string }

// BalancerConfig says how a balancer behaves.
type BalancerConfig struct {
	Nodes []Node
	Blind bool // it asks no node whether it is ready, and sends to all
	HTTP2 bool // it speaks HTTP/2 to the nodes, without TLS, in place of HTTP/1.1
}

// Balancer sends every request to the next node in turn, over connections that it
// keeps, once: when that fails it answers 502, and 503 when no node is ready. It is
// safe for concurrent use.
type Balancer struct {
	URL string

	backends []*backend
	turn     atomic.Uint64
	server   *http.Server
	pool     *http.Transport
	looking  sync.WaitGroup
	cancel   context.CancelFunc
}

// backend is a node behind a balancer.
type backend struct {
	ready   atomic.Bool
	address Node
	proxy   *httputil.ReverseProxy
}

// Balance starts a balancer on a free port. The caller closes it.
func Balance(ctx context.Context, c BalancerConfig) (*Balancer, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a balancer: %w", err)
	}
	b := &Balancer{URL: "http://" + listener.Addr().String(), pool: &http.Transport{MaxIdleConnsPerHost: 100, Protocols: new(http.Protocols)}}
	b.pool.Protocols.SetHTTP1(!c.HTTP2)
	b.pool.Protocols.SetUnencryptedHTTP2(c.HTTP2)
	ctx, b.cancel = context.WithCancel(ctx)
	for _, node := range c.Nodes {
		target, err := url.Parse(node.URL)
		if err != nil {
			return nil, fmt.Errorf("start a balancer: %w", err)
		}
		to := &backend{address: node, proxy: &httputil.ReverseProxy{
			Transport: b.pool,
			Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
			ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
				http.Error(w, fmt.Sprintf("%s %s at %s: %v", r.Method, r.URL, node.URL, err), http.StatusBadGateway)
			},
		}}
		to.ready.Store(true)
		b.backends = append(b.backends, to)
		if !c.Blind {
			b.looking.Go(func() { to.look(ctx) })
		}
	}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	go func() { _ = b.server.Serve(listener) }() // until Close
	return b, nil
}

// Close ends the balancer, and breaks off what is under way.
func (b *Balancer) Close() {
	b.cancel()
	_ = b.server.Close()
	b.looking.Wait()
	b.pool.CloseIdleConnections()
}

func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for range b.backends {
		to := b.backends[b.turn.Add(1)%uint64(len(b.backends))]
		if to.ready.Load() {
			to.proxy.ServeHTTP(w, r)
			return
		}
	}
	http.Error(w, "no node is ready", http.StatusServiceUnavailable)
}

// Sends tells whether the balancer sends requests to its i-th node now.
func (b *Balancer) Sends(i int) bool { return b.backends[i].ready.Load() }

// look asks the node again and again whether it is ready.
func (to *backend) look(ctx context.Context) {
	client := &http.Client{Timeout: lookTakes, Transport: &http.Transport{DisableKeepAlives: true}}
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		to.ready.Store(isReady(ctx, client, to.address.AdminURL))
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func isReady(ctx context.Context, client *http.Client, adminURL string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, adminURL+"/ready", http.NoBody)
	if err != nil {
		return false
	}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
