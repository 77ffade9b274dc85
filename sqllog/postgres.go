package sqllog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/migrations"
)

const (
	// PoolSize is how many connections a Postgres log has at most, besides the
	// one that listens: one inserts, the others read.
	PoolSize = 8
	// ServerTimeout is after how long the server gives up a statement, an idle
	// transaction, and a connection whose peer does not acknowledge: the
	// longest that a frozen or vanished node can hold the lock of appends.
	ServerTimeout = 900 * time.Millisecond
	// migrationTimeout is after how long the server gives up a statement of a
	// migration, which may go through a whole table, and migrationIdle a transaction
	// of one whose node is frozen.
	migrationTimeout, migrationIdle = 10 * time.Minute, 10 * time.Second
)

const postgresNow = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

// postgresPrepare gives each connection the two statements of an append under
// names; %s is the notification channel, a literal. A pooler may have left it those
// of the client before.
//
// The lock is of the schema, and the same in every release. It is no row's: a
// row that each append changes leaves versions behind, and while anybody keeps
// an old snapshot all of them are read again by each append.
//
// Whatever the server, the database or the role is told after this node was started,
// the commit is waited for.
//
// The second statement begins when the lock is held, with a view of its own that
// holds all that was committed under the lock before. The database's clock is
// read in it, so times follow the order of indexes.
const postgresPrepare = `DEALLOCATE ALL;
PREPARE picomq_lock AS SELECT pg_advisory_xact_lock(hashtext('picomq append'), hashtext(current_schema())),
    CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END;
PREPARE picomq_append (bigint, bigint, bigint, bigint, text, bigint, bigint, bigint, bytea, bigint[], bigint[], bigint[], bigint[], bigint[], bigint[]) AS
WITH head AS MATERIALIZED (
    SELECT idx + 1 AS idx, row_id AS previous_row_id, ` + postgresNow + ` AS db_time_ms
    FROM log_head
    WHERE log = 0 AND NOT EXISTS (
        SELECT 1 FROM unnest($10, $11) AS p (idx, row_id)
        WHERE coalesce((SELECT c.row_id FROM command_log AS c WHERE c.log = 0 AND c.idx = p.idx),
            (SELECT a.truncated_row_id FROM log_archive AS a WHERE a.log = 0 AND a.truncated_idx = p.idx)) IS DISTINCT FROM p.row_id)
), inserted AS (
    INSERT INTO command_log (log, idx, row_id, previous_row_id, db_time_ms, node, epoch, origin_seq, kinds, commands, appends, digest, payload)
    SELECT 0, idx, $1, previous_row_id, db_time_ms, $2, $3, $4, $5, $6, $7, $8, $9 FROM head
), origin AS (
    INSERT INTO origins (log, node, epoch, seq, digest, idx)
    SELECT 0, o.node, o.epoch, o.seq, o.digest, head.idx FROM head, unnest($12, $13, $14, $15) AS o (node, epoch, seq, digest)
), notified AS MATERIALIZED (
    SELECT idx, previous_row_id, db_time_ms, pg_notify(%s, '') FROM head
)
SELECT idx, previous_row_id, db_time_ms FROM notified`

// openPostgres opens the log that the configured database and search_path hold.
func openPostgres(ctx context.Context, config *pgx.ConnConfig, options Options) (l *Log, err error) {
	l = newLog(dialect{
		insert: insertPostgres,
		// An origin of before there was the column stands alone in its row.
		originDigest: "coalesce(o.digest, c.digest, 0)",
		truncate:     postgresTruncate,
		now:          postgresNow,
		classify:     classifyPostgres,
		// The texts that bun writes hold their values and differ each time:
		// those are not prepared. The statements here are, once a connection.
		mode: []any{pgx.QueryExecModeCacheStatement},
	}, options)
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open the log at %s: %w", where(config), advise(err)), l.Close())
			l = nil
		}
	}()
	channel, err := preparePostgres(ctx, config, options)
	if err != nil {
		return l, err
	}
	prepare := fmt.Sprintf(postgresPrepare, "'"+channel+"'")
	pool := openPool(config, stdlib.OptionBeforeConnect(neverCancel), stdlib.OptionResetSession(leaveOldPrimary), stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, prepare, pgx.QueryExecModeSimpleProtocol)
		return err
	}))
	pool.SetMaxOpenConns(PoolSize)
	pool.SetMaxIdleConns(PoolSize) // a new one may have to wait for a host that is gone
	l.writer = bun.NewDB(pool, pgdialect.New())
	l.reader = l.writer
	l.onClose(l.writer.Close)
	if err := l.writer.PingContext(ctx); err != nil {
		return l, fmt.Errorf("connect: %w", err)
	}
	return l, l.listen(ctx, config, channel)
}

