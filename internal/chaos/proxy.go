package chaos

import (
	"context"
	"net"
	"sync"
)

// proxy passes connections on, those of one node to the database or those of other
// nodes to one, until told to break or to hold them. Its methods are safe for concurrent use.
type proxy struct {
	listener net.Listener
	target   string
	serving  sync.WaitGroup

	mu     sync.Mutex
	pairs  map[*pair]struct{}
	opened chan struct{} // closed while bytes pass
	closed bool
}

// pair is one connection passed on.
type pair struct{ near, far net.Conn }

func (p *pair) close() {
	_ = p.near.Close()
	_ = p.far.Close()
}

// newProxy listens on a free port and passes everything on to target.
func newProxy(ctx context.Context, target string) (*proxy, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, pairs: map[*pair]struct{}{}, opened: make(chan struct{})}
	close(p.opened)
	p.serving.Go(func() { p.accept(context.WithoutCancel(ctx)) })
	return p, nil
}

// address is where the node finds the database.
func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept(ctx context.Context) {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.serving.Go(func() { p.pass(ctx, near) })
	}
}

// pass connects the two ends until either closes.
func (p *proxy) pass(ctx context.Context, near net.Conn) {
	far, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
	if err != nil {
		_ = near.Close() // as the target would refuse
		return
	}
	both := &pair{near: near, far: far}
	if !p.enter(both) {
		both.close()
		return
	}
	defer p.leave(both)
	var copying sync.WaitGroup
	copying.Go(func() { p.copy(both, far, near) })
	copying.Go(func() { p.copy(both, near, far) })
	copying.Wait()
}

// copy moves bytes one way, while none are held.
func (p *proxy) copy(both *pair, to, from net.Conn) {
	defer both.close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		<-p.gate()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *proxy) gate() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

func (p *proxy) enter(both *pair) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.pairs[both] = struct{}{}
	}
	return !p.closed
}

func (p *proxy) leave(both *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, both)
}

// cut breaks every connection, in the middle of whatever it carries. New ones
// are passed on.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for both := range p.pairs {
		both.close()
	}
}

// hold stops every byte, in both directions, of connections old and new, and
// closes nothing: a network that swallows packets.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened = make(chan struct{})
}

// release lets bytes pass again, first those that were held.
func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.opened:
	default:
		close(p.opened)
	}
}

// close ends the proxy and waits for its goroutines.
func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.release()
	p.cut()
	p.serving.Wait()
}
