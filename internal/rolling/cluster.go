package rolling

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/picomq/picomq/internal/process"
)

// ClusterConfig says what nodes to run.
type ClusterConfig struct {
	Binary   string
	Nodes    int
	Database string // URL of an empty Postgres database
	Folder   string // of the bucket, and of what each node keeps
	Flags    []string
}

// Cluster is nodes of one database and one bucket. Its methods are for one
// goroutine.
type Cluster struct {
	config  ClusterConfig
	servers []*process.Server
}

// Start starts the nodes and waits until all are ready. They are killed when ctx
// ends; the caller waits for that with [Cluster.Wait], whether or not there was an
// error.
func Start(ctx context.Context, c ClusterConfig) (*Cluster, error) {
	cluster := &Cluster{config: c, servers: make([]*process.Server, c.Nodes)}
	for i := range cluster.servers {
		if err := cluster.begin(ctx, i); err != nil {
			return cluster, err
		}
	}
	return cluster, nil
}

const (
	// firstPort and ports are where nodes listen: outside of what a kernel gives to
	// connections, which could take the port of a node that restarts.
	firstPort, ports = 20000, 12000
	// portsTried is how many are tried for a node: any may be taken.
	portsTried = 5
)

// begin starts the i-th node for the first time, at addresses that stay its own.
func (c *Cluster) begin(ctx context.Context, i int) (err error) {
	address := func() string { return fmt.Sprintf("127.0.0.1:%d", firstPort+rand.IntN(ports)) }
	for range portsTried {
		err = c.launch(ctx, i, address(), address())
		if err == nil || !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return err
}

// launch starts the i-th node and waits until it is ready.
func (c *Cluster) launch(ctx context.Context, i int, listen, admin string) error {
	server, err := process.Launch(ctx, process.Config{Binary: c.config.Binary, Args: append([]string{
		"--meta-url", c.config.Database, "--storage", "file://" + filepath.Join(c.config.Folder, "bucket"),
		"--data", filepath.Join(c.config.Folder, "node-"+strconv.Itoa(i)), "--listen", listen, "--admin-listen", admin,
	}, c.config.Flags...)})
	if err != nil {
		return err
	}
	c.servers[i] = server
	return server.Ready(ctx)
}

// Restart tells the i-th node to end, waits for its end, which must be a clean
// one, and starts it again at the same addresses.
func (c *Cluster) Restart(ctx context.Context, i int) error {
	server := c.servers[i]
	if err := server.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	state, err := server.Wait(ctx)
	switch {
	case err != nil:
		return err
	case state.ExitCode() != 0:
		return fmt.Errorf("node %d ended with %v\n%s", i, state, server.Log())
	case strings.Contains(server.Log(), "level=ERROR"), strings.Contains(server.Log(), "did not end"):
		return fmt.Errorf("node %d did not end as it should\n%s", i, server.Log())
	}
	return c.launch(ctx, i, strings.TrimPrefix(server.URL, "http://"), strings.TrimPrefix(server.AdminURL, "http://"))
}

// Nodes are where the nodes are reached. Restarts do not change it.
func (c *Cluster) Nodes() (nodes []Node) {
	for _, server := range c.servers {
		nodes = append(nodes, Node{server.URL, server.AdminURL})
	}
	return nodes
}

// Wait waits until all nodes are gone.
func (c *Cluster) Wait() {
	for _, server := range c.servers {
		if server != nil {
			<-server.Exited()
		}
	}
}

// Stop ends all nodes at once, which must be a clean end.
func (c *Cluster) Stop(ctx context.Context) error {
	var errs []error
	for _, server := range c.servers {
		errs = append(errs, server.Signal(syscall.SIGTERM))
	}
	for i, server := range c.servers {
		state, err := server.Wait(ctx)
		if err == nil && state.ExitCode() != 0 {
			err = fmt.Errorf("node %d ended with %v\n%s", i, state, server.Log())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
