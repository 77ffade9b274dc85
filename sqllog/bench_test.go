package sqllog_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

func BenchmarkAppendSQLite(b *testing.B) {
	benchmarkAppend(b, openSQLite(b, filepath.Join(b.TempDir(), "log.db")))
}

func BenchmarkAppendPostgres(b *testing.B) {
	benchmarkAppend(b, openPostgres(b, sqllogtest.Postgres(b)))
}

func BenchmarkRead10SQLite(b *testing.B) {
	benchmarkRead(b, openSQLite(b, filepath.Join(b.TempDir(), "log.db")))
}

func BenchmarkRead10Postgres(b *testing.B) {
	benchmarkRead(b, openPostgres(b, sqllogtest.Postgres(b)))
}

// benchmarkAppend appends rows of 4 KiB one after the other, durably.
func benchmarkAppend(b *testing.B, l *sqllog.Log) {
	in := commands.Insert{Origin: commands.Origin{Node: 1, Epoch: 1}, Payload: make([]byte, 4096)}
	for b.Loop() {
		in.Origin.Seq++
		at, err := l.Append(b.Context(), in)
		require.NoError(b, err)
		in.Applied = at.Position
	}
}

func benchmarkRead(b *testing.B, l *sqllog.Log) {
	for seq := range uint64(2000) {
		_, err := l.Append(b.Context(), commands.Insert{Origin: commands.Origin{Node: 1, Epoch: 1, Seq: seq}, Payload: make([]byte, 4096)})
		require.NoError(b, err)
	}
	var after commands.Index
	for b.Loop() {
		rows, err := l.Read(b.Context(), after, 10, 1<<20)
		require.NoError(b, err)
		require.Len(b, rows, 10)
		after = (after + 10) % 190
	}
}
