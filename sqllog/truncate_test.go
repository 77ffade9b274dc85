package sqllog_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// appendRows appends rows of a size and returns the last one's place.
func appendRows(t testing.TB, l *sqllog.Log, after commands.Position, rows, size int) commands.Position {
	t.Helper()
	for range rows {
		at, err := appendUntilSent(t.Context(), l, commands.Insert{
			Origin: commands.Origin{Node: 1, Epoch: 1, Seq: uint64(after.Index) + 1}, Payload: make([]byte, size), Applied: after,
		})
		require.NoError(t, err)
		after = at.Position
	}
	return after
}

// archive records everything up to a row as archived.
func archive(t testing.TB, l *sqllog.Log, to commands.Position) {
	t.Helper()
	a, err := l.Archive(t.Context())
	require.NoError(t, err)
	_, err = l.AnnounceArchive(t.Context(), a.Head.Index, to.Index)
	require.NoError(t, err)
	a, err = l.AdvanceArchive(t.Context(), to, "key", commands.ArchiveDigest{1})
	require.NoError(t, err)
	require.Equal(t, to, a.Head)
}

// drop truncates all that is archived.
func drop(t testing.TB, l *sqllog.Log, upTo commands.Index) {
	t.Helper()
	for {
		a, err := l.Truncate(t.Context(), upTo, 1000)
		require.NoError(t, err)
		if a.Truncated.Index == min(upTo, a.Head.Index) {
			return
		}
	}
}

func sizeOf(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}

// A file that grew while nothing could be archived shrinks; one under a steady
// load stays as large as it is.
func TestSQLiteFileShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l := openSQLite(t, path)
	last := appendRows(t, l, commands.Position{}, 30, 1<<20)
	archive(t, l, last)
	drop(t, l, last.Index)
	for range 20 { // upkeep calls again and again
		drop(t, l, last.Index)
	}
	execSQLite(t, path, "PRAGMA wal_checkpoint(TRUNCATE)")
	assert.Less(t, sizeOf(t, path), int64(10<<20), "of 30 MiB that were written")
	var largest int64
	for range 10 {
		last = appendRows(t, l, last, 4, 1<<20)
		archive(t, l, last)
		drop(t, l, last.Index)
		execSQLite(t, path, "PRAGMA wal_checkpoint(TRUNCATE)")
		largest = max(largest, sizeOf(t, path))
	}
	assert.Less(t, largest, int64(16<<20), "of 40 MiB that were written")
	count, err := l.RowCount(t.Context())
	require.NoError(t, err)
	assert.Zero(t, count)
	assert.Equal(t, 0, countSQLite(t, path, "command_log"))
	assert.Equal(t, 0, countSQLite(t, path, "origins"))
}

// The check is in the statement that deletes, whoever asks for what.
func TestTheSchemaRefusesToTruncatePastTheArchive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	l := openSQLite(t, path)
	appendRows(t, l, commands.Position{}, 5, 10)
	err := tryExecSQLite(t, path, "UPDATE log_archive SET truncated_idx = 3")
	require.ErrorContains(t, err, "CHECK")
	assert.Equal(t, 5, countSQLite(t, path, "command_log"))
}

func TestTruncationHoldsUpNoAppend(t *testing.T) {
	d := sqllogtest.Postgres(t)
	l := openPostgres(t, d)
	last := appendRows(t, l, commands.Position{}, 20, 100)
	archive(t, l, last)
	tx, err := d.Admin.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "UPDATE log_archive SET idx = idx")
	require.NoError(t, err)

	upTo, truncated := last.Index, make(chan error, 1)
	go func() {
		for {
			_, err := l.Truncate(t.Context(), upTo, 10)
			var timeout interface{ SQLState() string }
			if errors.As(err, &timeout) && timeout.SQLState() == "57014" {
				continue // it waited for the lock that this test holds
			}
			truncated <- err
			return
		}
	}()
	require.Eventually(t, func() bool {
		return d.String(t, "SELECT count(*) FROM pg_locks WHERE relation = 'log_archive'::regclass AND mode = 'RowExclusiveLock'") != "1"
	}, patience, time.Millisecond)
	last = appendRows(t, l, last, 10, 100) // while a truncation is under way
	require.NoError(t, tx.Commit())
	require.NoError(t, <-truncated)
	assert.Equal(t, "20", d.String(t, "SELECT count(*) FROM command_log"))
	assert.Equal(t, "20", d.String(t, "SELECT count(*) FROM origins"))
	assert.EqualValues(t, 30, last.Index)
}

