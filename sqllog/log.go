package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"github.com/picomq/picomq/commands"
)

// DefaultTimeout bounds one call when Options.Timeout is 0.
const DefaultTimeout = 3 * time.Second

// Options are the settings of a Log. The zero value is good.
type Options struct {
	// Logger is told about lost and regained connections. Nil: nothing is
	// logged.
	Logger *slog.Logger
	// Timeout bounds each call, connecting included; the caller's context may
	// end it earlier. It is more than [ServerTimeout], so that the server's own
	// answer, which is definite, usually comes first. 0: [DefaultTimeout].
	Timeout time.Duration
	// Create is asked before the tables are made in a database that has none: its
	// error is Open's, and nothing is written then. No other process makes them
	// meanwhile. Nil: they are made.
	Create func(context.Context) error
	// ReadOnly opens a log that is there and changes nothing in it: it is not
	// migrated, an older schema is a [*migrations.OlderSchemaError], and whatever
	// would write fails. On Postgres the rights to read are enough. A SQLite file is
	// locked all the same.
	ReadOnly bool
}

// Log is one cluster's command log. All methods are safe for concurrent use.
type Log struct {
	dialect dialect
	writer  *bun.DB
	reader  *bun.DB // the same as writer on Postgres
	// prepared is the appending statement, where it costs more to prepare than to
	// run and the writer has one connection, which needs no network: SQLite. On
	// Postgres each connection has it under a name, and this is nil.
	prepared *sql.Stmt
	timeout  time.Duration
	logger   *slog.Logger
	wakeups  chan struct{} // capacity 1: a signal says "since the last one"
	closers  []func() error
}

// dialect is what differs between the databases once they are open.
type dialect struct {
	exclusive bool
	// insert appends one row of that id. It answers sql.ErrNoRows when a row that
	// a proposer applied is not there, and [commands.ErrNotSent] when there was no
	// connection; what its other errors mean is classify's to say.
	insert       func(ctx context.Context, l *Log, in *commands.Insert, row commands.RowID) (commands.Inserted, error)
	originDigest string            // an expression: the digest of an origin o that stands in row c
	truncate     string            // the statement that drops the oldest rows
	now          string            // an expression: the database's clock in Unix ms
	mode         []any             // leading arguments of statements that are prepared once
	classify     func(error) error // what an error of insert means: one of the errors of commands
}

// Open opens the log at a URL, creates or migrates its schema, and checks that
// the database keeps what it acknowledges.
//
//	sqlite://log.db              relative to the working directory
//	sqlite:///var/lib/log.db     absolute; missing folders are created
//	postgres://user:password@host:5432/database?sslmode=verify-full&search_path=cluster1
//
// ctx bounds the opening only. The errors are one line each and name the URL's
// part, the file or the setting that is wrong; passwords are left out.
func Open(ctx context.Context, url string, options Options) (*Log, error) {
	if options.Timeout == 0 {
		options.Timeout = DefaultTimeout
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	l, err := open(ctx, url, options)
	if err != nil {
		return nil, oneLine{err}
	}
	return l, nil
}

func open(ctx context.Context, url string, options Options) (*Log, error) {
	scheme, rest, _ := strings.Cut(url, "://")
	switch scheme {
	case "sqlite":
		return openSQLite(ctx, rest, options)
	case "postgres", "postgresql":
		config, err := postgresConfig(url)
		if err != nil {
			return nil, err
		}
		return openPostgres(ctx, config, options)
	default:
		return nil, errors.New("the log's URL must begin with sqlite:// or postgres://")
	}
}

// oneLine prints an error whose parts stand on lines of their own on one.
type oneLine struct{ error }

// Error joins the lines.
func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }

// Unwrap is the error as it was.
func (e oneLine) Unwrap() error { return e.error }

func newLog(d dialect, options Options) *Log {
	return &Log{dialect: d, timeout: options.Timeout, logger: options.Logger, wakeups: make(chan struct{}, 1)}
}

// Exclusive says that only this Log can append, so what it has read is all
// there is.
func (l *Log) Exclusive() bool { return l.dialect.exclusive }

// Wakeups receives a value after rows were appended, by others at least, and
// whenever appends may have gone unnoticed. Several appends may share one
// value. It is a hint: a poll must stand behind it. The channel is never
// closed.
func (l *Log) Wakeups() <-chan struct{} { return l.wakeups }

// wake leaves a signal unless one waits already.
func (l *Log) wake() {
	select {
	case l.wakeups <- struct{}{}:
	default:
	}
}

// Close ends the background work, closes the connections and gives up the
// SQLite file. Calls under way fail. It must be called once.
func (l *Log) Close() error {
	var errs []error
	for i := len(l.closers) - 1; i >= 0; i-- {
		errs = append(errs, l.closers[i]())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the log: %w", err)
	}
	return nil
}

// onClose registers f to run at Close, before everything registered earlier.
func (l *Log) onClose(f func() error) { l.closers = append(l.closers, f) }

// bounded is ctx with the time limit of one call.
func (l *Log) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, l.timeout)
}

// args puts the dialect's mode before the arguments of a statement that is
// worth preparing.
func (l *Log) args(values ...any) []any {
	return append(append(make([]any, 0, len(values)+1), l.dialect.mode...), values...)
}
