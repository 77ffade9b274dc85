package sqllog_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// TestALogThatIsOnlyRead is read with no more rights than that takes, and stays as
// it is.
func TestALogThatIsOnlyRead(t *testing.T) {
	d := sqllogtest.Postgres(t)
	file := "sqlite://" + filepath.Join(t.TempDir(), "log.db")
	for _, url := range []string{d.URL, file} {
		_, err := sqllog.Open(t.Context(), url, sqllog.Options{ReadOnly: true, Timeout: patience})
		require.Error(t, err, "there is none")
		l, err := sqllog.Open(t.Context(), url, sqllog.Options{Timeout: patience})
		require.NoError(t, err)
		_, err = l.Append(t.Context(), commands.Insert{Payload: []byte("p")})
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
	for _, url := range []string{d.Role(t, "SELECT ON ALL TABLES IN SCHEMA"), file} {
		l, err := sqllog.Open(t.Context(), url, sqllog.Options{ReadOnly: true, Timeout: patience})
		require.NoError(t, err)
		rows, err := l.Read(t.Context(), 0, 10, 1000)
		require.NoError(t, err)
		require.Len(t, rows, 1)
		_, err = l.Append(t.Context(), commands.Insert{Payload: []byte("q")})
		require.Error(t, err)
		require.NoError(t, l.Close())
	}
}