// preparePostgres checks a database and migrates it unless it is only to be read,
// and returns its notification
// channel. It has a pool of its own: the log's connections need the tables.
func preparePostgres(ctx context.Context, config *pgx.ConnConfig, options Options) (channel string, err error) {
	if err := checkSessions(ctx, config, options.Timeout); err != nil {
		return "", err
	}
	db := bun.NewDB(openPool(config, stdlib.OptionAfterConnect(allowMigrations)), pgdialect.New())
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.PingContext(ctx); err != nil {
		return "", fmt.Errorf("connect: %w", err)
	}
	if err := checkPostgres(ctx, db); err != nil {
		return "", err
	}
	// Before the tables: without a schema there is nowhere to make them.
	if channel, err = channelOf(ctx, db); err != nil {
		return "", err
	}
	if options.ReadOnly {
		return channel, migrations.Check(ctx, db)
	}
	if err := migrations.Run(ctx, db, options.Create); err != nil {
		return "", migrationError(ctx, db, err)
	}
	if err := checkRights(ctx, db); err != nil {
		return "", err
	}
	return channel, nil
}

// allowMigrations gives the statements of a session the time that migrations take.
func allowMigrations(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, fmt.Sprintf("SET statement_timeout = %d; SET idle_in_transaction_session_timeout = %d",
		migrationTimeout.Milliseconds(), migrationIdle.Milliseconds()), pgx.QueryExecModeSimpleProtocol)
	return err
}

// where names the database without secrets.
func where(config *pgx.ConnConfig) string {
	return fmt.Sprintf("postgres://%s:%d/%s", config.Host, config.Port, config.Database)
}

// checkPostgres refuses settings under which an acknowledged commit can be
// lost.
func checkPostgres(ctx context.Context, db *bun.DB) error {
	for _, setting := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := db.DB.QueryRowContext(ctx, "SELECT current_setting($1)", setting).Scan(&value); err != nil {
			return fmt.Errorf("ask for the setting %s: %w", setting, err)
		}
		if err := settingError(setting, value); err != nil {
			return err
		}
	}
	return nil
}

// settingError judges one setting. synchronous_commit may be any other value:
// local, the least of them, still waits for this server's disk.
func settingError(name, value string) error {
	if value != "off" {
		return nil
	}
	return fmt.Errorf("the server's setting %s is off, so what it acknowledges can be lost in a crash: turn it on (for the server, the database or the role) and start again", name)
}

// channelOf is the notification channel of the connection's schema. Channels
// belong to a database and their names are short, so it is the schema's hash.
func channelOf(ctx context.Context, db *bun.DB) (string, error) {
	var schema sql.NullString
	if err := db.DB.QueryRowContext(ctx, "SELECT current_schema()").Scan(&schema); err != nil {
		return "", fmt.Errorf("ask for the schema: %w", err)
	}
	if !schema.Valid {
		return "", errors.New("the search_path names no schema that exists, or none that the role may use: create the schema, GRANT USAGE ON SCHEMA to the role, or name another in the URL")
	}
	return channelName(schema.String), nil
}

func channelName(schema string) string {
	return fmt.Sprintf("picomq_%016x", commands.PayloadDigest([]byte(schema)))
}

// classifyPostgres says what an error of the appending statement means.
func classifyPostgres(err error) error {
	if pgconn.SafeToRetry(err) {
		return fmt.Errorf("%w: %w", commands.ErrNotSent, err)
	}
	var failure *pgconn.PgError
	// Only an ERROR takes the place of the commit. A FATAL ends the session
	// and may come after it.
	if !errors.As(err, &failure) || failure.SeverityUnlocalized != "ERROR" {
		return fmt.Errorf("%w: %w", commands.ErrUnknown, err)
	}
	switch code := failure.Code; {
	case code == "23505" && failure.ConstraintName == "origins_pkey":
		return fmt.Errorf("%w: %w", commands.ErrDuplicateOrigin, err)
	case code == "25006", code == "26000", code == "40001", code == "40P01", code == "55P03", code == "57014", strings.HasPrefix(code, "53"):
		return fmt.Errorf("%w: %w", commands.ErrNotSent, err)
	case strings.HasPrefix(code, "22"), strings.HasPrefix(code, "23"), strings.HasPrefix(code, "42"):
		return err
	default:
		return fmt.Errorf("%w: %w", commands.ErrUnknown, err)
	}
}
