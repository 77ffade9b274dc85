package filebucket

import (
	"path/filepath"
	"sync"
)

// recorder notes every step in order, and can fail or delay one.
type recorder struct {
	mu    sync.Mutex
	calls []call
	// inject, if set, decides about a step; n counts from 0 since the last reset. It
	// is called without the lock.
	inject func(n int, c call) error
}

func (r *recorder) tap(c call) error {
	r.mu.Lock()
	n, inject := len(r.calls), r.inject
	r.calls = append(r.calls, c)
	r.mu.Unlock()
	if inject == nil {
		return nil
	}
	return inject(n, c)
}

// reset forgets the steps so far and sets what decides about the next.
func (r *recorder) reset(inject func(n int, c call) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls, r.inject = nil, inject
}

// trace returns the steps since the last reset.
func (r *recorder) trace() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]call(nil), r.calls...)
}

// power is a slow and obvious model of a device that loses power: it keeps of a
// file what was synced before, and of a directory the entries at its last sync.
type power struct {
	live    map[string]*inode // by path, as programs see it
	durable map[string]*inode // by path, as of the last sync of its directory
}

type inode struct{ synced bool }

// newPower starts from directories that are durable.
func newPower(dirs ...string) *power {
	p := &power{live: map[string]*inode{}, durable: map[string]*inode{}}
	for _, dir := range dirs {
		p.durable[dir] = &inode{synced: true}
		p.live[dir] = p.durable[dir]
	}
	return p
}

// play makes the steps of a trace happen.
func (p *power) play(trace []call) *power {
	for _, c := range trace {
		p.step(c)
	}
	return p
}

func (p *power) step(c call) {
	switch c.step {
	case stepCreate:
		p.live[c.path] = &inode{}
	case stepWrite:
		p.live[c.path].synced = false
	case stepSyncFile:
		if node := p.live[c.path]; node != nil {
			node.synced = true
		}
	case stepMkdir:
		if p.live[c.path] == nil {
			p.live[c.path] = &inode{synced: true}
		}
	case stepLink:
		if p.live[c.path] == nil {
			p.live[c.path] = p.live[c.from]
		}
	case stepRename:
		p.live[c.path] = p.live[c.from]
		delete(p.live, c.from)
	case stepUnlink:
		delete(p.live, c.path)
	case stepSyncDir:
		p.syncDir(c.path)
	case stepClose, stepOpenDir, stepReadDir:
	}
}

func (p *power) syncDir(dir string) {
	for path := range p.durable {
		if filepath.Dir(path) == dir && path != dir {
			delete(p.durable, path)
		}
	}
	for path, node := range p.live {
		if filepath.Dir(path) == dir && path != dir {
			p.durable[path] = node
		}
	}
}

// survives reports whether the object at path, below root, is whole after a loss
// of power now.
func (p *power) survives(root, path string) bool {
	for at := path; at != root; at = filepath.Dir(at) {
		if node := p.durable[at]; node == nil || !node.synced {
			return false
		}
	}
	return true
}
