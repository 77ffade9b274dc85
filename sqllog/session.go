package sqllog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresConfig is the URL with the settings that appending relies on, which
// the URL cannot change.
func postgresConfig(url string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the log's URL: %w", err) // pgx leaves the password out
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = DefaultTimeout
	}
	dialer := &net.Dialer{
		Timeout:         config.ConnectTimeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 5},
	}
	config.DialFunc = dialer.DialContext
	greeting := greet(takeSettings(config))
	(&primaries{}).choose(config)
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if _, err := askPlainly(ctx, conn, greeting); err != nil {
			return fmt.Errorf("begin a session: %w", err)
		}
		return nil
	}
	return config, nil
}

// errNoCancel is what cancelling a statement is refused with.
var errNoCancel = errors.New("statements are not cancelled")

// neverCancel keeps a connection from asking the server to cancel what it does
// when nobody waits for it any more. A commit that waits for a synchronous standby
// would stand on this server alone then, be seen and acknowledged, and be lost
// when the standby is promoted. Statements end by [ServerTimeout] anyway.
func neverCancel(_ context.Context, config *pgx.ConnConfig) error {
	dial, validate := config.DialFunc, config.ValidateConnect
	var connected atomic.Bool // from then on only a cancellation dials
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errNoCancel
		}
		return dial(ctx, network, address)
	}
	config.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		err := validate(ctx, conn)
		connected.Store(err == nil)
		return err
	}
	return nil
}

// startupParameters are those of the URL's settings that can only be sent with
// the connection's first message. A pooler refuses all others there.
var startupParameters = []string{"application_name", "client_encoding", "options"}

// takeSettings moves the URL's settings out of the first message, and adds
// those that do not depend on the URL.
func takeSettings(config *pgx.ConnConfig) map[string]string {
	settings := make(map[string]string)
	for name, value := range config.RuntimeParams {
		if !slices.Contains(startupParameters, name) {
			settings[name] = value
			delete(config.RuntimeParams, name)
		}
	}
	// In some others a byte of a character may be that of a quote.
	config.RuntimeParams["client_encoding"] = "UTF8"
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "picomq"
	}
	ms := strconv.FormatInt(ServerTimeout.Milliseconds(), 10)
	maps.Copy(settings, map[string]string{
		"default_transaction_isolation":       "read committed",
		"statement_timeout":                   ms,
		"idle_in_transaction_session_timeout": ms,
		"tcp_user_timeout":                    ms,
		// The text of an append is written in this spelling.
		"standard_conforming_strings": "on",
		// Compiling would take longer than any statement here does, and so would
		// planning a prepared one each time: no plan depends on the values.
		"jit":             "off",
		"plan_cache_mode": "force_generic_plan",
		// Plans are made while the tables are empty and used when they are long:
		// every statement here finds its rows by an index.
		"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off",
	})
	return settings
}

// greet is the statement that begins a session: it makes the settings.
func greet(settings map[string]string) string {
	var made []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		made = append(made, fmt.Sprintf("set_config(%s, %s, false)", literal(name), literal(settings[name])))
	}
	return "SELECT " + strings.Join(made, ", ")
}

// literal quotes a value, whatever standard_conforming_strings says.
func literal(value string) string {
	quoted := "'" + strings.ReplaceAll(strings.ReplaceAll(value, "'", "''"), `\`, `\\`) + "'"
	if strings.Contains(value, `\`) {
		return "E" + quoted
	}
	return quoted
}

// askPlainly is the first column of a query's first row, by the simple protocol.
func askPlainly(ctx context.Context, conn *pgconn.PgConn, query string) (string, error) {
	results, err := conn.Exec(ctx, query).ReadAll()
	if err != nil {
		return "", err
	}
	if len(results) == 0 || len(results[len(results)-1].Rows) == 0 {
		return "", fmt.Errorf("%q was answered with no row", query)
	}
	return string(results[len(results)-1].Rows[0][0]), nil
}

// errShared is a pooler that gives each transaction another session.
var errShared = errors.New("a pooler between shares sessions among transactions, and settings, prepared statements and LISTEN need a session of their own: " +
	"set pool_mode=session for this database in PgBouncer (or what your pooler calls it), or name the server itself in the URL")

// checkSessions refuses a pooler in transaction or statement mode. It uses
// connections without settings, which would stay behind in such a pooler: one
// begins a transaction, and if that runs where the other one's statement did, or
// drives the other one away, neither has a session of its own.
func checkSessions(ctx context.Context, config *pgx.ConnConfig, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	plain := config.Config.Copy()
	plain.AfterConnect = nil
	var pair [2]*pgconn.PgConn
	for i := range pair {
		conn, err := pgconn.ConnectConfig(ctx, plain)
		if err != nil {
			return fmt.Errorf("connect: %w", connectError{err})
		}
		defer func() { _ = conn.Close(ctx) }() // only looked around
		pair[i] = conn
	}
	const pid = "SELECT pg_backend_pid()"
	before, err := askPlainly(ctx, pair[0], pid)
	if err != nil {
		return fmt.Errorf("ask for the session: %w", err)
	}
	if _, err := pair[1].Exec(ctx, "BEGIN").ReadAll(); err != nil {
		return fmt.Errorf("begin a transaction: %w (%w)", errShared, err) // statement mode
	}
	inside, err := askPlainly(ctx, pair[1], pid)
	if err != nil {
		return fmt.Errorf("ask for the session: %w", err)
	}
	if inside == before {
		return errShared
	}
	after, err := askPlainly(ctx, pair[0], pid)
	if err != nil {
		return fmt.Errorf("ask for the session: %w", err)
	}
	if after != before {
		return errShared
	}
	return nil
}
