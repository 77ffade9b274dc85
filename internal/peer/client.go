package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/picomq/picomq/blobwal"
)

// Config configures a [Client]. Cluster, Secret and Address are required.
type Config struct {
	Cluster [16]byte
	Secret  string
	// Address is where the node of an epoch is reached, such as
	// http://10.0.0.2:4439; empty: it is not to be asked. It is called for each
	// question, and on any goroutine.
	Address func(node uint32, epoch uint64) string
	// Timeout bounds one question with its answer. Default 500 ms.
	Timeout time.Duration
	// Logger is told when a node is not asked any more, and when it is again.
	// Default: nobody.
	Logger *slog.Logger
	// Now is the clock. Default time.Now.
	Now func() time.Time
}

const (
	// tolerated is how many failures in a row it takes not to ask a node for a while.
	tolerated    = 3
	leastPause   = time.Second
	longestPause = time.Minute

	idleConnections = 8
	idleTimeout     = time.Minute
)

// Client asks other nodes for their recent segments. It implements what blockcache
// wants of peers, and is safe for concurrent use.
type Client struct {
	config Config
	http   *http.Client
	hits   atomic.Uint64
	misses atomic.Uint64
	errors atomic.Uint64
	spared atomic.Uint64

	mu    sync.Mutex
	peers map[start]*peer // of nodes that have an address, at most maxPeers
}

// maxPeers bounds what is remembered of starts of nodes; beyond it all is forgotten,
// which costs some questions.
const maxPeers = 1024

// start is one start of a node.
type start struct {
	node  uint32
	epoch uint64
}

// peer is what is remembered of one start of a node.
type peer struct {
	gone     uint64 // up to this sequence nothing is in its memory any more
	failures int    // in a row
	pause    time.Duration
	until    time.Time // it is not asked before
}

// New makes a client. Close it.
func New(config Config) *Client {
	config.Timeout = cmp.Or(config.Timeout, 500*time.Millisecond)
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Client{config: config, peers: make(map[start]*peer), http: &http.Client{
		Transport: &http.Transport{
			MaxIdleConnsPerHost: idleConnections, IdleConnTimeout: idleTimeout, DisableCompression: true,
		},
		// Nothing here moves, and the secret must not be carried elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Stats is what a client did since it was made.
type Stats struct {
	Hits   uint64 // objects that came
	Misses uint64 // that were not in the node's memory any more
	Errors uint64 // questions that failed, and answers that were not the object
	Spared uint64 // questions that were not asked, since the node fails or is past the segment
}

// Stats is a snapshot.
func (c *Client) Stats() Stats {
	return Stats{Hits: c.hits.Load(), Misses: c.misses.Load(), Errors: c.errors.Load(), Spared: c.spared.Load()}
}

// errNotThere is the answer of a node that does not have a segment any more.
var errNotThere = errors.New("not in memory")

// May tells whether a question about a segment may be answered with it. It is not
// so of a node that fails, which is tried again by readers that wait.
func (c *Client) May(id blobwal.SegmentID) bool {
	if c.config.Address(id.Node, id.Epoch) == "" {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.of(id)
	return id.Sequence > p.gone && p.failures < tolerated
}

// Ask is the object of a segment out of the memory of the node that wrote it, or
// nil. An object that verify refuses counts as no answer.
func (c *Client) Ask(ctx context.Context, id blobwal.SegmentID, size uint64, verify func(object []byte) error) []byte {
	address := c.config.Address(id.Node, id.Epoch)
	if address == "" || size > blobwal.MaxObjectBytes {
		return nil
	}
	if !c.mayAsk(id) {
		c.spared.Add(1)
		return nil
	}
	object, err := c.get(ctx, address, id, size)
	if err == nil {
		err = verify(object)
	}
	switch {
	case err == nil:
		c.hits.Add(1)
		c.answered(id)
		return object
	case errors.Is(err, errNotThere):
		c.misses.Add(1)
		c.pastIt(id)
	case ctx.Err() == nil:
		c.failed(id, err)
	}
	return nil
}

func (c *Client) get(ctx context.Context, address string, id blobwal.SegmentID, size uint64) (object []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	url := strings.TrimSuffix(address, "/") + pathPrefix + blobwal.Key(c.config.Cluster, id)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", bearer+c.config.Secret)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return nil, errNotThere
	case response.StatusCode != http.StatusOK:
		return nil, refusal(response)
	case response.ContentLength != int64(size):
		return nil, fmt.Errorf("it answered %d bytes of an object that has %d", response.ContentLength, size)
	}
	object = make([]byte, size)
	_, err = io.ReadFull(response.Body, object)
	return object, err
}

// ErrRefused is a node that knows another secret, which is not so by itself after a
// while: somebody must give both the same.
var ErrRefused = errors.New("a node refuses to be asked")

// maxReason bounds what is read of why a node turned a request away, in bytes.
const maxReason = 256

// refusal is an answer that is none, with the reason that it gives.
func refusal(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxReason)) // what came of it
	reason := strings.Join(strings.Fields(string(text)), " ")
	err := fmt.Errorf("it answered %s: %s", response.Status, cmp.Or(reason, "it does not say why"))
	if response.StatusCode == http.StatusUnauthorized {
		return fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return err
}

// mayAsk tells whether a node is worth a question. Of those that failed it lets one
// through when the pause is over.
func (c *Client) mayAsk(id blobwal.SegmentID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.of(id)
	if id.Sequence <= p.gone {
		return false
	}
	if p.failures < tolerated {
		return true
	}
	now := c.config.Now()
	if now.Before(p.until) {
		return false
	}
	p.until = now.Add(p.pause) // the others wait for what comes of this one
	return true
}

// of is what is remembered of the start that wrote a segment. mu is held.
func (c *Client) of(id blobwal.SegmentID) *peer {
	key := start{id.Node, id.Epoch}
	p := c.peers[key]
	if p == nil {
		if len(c.peers) >= maxPeers {
			clear(c.peers)
		}
		p = &peer{}
		c.peers[key] = p
	}
	return p
}

// answered notes that a node works.
func (c *Client) answered(id blobwal.SegmentID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.of(id)
	if p.failures >= tolerated {
		c.config.Logger.Info("a node answers for its recent segments again", "peer", id.Node)
	}
	p.failures, p.pause = 0, 0
}

// pastIt notes that a node works and does not have a segment any more, nor, since
// the oldest leave first, those before it.
func (c *Client) pastIt(id blobwal.SegmentID) {
	c.answered(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.of(id)
	p.gone = max(p.gone, id.Sequence)
}

// failed notes that a node did not answer, or not with the segment's object.
func (c *Client) failed(id blobwal.SegmentID, err error) {
	c.errors.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.of(id)
	p.failures++
	if p.failures < tolerated {
		return
	}
	if p.failures == tolerated {
		c.config.Logger.Warn("a node does not answer for its recent segments; they are read from the bucket", "peer", id.Node, "error", err)
	}
	p.pause = min(max(2*p.pause, leastPause), longestPause)
	p.until = c.config.Now().Add(p.pause)
}