// A call whose caller gave up may have truncated or not; the next goes on.
func TestATruncationThatIsCutOffGoesOn(t *testing.T) {
	for name, l := range map[string]*sqllog.Log{
		"sqlite": openSQLite(t, filepath.Join(t.TempDir(), "log.db")), "postgres": openPostgres(t, sqllogtest.Postgres(t)),
	} {
		last := appendRows(t, l, commands.Position{}, 40, 100)
		archive(t, l, last)
		for range 20 {
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			_, _ = l.Truncate(ctx, last.Index, 1) // either way
			a, err := l.Archive(t.Context())
			require.NoError(t, err, name)
			rows, err := l.Read(t.Context(), a.Truncated.Index, 100, 1<<20)
			require.NoError(t, err, name)
			require.Len(t, rows, int(last.Index-a.Truncated.Index), name)
		}
		drop(t, l, last.Index)
	}
}

// Whatever the planner believes, no statement looks at rows it does not need.
func TestLongTablesAreReadByTheirIndexes(t *testing.T) {
	d := sqllogtest.Postgres(t)
	l := openPostgres(t, d)
	const rows = 50_000
	for _, statement := range []string{
		"INSERT INTO command_log SELECT 0, i, i, i - 1, 0, 1, 1, i, '', 1, 1, 0, repeat('x', 100)::bytea FROM generate_series(1, $1::bigint) AS i",
		"INSERT INTO origins (log, node, epoch, seq, idx) SELECT 0, 1, 1, i, i FROM generate_series(1, $1::bigint) AS i",
	} {
		d.Exec(t, statement, rows)
	}
	archive(t, l, commands.Position{Index: rows, Row: rows})
	for _, known := range []string{"nothing", "everything"} {
		if known == "everything" {
			d.Exec(t, "ANALYZE command_log, origins, log_archive")
		}
		for name, query := range map[string]string{"read": sqllog.ReadQuery, "truncate": sqllog.PostgresTruncate} {
			plan := genericPlan(t, d, query)
			for _, whole := range []string{"Seq Scan on command_log", "Seq Scan on origins", "Hash", "Merge"} {
				assert.NotContains(t, plan, whole, "%s, the planner knows %s", name, known)
			}
		}
	}
}

// genericPlan is how Postgres would run a statement of three parameters.
func genericPlan(t *testing.T, d *sqllogtest.Database, query string) string {
	t.Helper()
	conn, err := d.Admin.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	for _, statement := range []string{"SET plan_cache_mode = force_generic_plan", "PREPARE q (bigint, bigint, bigint) AS " + query} {
		_, err := conn.ExecContext(t.Context(), statement, pgx.QueryExecModeSimpleProtocol)
		require.NoError(t, err)
	}
	rows, err := conn.QueryContext(t.Context(), "EXPLAIN EXECUTE q (1000, 1000, 4000000)", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	defer func() { require.NoError(t, rows.Close()) }()
	var plan strings.Builder
	for rows.Next() {
		var line string
		require.NoError(t, rows.Scan(&line))
		plan.WriteString(line + "\n")
	}
	require.NoError(t, rows.Err())
	_, err = conn.ExecContext(t.Context(), "DEALLOCATE q", pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
	return plan.String()
}
