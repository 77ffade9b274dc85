package cli_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

func TestRetention(t *testing.T) {
	s := newShell(t)
	s.ok("", "create", "a", "--content-type", "text/plain", "--retention-age", "7d", "--retention-bytes", "10")
	require.Equal(t, "name   a\ntype   text/plain\nstart  0\nnext   0\nstate  open\nkeeps  7d, and 10 bytes at most\n", s.ok("", "head", "a"))
	require.JSONEq(t, `{"name":"a","content_type":"text/plain","start_seq":0,"next_seq":0,"closed":false,"retention_age":604800,"retention_bytes":10}`,
		s.ok("", "head", "--json", "a"))
	require.Contains(t, s.run("", "create", "a", "--content-type", "text/plain", "--retention-age", "168h").err, "exists with this configuration")
	s.fails(1, "another configuration", "create", "a", "--content-type", "text/plain", "--retention-age", "8d")

	s.ok("", "fork", "a", "b", "--retention-age", "90s")
	require.Contains(t, s.ok("", "head", "b"), "keeps   90s, and 10 bytes at most\nforked  from a at 0\n")
	s.ok("", "create", "c", "--retention-bytes", "1000")
	require.Contains(t, s.ok("", "head", "c"), "keeps  1000 bytes at most\n")
	s.ok("", "create", "d", "--retention-age", "36h")
	require.Contains(t, s.ok("", "head", "d"), "keeps  36h\n")
	require.Contains(t, s.run("", "create", "d").err, "exists with this configuration")

	s.ok("gone\nten bytes.\n", "append", "a")
	s.server.Streams.Retain(stream.Retention{})
	s.fails(1, "trimmed away", "read", "--from", "0", "a")
	require.Equal(t, "ten bytes.\n", s.ok("", "read", "a"))
	s.server.Streams.Advance(7*24*time.Hour + time.Millisecond)
	s.server.Streams.Retain(stream.Retention{})
	require.Contains(t, s.ok("", "head", "a"), "start  2\nnext   2\n")

	s.with("--protocol", "ds").fails(1, "Durable Streams has no retention; use the Pico protocol", "create", "e", "--retention-age", "1d")
}

// TestRetentionOfTheServer: its settings are not those of the streams that are
// created next to it.
func TestRetentionOfTheServer(t *testing.T) {
	s := newShell(t)
	t.Setenv("PICOMQ_RETENTION_AGE", "7d")
	t.Setenv("PICOMQ_RETENTION_BYTES", "lots")
	s.ok("", "create", "a")
	require.NotContains(t, s.ok("", "head", "a"), "keeps")
}
