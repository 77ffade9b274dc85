package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/picomq/picomq/internal/postgres"
	"github.com/picomq/picomq/internal/process"
)

// nodeTimeout is how long a node may be silent before the others take it for
// gone: the least there is.
const nodeTimeout = 5 * time.Second

// seat is a place for a node: a folder, addresses and a way to the database, all
// of which outlive the process. One goroutine at a time does something to it.
type seat struct {
	number  int // from 1; for people
	cluster *cluster
	folder  string
	listen  string // public address
	inside  string // address for other nodes
	link    *proxy // to the database
	peers   *proxy // from other nodes to this one
	door    *door

	watching sync.WaitGroup

	mu      sync.Mutex
	process *process.Server // nil while there is none
	doomed  bool            // it ends because it was told to
}

func newSeat(ctx context.Context, c *cluster, number int) (*seat, error) {
	s := &seat{number: number, cluster: c, folder: filepath.Join(c.folder, "node-"+strconv.Itoa(number))}
	var err error
	if s.link, err = newProxy(ctx, c.database.Address); err != nil {
		return nil, err
	}
	for _, address := range []*string{&s.listen, &s.inside} {
		if *address, err = freeAddress(ctx); err != nil {
			return nil, err
		}
	}
	if s.peers, err = newProxy(ctx, s.inside); err != nil {
		return nil, err
	}
	s.door, err = newDoor("http://" + s.listen)
	return s, err
}

// start starts a process and waits until it is ready. One that cannot start,
// since database or bucket are away, is started again, as any supervisor would.
func (s *seat) start(ctx context.Context, random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := s.launch(ctx, random)
		if err == nil {
			s.cluster.able(s, true)
			return nil
		}
		s.cluster.tell("node %d: a start failed: %s", s.number, lastLine(err))
		select {
		case <-ctx.Done():
			return fmt.Errorf("node %d does not start: %w", s.number, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// lastLine is what a process said last.
func lastLine(err error) string {
	text := strings.TrimSpace(err.Error())
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// startLimit turns a node that never becomes ready into an error.
const startLimit = 5 * time.Minute

func (s *seat) launch(ctx context.Context, random *rand.Rand) error {
	p, err := process.Launch(context.WithoutCancel(ctx), process.Config{
		Binary: s.cluster.binary, Env: s.environment(random),
		Args: []string{
			"--data", s.folder, "--storage", s.cluster.storage(), "--meta-url", postgres.URL(s.link.address()),
			"--listen", s.listen, "--admin-listen", "127.0.0.1:0",
			"--cluster-listen", s.inside, "--advertise", "http://" + s.peers.address(),
			"--node-timeout", nodeTimeout.String(), "--drain", "100ms", "--wal-hedge", "on", "--long-poll-timeout", "2s", "--log-level", "info",
		},
	})
	if err != nil {
		return err
	}
	if err := p.Ready(ctx); err != nil {
		_ = p.Signal(syscall.SIGQUIT) // which says where it hangs, unless it is gone
		<-p.Exited()
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	s.mu.Lock()
	s.process, s.doomed = p, false
	s.mu.Unlock()
	s.watching.Go(func() { s.watch(p) })
	return nil
}

// watch reports a node that ends though nobody told it to.
func (s *seat) watch(p *process.Server) {
	<-p.Exited()
	s.mu.Lock()
	unasked := s.process == p && !s.doomed
	s.mu.Unlock()
	if unasked {
		s.cluster.able(s, false)
		s.cluster.fail(fmt.Errorf("node %d ended by itself\n%s", s.number, p.Log()))
	}
}

// environment spoils this life of a node: its clock, and what its bucket does. In
// every other life maintenance is in haste: what lags is soon overtaken by it.
func (s *seat) environment(random *rand.Rand) []string {
	haste := [...]string{"", "1"}[random.IntN(2)]
	return []string{
		"PICOMQ_HASTE=" + haste,
		"PICOMQ_CLUSTER_SECRET=chaos",
		"PICOMQ_CLOCK_SKEW=" + skew(random).String(),
		fmt.Sprintf("PICOMQ_BUCKET_FAULTS=latency=1ms,jitter=4ms,straggle=0.01:%dms,put-fails=0.02,put-lost=0.02,get-fails=0.03,seed=%d,down=%s",
			100+random.IntN(900), random.Uint32(), s.cluster.bucketIsDown()),
	}
}

// skew is how far a clock is ahead or, if it is negative, behind: some seconds,
// and in one life of four some hours.
func skew(random *rand.Rand) time.Duration {
	most := 5 * time.Second
	if random.IntN(4) == 0 {
		most = 5 * time.Hour
	}
	return time.Duration(random.Int64N(2*int64(most))) - most
}

// current is the process that sits here. There is one unless it is being
// started.
func (s *seat) current() *process.Server {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// kill ends the process as kill -9 does.
func (s *seat) kill() error { return s.end(os.Kill, nil) }

// terminate ends the process as a supervisor does, and expects that it does so
// cleanly.
func (s *seat) terminate() error {
	return s.end(syscall.SIGTERM, func(state *os.ProcessState) error {
		if state.ExitCode() != 0 {
			return fmt.Errorf("node %d was told to end and ended with %v", s.number, state)
		}
		return nil
	})
}

func (s *seat) end(signal os.Signal, check func(*os.ProcessState) error) error {
	s.mu.Lock()
	p := s.process
	s.doomed = true
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	s.cluster.able(s, false)
	if err := p.Signal(signal); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	state, err := p.Wait(ctx)
	s.mu.Lock()
	s.process = nil
	s.mu.Unlock()
	if err == nil && check != nil {
		if err = check(state); err != nil {
			err = fmt.Errorf("%w\n%s", err, p.Log())
		}
	}
	return err
}

// freeze stops the process where it is, and thaw lets it go on.
func (s *seat) freeze() error {
	s.cluster.able(s, false)
	return s.current().Signal(syscall.SIGSTOP)
}

func (s *seat) thaw() error {
	err := s.current().Signal(syscall.SIGCONT)
	s.cluster.able(s, true)
	return err
}

// hold and release stop and start the bytes between the node and the database.
func (s *seat) hold() {
	s.cluster.able(s, false)
	s.link.hold()
}

func (s *seat) release() {
	s.link.release()
	s.cluster.able(s, true)
}

// node is the number that the process has in the log.
func (s *seat) node() (uint64, error) {
	text, err := os.ReadFile(filepath.Join(s.folder, "node-id"))
	if err != nil {
		return 0, err
	}
	number, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	return strconv.ParseUint(number, 10, 32)
}

// close ends what is left of the seat.
func (s *seat) close() error {
	var err error
	if p := s.current(); p != nil {
		err = errors.Join(p.Signal(syscall.SIGCONT), s.kill())
	}
	s.watching.Wait()
	s.door.transport.CloseIdleConnections()
	s.link.close()
	s.peers.close()
	return err
}

// well waits until the node is ready, as it should be when nothing is broken.
func (s *seat) well(ctx context.Context) error {
	if err := s.current().Ready(ctx); err != nil {
		return fmt.Errorf("node %d does not recover: %w", s.number, err)
	}
	return nil
}

// freeAddress is a port of 127.0.0.1 that nobody listens on just now.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
