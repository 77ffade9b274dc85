package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"

	"github.com/picomq/picomq/httpapi"
	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/internal/cli"
)

const (
	// drainTimeout bounds how long a stopping server waits for requests.
	drainTimeout = 30 * time.Second
	// stopTimeout bounds how long the appends take that were begun by then.
	stopTimeout = 10 * time.Second
	// Bounds on what a connection may do before a handler sees it.
	maxHeaderBytes    = 64 << 10
	readHeaderTimeout = 10 * time.Second
	idleTimeout       = 2 * time.Minute
)

func serveCommand() *cobra.Command {
	var c config
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: `Run a server. Both protocols share one address: Durable Streams below /v1/stream/,
Pico everywhere else. Without flags everything is kept under ./picomq-data: the
command log in SQLite, the records in a folder.

The server prints the addresses it listens on to standard output and logs to
standard error. SIGTERM and SIGINT drain it: readiness fails, and --drain later,
when balancers send requests elsewhere, appends under way finish and live readers
are ended cleanly.`,
		Example: `  picomq serve
  picomq serve --data /var/lib/picomq --listen :4437
  PICOMQ_LISTEN=:4437 picomq serve --log-format json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.validate(); err != nil {
				return cli.UsageError(err)
			}
			makeRoomForDisk(&c)
			return serve(cmd.Context(), &c, cmd.OutOrStdout())
		},
	}
	c.flags(cmd.Flags())
	cli.BindEnv(cmd)
	return cmd
}

// serve runs a server until ctx ends, which a signal does, a listener's failure,
// or the node's own end. It returns nil after a clean drain; a second signal
// meanwhile ends the process at once (see [cli.Execute]).
func serve(ctx context.Context, c *config, out io.Writer) error {
	public, err := listen(ctx, "listen", c.listen)
	if err != nil {
		return err
	}
	defer func() { _ = public.Close() }()
	admin, err := listen(ctx, "admin-listen", c.adminListen)
	if err != nil {
		return err
	}
	cluster, err := listen(ctx, "cluster-listen", c.clusterListen)
	if err != nil {
		return err
	}
	if cluster != nil {
		defer func() { _ = cluster.Close() }()
	}
	begun := time.Now()
	n, err := startNode(ctx, c, c.advertised(cluster))
	if err != nil {
		return err
	}
	s := &server{node: n, errors: make(chan error, 3)}
	if err := s.start(c, public, admin); err != nil {
		n.stop(ctx)
		return err
	}
	s.servePeers(c, cluster)
	announce(out, public, admin, cluster)
	s.phase.Store(serving)
	s.logReady(c, public, cluster, time.Since(begun))
	if c.retentionAge > 0 || c.retentionBytes > 0 {
		n.logger.Info("streams that state no retention of their own are trimmed", "age", c.retentionAge.String(), "bytes", c.retentionBytes)
	}
	select {
	case <-ctx.Done():
		s.phase.Store(draining)
		s.api.Retire()
		n.logger.Info("stopping: not ready any more, then draining requests", "drain", c.drain.String())
		select {
		case <-time.After(c.drain): // balancers notice, and send the rest elsewhere
		case <-n.replica.Failed():
		}
	case err = <-s.errors:
	case <-n.replica.Failed():
		err = n.replica.Err()
	}
	s.drain()
	if err == nil {
		n.logger.Info("stopped")
	}
	return err
}

// listen opens an address; an empty one gives no listener.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("--%s %s: %w; stop the process that has it, or give another address", flag, address, err)
	}
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", flag, address, err)
	}
	return l, nil
}

// reservedFiles is how many files and sockets connections leave to the rest of
// the process: the log's, the bucket's, the admin listener's.
const reservedFiles = 256

// maxConnections is how many clients may be connected at a time, so that they
// cannot take the files that their own requests need. More wait to be accepted.
func maxConnections() int {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return 1 << 10
	}
	limit := int(min(files.Cur, 1<<20))
	return max(limit-reservedFiles, limit/2, 1)
}

// announce prints the addresses, which matters where a port was picked.
func announce(out io.Writer, public, admin, cluster net.Listener) {
	_, _ = fmt.Fprintf(out, "listening on http://%s\n", public.Addr())
	if admin != nil {
		_, _ = fmt.Fprintf(out, "admin on http://%s\n", admin.Addr())
	}
	if cluster != nil {
		_, _ = fmt.Fprintf(out, "cluster on http://%s\n", cluster.Addr())
	}
}

// logReady says who the server is, where it is reached and where it keeps what.
func (s *server) logReady(c *config, public, cluster net.Listener, took time.Duration) {
	n := s.node
	now, id := n.standing.now.Load(), n.engine.Identity().Cluster
	said := []any{
		"listen", public.Addr().String(), "data", c.data, "log", c.logKind(), "storage", c.storage, "streams", n.replica.View().Counts().Streams,
		"index", n.replica.Applied(), "took", took.Round(time.Millisecond), "node", now.Node, "epoch", now.Epoch, "version", version, "pid", os.Getpid(),
		"identity", hex.EncodeToString(id[:]),
	}
	if cluster != nil {
		said = append(said, "cluster-listen", cluster.Addr().String(), "advertise", n.address)
	}
	n.logger.Info("ready", said...)
}

// What a server is about to do, of which readiness tells.
const (
	starting int32 = iota
	serving
	draining
)

// server is a node behind its listeners.
type server struct {
	node    *node
	api     *httpapi.API
	public  *http.Server
	admin   *http.Server // nil without an admin address
	cluster *http.Server // nil unless other nodes may ask
	phase   atomic.Int32 // starting, serving or draining
	errors  chan error   // a listener ended by itself
}

func (s *server) start(c *config, public, admin net.Listener) error {
	metrics := httpapi.NewMetrics()
	api, err := httpapi.New(httpapi.Config{
		Streams: s.node.engine, Logger: s.node.logger, Metrics: metrics, MaxBody: c.maxBody, BodyBudget: c.bodyBudget(),
		LongPollTimeout: c.longPollTimeout, SSEMaxDuration: c.sseMaxDuration, CORSOrigin: c.corsOrigin,
	})
	if err != nil {
		return err
	}
	s.api = api
	s.public = newServer(api.Handler())
	s.public.Protocols.SetUnencryptedHTTP2(true)
	go s.run(s.public, netutil.LimitListener(public, maxConnections()))
	if admin == nil {
		return nil
	}
	handler, err := httpapi.AdminHandler(httpapi.AdminConfig{
		Ready: s.readiness, Inspect: s.node.engine.Inspect,
		Cluster:   func(ctx context.Context) (wire.Cluster, error) { return s.node.describe(ctx, c.clusterID) },
		Retention: c.retention(), Gatherer: s.node.registry(c, metrics), Pprof: c.pprof, Version: version,
	})
	if err != nil {
		return err
	}
	s.admin = newServer(handler)
	go s.run(s.admin, admin)
	return nil
}

func newServer(handler http.Handler) *http.Server {
	s := &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, Protocols: new(http.Protocols),
	}
	s.Protocols.SetHTTP1(true)
	return s
}

func (s *server) run(h *http.Server, l net.Listener) {
	if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		s.errors <- fmt.Errorf("listener %s: %w", l.Addr(), err)
	}
}

// readiness is nil when this node should be sent requests.
func (s *server) readiness(context.Context) error {
	switch s.phase.Load() {
	case starting:
		return errors.New("starting")
	case draining:
		return errors.New("draining")
	}
	return s.node.healthy()
}

// drain ends the server: readiness first, then live readers, then the requests
// under way, then the node.
func (s *server) drain() {
	s.phase.Store(draining)
	s.api.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := s.public.Shutdown(ctx); err != nil {
		s.node.logger.Warn("some requests did not end in time", "error", err)
		_ = s.public.Close()
	}
	rest, cancelRest := context.WithTimeout(context.Background(), stopTimeout)
	defer cancelRest()
	s.node.stop(rest)
	closeServers(s.admin, s.cluster)
}
