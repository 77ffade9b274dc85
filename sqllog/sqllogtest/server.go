package sqllogtest

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Server is a PostgreSQL of one test, which may stop, start, and lose what it
// wrote.
type Server struct {
	// URL is its empty database. It stays the same over restarts.
	URL string

	t      testing.TB
	bin    string
	folder string // everything of it
	port   int
}

// StartServer starts a PostgreSQL of its own for a test. It fails the test when
// none is installed.
func StartServer(t testing.TB) *Server {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	require.NoError(t, err)
	require.NotEmpty(t, found, "scripts/install-missing postgresql")
	slices.Sort(found)
	// Not t.TempDir, whose parents the server's user may not enter.
	folder, err := os.MkdirTemp("", "picomq-server-")
	require.NoError(t, err)
	s := &Server{t: t, bin: found[len(found)-1], folder: folder, port: freePort(t)}
	s.URL = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
	if os.Geteuid() == 0 {
		s.run(false, "chown", "postgres:", folder)
	}
	t.Cleanup(func() {
		s.run(true, filepath.Join(s.bin, "pg_ctl"), "-D", s.data(), "-m", "immediate", "-w", "stop")
		require.NoError(t, os.RemoveAll(folder))
	})
	s.must("initdb", "-D", s.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-N")
	s.Start()
	return s
}

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

// run runs a command as the server's user. The test's context may be over.
func (s *Server) run(mayFail bool, name string, args ...string) {
	s.t.Helper()
	command := append([]string{name}, args...)
	if os.Geteuid() == 0 && name != "chown" {
		command = append([]string{"runuser", "-u", "postgres", "--"}, command...)
	}
	cmd := exec.CommandContext(context.Background(), command[0], command[1:]...)
	cmd.Dir = s.folder
	log, err := os.OpenFile(filepath.Join(s.folder, "commands"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(s.t, err)
	defer func() { _ = log.Close() }()
	// A file: a pipe would stay open as long as the server that it starts.
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil && !mayFail {
		said, _ := os.ReadFile(log.Name())
		require.NoError(s.t, err, "%s", said)
	}
}

func (s *Server) must(tool string, args ...string) {
	s.t.Helper()
	s.run(false, filepath.Join(s.bin, tool), args...)
}

// Start starts it, after Stop, and waits until it takes connections.
func (s *Server) Start() {
	s.t.Helper()
	s.must("pg_ctl", "-D", s.data(), "-l", filepath.Join(s.folder, "log"), "-w",
		"-o", fmt.Sprintf("-p %d -k %s -c listen_addresses=127.0.0.1", s.port, s.folder), "start")
}

// Stop stops it: "fast" ends sessions, "immediate" is a crash.
func (s *Server) Stop(mode string) {
	s.t.Helper()
	s.must("pg_ctl", "-D", s.data(), "-m", mode, "-w", "stop")
}

// Copy keeps what a stopped server holds, under a name.
func (s *Server) Copy(name string) {
	s.t.Helper()
	s.run(false, "cp", "-a", s.data(), filepath.Join(s.folder, name))
}

// Restore puts a copy in the place of what a stopped server holds.
func (s *Server) Restore(name string) {
	s.t.Helper()
	s.run(false, "rm", "-rf", s.data())
	s.run(false, "cp", "-a", filepath.Join(s.folder, name), s.data())
}

// Admin is a pool of plain connections to it.
func (s *Server) Admin(t testing.TB) *sql.DB {
	t.Helper()
	admin, err := sql.Open("pgx", s.URL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close()) })
	return admin
}
