package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/internal/postgres"
	"github.com/picomq/picomq/replica/combine"
	"github.com/picomq/picomq/sqllog"
)

// nodes is how many there are.
const nodes = 3

// cluster is nodes, their database and their bucket.
type cluster struct {
	binary, folder string
	database       *postgres.Server
	seats          [nodes]*seat
	stillness      *stillness
	overtaken      atomic.Int64 // nodes that were started again since the log had gone on without them
	fail           func(error)  // ends the run
}

// newCluster starts everything. fail is called, from any goroutine, when a node
// does what it must not.
func newCluster(ctx context.Context, binary, folder string, random *rand.Rand, fail func(error)) (*cluster, error) {
	c := &cluster{binary: binary, folder: folder, fail: fail, stillness: newStillness(nodes)}
	if err := os.MkdirAll(c.bucket(), 0o750); err != nil {
		return nil, err
	}
	var err error
	if c.database, err = postgres.New(ctx); err != nil {
		return nil, err
	}
	c.stillness.database(true)
	for i := range c.seats {
		if c.seats[i], err = newSeat(ctx, c, i+1); err == nil {
			err = c.seats[i].start(ctx, random)
		}
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

func (c *cluster) bucket() string { return filepath.Join(c.folder, "bucket") }

func (c *cluster) storage() string {
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(c.bucket())}).String()
}

// able notes whether a node can be expected to take writes.
func (c *cluster) able(s *seat, is bool) { c.stillness.node(s.number-1, is) }

// crashDatabase crashes the database and starts it again.
func (c *cluster) crashDatabase(ctx context.Context) error {
	c.stillness.database(false)
	defer c.stillness.database(true)
	if err := c.database.Crash(); err != nil {
		return err
	}
	return c.database.Start(context.WithoutCancel(ctx))
}

// inserter is the seat whose node inserts rows for all; nil when there is none.
func (c *cluster) inserter(ctx context.Context) (*seat, error) {
	log, err := sqllog.Open(ctx, c.database.URL, sqllog.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // nothing was written
	by, held, err := log.LeaseHolder(ctx, combine.LeaseName)
	if err != nil || !held {
		return nil, err
	}
	for _, s := range c.seats {
		if number, err := s.node(); err == nil && number == uint64(by.Node) {
			return s, nil
		}
	}
	return nil, nil
}

// terminate ends all nodes at once, as an operator does.
func (c *cluster) terminate() error {
	var g errgroup.Group
	for _, s := range c.seats {
		g.Go(func() error {
			s.turn.Lock()
			defer s.turn.Unlock()
			return s.terminate()
		})
	}
	return g.Wait()
}

// close ends what still runs and removes the database.
func (c *cluster) close() error {
	var errs []error
	for _, s := range c.seats {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	if err := errors.Join(append(errs, c.database.Remove())...); err != nil {
		return fmt.Errorf("end the cluster: %w", err)
	}
	return nil
}
