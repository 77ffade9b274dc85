package sqllogtest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// poolerBinary is where Debian has PgBouncer.
const poolerBinary = "/usr/sbin/pgbouncer"

// Pooler starts a PgBouncer in front of the database in a pool mode (session,
// transaction, statement), with further settings, and returns the URL that leads
// through it. It ends with the test, and fails it when there is no PgBouncer (see
// scripts/install-missing).
func (d *Database) Pooler(t testing.TB, mode string, settings ...string) string {
	t.Helper()
	u, err := url.Parse(d.URL)
	require.NoError(t, err)
	port := freePort(t)
	folder := t.TempDir()
	config := filepath.Join(folder, "pgbouncer.ini")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=%s port=%s user=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = %s
default_pool_size = 40
%s
`, u.Hostname(), u.Port(), u.User.Username(), port, mode, strings.Join(settings, "\n")), 0o600))
	args := []string{config}
	if os.Geteuid() == 0 { // PgBouncer does not run as root
		args = []string{"-u", "postgres", config}
		require.NoError(t, os.Chmod(config, 0o644))
	}
	cmd := exec.CommandContext(t.Context(), poolerBinary, args...)
	log, err := os.Create(filepath.Join(folder, "log"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	require.NoError(t, cmd.Start(), "scripts/install-missing pgbouncer")
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		<-ended // the test's context is over
		_ = log.Close()
	})
	address := fmt.Sprintf("127.0.0.1:%d", port)
	require.Eventually(t, func() bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 30*time.Second, 5*time.Millisecond, "PgBouncer does not listen")
	u.Host = address
	return u.String()
}

// freePort is a port of 127.0.0.1 that nobody listens on.
func freePort(t testing.TB) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().(*net.TCPAddr).Port
}
