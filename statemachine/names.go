package statemachine

import (
	"strings"
	"sync"

	"github.com/tidwall/btree"

	"github.com/picomq/picomq/stream"
)

// names maps names to ids in byte order. Appends never touch it.
type names struct {
	mu   sync.RWMutex // guards tree
	tree btree.Map[string, stream.ID]
}

func (n *names) get(name string) (stream.ID, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.tree.Get(name)
}

func (n *names) set(name string, id stream.ID) {
	n.mu.Lock()
	n.tree.Set(name, id)
	n.mu.Unlock()
}

func (n *names) remove(name string) {
	n.mu.Lock()
	n.tree.Delete(name)
	n.mu.Unlock()
}

// bound is a name and what it is bound to.
type bound struct {
	name string
	id   stream.ID
}

// maxListed bounds the room that is made for a page before its names are found.
const maxListed = 1024

// page is up to limit names that begin with prefix and come after a name, and
// whether more follow. It costs what it returns, not what the prefix holds.
func (n *names) page(prefix, after string, limit int) (page []bound, more bool) {
	page = make([]bound, 0, min(limit, maxListed))
	from := prefix
	if after >= prefix {
		from = after + "\x00" // the least name above it
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	n.tree.Ascend(from, func(name string, id stream.ID) bool {
		if !strings.HasPrefix(name, prefix) {
			return false
		}
		if len(page) == limit {
			more = true
			return false
		}
		page = append(page, bound{name, id})
		return true
	})
	return page, more
}
