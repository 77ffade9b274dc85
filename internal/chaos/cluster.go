package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"

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
	tell           func(format string, args ...any) // what happens when
	fail           func(error)                      // ends the run
}

// newCluster starts everything. fail is called, from any goroutine, when a node
// does what it must not, and tell with what happens.
func newCluster(ctx context.Context, binary, folder string, random *rand.Rand, fail func(error), tell func(string, ...any)) (*cluster, error) {
	c := &cluster{binary: binary, folder: folder, fail: fail, tell: tell, stillness: newStillness(nodes, tell)}
	if err := os.MkdirAll(c.bucket(), 0o750); err != nil {
		return nil, err
	}
	var err error
	if c.database, err = postgres.New(ctx); err != nil {
		return nil, err
	}
	c.stillness.setDatabase(true)
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
func (c *cluster) able(s *seat, is bool) { c.stillness.setNode(s.number-1, is) }

// begin and end note a fault.
func (c *cluster) begin(f fault, where place) {
	c.stillness.begin(f)
	c.tell("%v: %v", where, f)
}

func (c *cluster) end(f fault, where place) {
	c.stillness.end(f)
	c.tell("%v: %v is over", where, f)
}

// crashDatabase crashes the database and, after a while, starts it again.
func (c *cluster) crashDatabase(ctx context.Context, while func()) error {
	c.stillness.setDatabase(false)
	defer c.stillness.setDatabase(true)
	if err := c.database.Crash(); err != nil {
		return err
	}
	while()
	return c.database.Start(context.WithoutCancel(ctx))
}

// loseBucket makes the bucket fail for a while.
func (c *cluster) loseBucket(while func()) error {
	c.stillness.setBucket(false)
	defer c.stillness.setBucket(true)
	if err := os.WriteFile(c.bucketIsDown(), nil, 0o600); err != nil {
		return err
	}
	while()
	return os.Remove(c.bucketIsDown())
}

// bucketIsDown is the file that is there while every operation of the bucket fails.
func (c *cluster) bucketIsDown() string { return filepath.Join(c.folder, "bucket-is-down") }

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
		g.Go(s.terminate)
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
