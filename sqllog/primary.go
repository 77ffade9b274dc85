package sqllog

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// primaries is what a log knows of the servers that it met. Its methods are safe
// for concurrent use.
type primaries struct {
	// newest is the newest timeline of them; 0 for none yet. The promotion of a
	// standby begins the next one, so a server on an older timeline is a primary that
	// was replaced. It may take writes, but lacks those of the other.
	newest atomic.Uint32
	// last is the server that was the primary last, nil while that is in doubt.
	last atomic.Pointer[found]
}

// found is where the primary was found, and when.
type found struct {
	address netip.AddrPort
	at      time.Time
}

// foundHolds is how long other hosts are passed over after that: names may come to
// lead elsewhere.
const foundHolds = 10 * time.Second

// choose lets a configuration connect to the primary among its hosts.
func (p *primaries) choose(config *pgx.ConnConfig) {
	if hosts := countHosts(config); hosts > 1 {
		// When the first is a machine that is gone, which never answers, the next is
		// tried while there is time.
		config.ConnectTimeout = min(config.ConnectTimeout, DefaultTimeout/time.Duration(hosts))
		config.DialFunc = p.lastFirst(config.DialFunc)
	}
	config.ValidateConnect = p.validate
}

func countHosts(config *pgx.ConnConfig) int {
	hosts := map[string]bool{net.JoinHostPort(config.Host, strconv.Itoa(int(config.Port))): true}
	for _, other := range config.Fallbacks { // the same host without TLS among them
		hosts[net.JoinHostPort(other.Host, strconv.Itoa(int(other.Port)))] = true
	}
	return len(hosts)
}

// lastFirst passes over all hosts but the one that was the primary last, so that
// not each connection waits for one that is gone. When that one fails, the next
// attempt tries them all.
func (p *primaries) lastFirst(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		to, err := netip.ParseAddrPort(address) // a socket's path is none
		if last := p.last.Load(); err == nil && last != nil && last.address != to && time.Since(last.at) < foundHolds {
			return nil, fmt.Errorf("not tried yet: %s was the primary", last.address)
		}
		p.last.Store(nil) // until it is found to be
		return dial(ctx, network, address)
	}
}

// accept refuses a server that was replaced.
func (p *primaries) accept(timeline uint32) error {
	for {
		switch newest := p.newest.Load(); {
		case timeline < newest:
			return fmt.Errorf("the server is on timeline %d, and timeline %d was met before: it is an old primary, which a promoted standby replaced: "+
				"stop it for good (or start this node again, if the database was moved on purpose)", timeline, newest)
		case timeline == newest || p.newest.CompareAndSwap(newest, timeline):
			return nil
		}
	}
}

const (
	standbyQuery = "SELECT pg_is_in_recovery()"
	// timelineQuery is for a primary: its timeline begins the names of its files.
	timelineQuery = "SELECT substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)"
	// acceptedKey is where a connection keeps what let it in, an [accepted].
	acceptedKey = "picomq accepted"
)

// accepted is that a server was accepted for its timeline.
type accepted struct {
	by       *primaries
	timeline uint32
}

// validate runs on every new connection: with several hosts in the URL the next
// is tried, and a primary that was demoted or replaced is left.
func (p *primaries) validate(ctx context.Context, conn *pgconn.PgConn) error {
	recovering, err := askPlainly(ctx, conn, standbyQuery)
	if err != nil {
		return fmt.Errorf("ask whether the server is a standby: %w", err)
	}
	if err := standbyError(recovering == "t"); err != nil {
		return err
	}
	timeline, err := askTimeline(ctx, conn)
	if err != nil {
		return fmt.Errorf("ask for the server's timeline: %w", err)
	}
	if err := p.accept(timeline); err != nil {
		return err
	}
	conn.CustomData()[acceptedKey] = accepted{p, timeline}
	if remote, ok := conn.Conn().RemoteAddr().(*net.TCPAddr); ok {
		address := remote.AddrPort()
		p.last.Store(&found{netip.AddrPortFrom(address.Addr().Unmap(), address.Port()), time.Now()})
	}
	return nil
}

// askTimeline is the server's timeline, or 0 when it does not tell: not everything
// that speaks like PostgreSQL has files.
func askTimeline(ctx context.Context, conn *pgconn.PgConn) (uint32, error) {
	text, err := askPlainly(ctx, conn, timelineQuery)
	if errors.As(err, new(*pgconn.PgError)) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 16, 32)
	return uint32(n), err
}

func standbyError(inRecovery bool) error {
	if inRecovery {
		return errors.New("the server is a standby (pg_is_in_recovery), whose log may be behind: the URL must name the primary")
	}
	return nil
}

// stillPrimary refuses a connection to a server that was replaced since it was
// made.
func stillPrimary(conn *pgconn.PgConn) error {
	if a, ok := conn.CustomData()[acceptedKey].(accepted); ok {
		return a.by.accept(a.timeline)
	}
	return nil
}

// leaveOldPrimary keeps the pool from using such a connection again.
func leaveOldPrimary(_ context.Context, conn *pgx.Conn) error {
	if stillPrimary(conn.PgConn()) != nil {
		return driver.ErrBadConn
	}
	return nil
}
