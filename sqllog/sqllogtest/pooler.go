package sqllogtest

import (
	"fmt"
	"math/rand/v2"
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

const (
	// firstPort and ports are where it listens, outside of what a kernel gives to
	// connections, and portsTried how many are tried: any may be taken.
	firstPort, ports = 20000, 12000
	portsTried       = 5
)

// Pooler starts a PgBouncer in front of the database in a pool mode (session,
// transaction, statement), with further settings, and returns the URL that leads
// through it. It ends with the test, and fails it when there is no PgBouncer (see
// scripts/install-missing).
func (d *Database) Pooler(t testing.TB, mode string, settings ...string) string {
	t.Helper()
	u, err := url.Parse(d.URL)
	require.NoError(t, err)
	said := ""
	for range portsTried {
		port := firstPort + rand.IntN(ports)
		if said = d.startPooler(t, u, port, mode, settings); said == "" {
			u.Host = fmt.Sprintf("127.0.0.1:%d", port)
			return u.String()
		}
	}
	require.FailNow(t, "PgBouncer does not listen", "%s", said)
	return ""
}

// startPooler starts a PgBouncer in front of the database of a URL, and returns
// nothing once it listens on a port, or what it said before it ended.
func (d *Database) startPooler(t testing.TB, u *url.URL, port int, mode string, settings []string) (said string) {
	t.Helper()
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
	for {
		text, err := os.ReadFile(log.Name())
		require.NoError(t, err)
		if strings.Contains(string(text), fmt.Sprintf("listening on 127.0.0.1:%d", port)) {
			return ""
		}
		select {
		case <-ended:
			return string(text)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
