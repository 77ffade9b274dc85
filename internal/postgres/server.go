package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// firstPort and ports are where servers listen: outside of what a kernel gives
	// to connections, which could take the port of a server that is stopped.
	firstPort, ports = 20000, 12000
	// portsTried is how many ports a first start tries. One that was free may be
	// taken a moment later.
	portsTried = 5
	// askAgain is how often a server that does not do yet what is waited for is
	// asked again.
	askAgain = 5 * time.Millisecond
)

// Server is one PostgreSQL server. Its methods are for one goroutine at a time,
// but for [Server.Query].
type Server struct {
	// Address is HOST:PORT, and URL the database postgres there. Neither changes.
	Address, URL string

	bin, home  string // folders of its programs, and of all that it writes
	name       string // its cluster_name, by which a primary knows a standby
	port       string
	credential *syscall.Credential // whom it runs as; nil for the test's own user

	running *exec.Cmd     // nil while it is stopped
	exited  chan struct{} // closed when every process of it is gone
	output  bytes.Buffer  // what it said in all its lives; read when none runs
}

// New makes a server without data and starts it.
func New(ctx context.Context) (*Server, error) {
	s, err := prepare("primary")
	if err != nil {
		return nil, err
	}
	err = s.run(ctx, "initdb", "-D", s.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-N")
	return s.begin(ctx, err)
}

// prepare finds the programs and makes the folder of a server.
func prepare(name string) (*Server, error) {
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is good
	if len(bins) == 0 {
		return nil, errors.New("PostgreSQL is not installed below /usr/lib/postgresql: run scripts/install-missing postgresql")
	}
	// Not in a test's own folder, which the server's user may not enter.
	home, err := os.MkdirTemp("", "picomq-postgres-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: slices.Max(bins), home: home, name: name}
	if err := s.become(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	return s, nil
}

// become finds the user to run as.
func (s *Server) become() error {
	if os.Geteuid() != 0 {
		return nil
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return err
	}
	s.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(s.home, int(uid), int(gid))
}

// begin starts a server whose data was made for the first time, and removes it
// when it has none or does not start.
func (s *Server) begin(ctx context.Context, err error) (*Server, error) {
	if err == nil {
		for range portsTried {
			s.listenOn(firstPort + rand.IntN(ports))
			if err = s.Start(ctx); err == nil || ctx.Err() != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Remove())
	}
	return s, nil
}

func (s *Server) listenOn(port int) {
	s.port = strconv.Itoa(port)
	s.Address = net.JoinHostPort("127.0.0.1", s.port)
	s.URL = URL(s.Address)
}

// URL opens the database postgres at an address, a server's own or one that leads
// there. Several with commas between are tried one after the other.
func URL(addresses string) string {
	return "postgres://postgres@" + addresses + "/postgres?sslmode=disable"
}

func (s *Server) data() string { return filepath.Join(s.home, "data") }

// command is one of the server's programs, or one of the system's, as its user.
func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	if own := filepath.Join(s.bin, program); exists(own) {
		program = own
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = s.home
	if s.credential != nil {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	}
	return command
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return !errors.Is(err, fs.ErrNotExist)
}

// run runs a command that ends. Its error holds what the command said.
func (s *Server) run(ctx context.Context, program string, args ...string) error {
	if output, err := s.command(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", program, err, output)
	}
	return nil
}

// Start starts a stopped server, which recovers if it crashed, and returns when
// it answers. It runs on when ctx ends.
func (s *Server) Start(ctx context.Context) error {
	s.running = s.command(context.WithoutCancel(ctx), "postgres", "-D", s.data(), "-p", s.port, "-k", s.home,
		"-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c", "cluster_name="+s.name)
	// Through a pipe, which each of its processes holds: Wait returns when the last
	// one is gone, also after a kill of the first, and the next start meets none.
	s.running.Stdout, s.running.Stderr = &s.output, &s.output
	if err := s.running.Start(); err != nil {
		s.running = nil
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	s.exited = make(chan struct{})
	go func(running *exec.Cmd, exited chan struct{}) {
		defer close(exited)
		_ = running.Wait() // how it ended is in its output
	}(s.running, s.exited)
	if err := s.answers(ctx); err != nil {
		return errors.Join(err, s.Crash())
	}
	return nil
}

// answers waits until the server answers a query, or has ended.
func (s *Server) answers(ctx context.Context) error {
	return wait(ctx, func() error {
		select {
		case <-s.exited:
			return fmt.Errorf("PostgreSQL ended at its start:\n%s", s.output.Bytes())
		default:
		}
		own, err := s.Query(ctx, "SELECT current_setting('data_directory') = $1", s.data())
		if err == nil && own != "true" {
			return fmt.Errorf("another server listens on %s", s.Address)
		}
		return again(err)
	})
}

// Stop ends the server in peace: sessions are ended, and standbys have received
// everything.
func (s *Server) Stop() error { return s.end(syscall.SIGINT) }

// Crash ends the server at once: what it committed is in its write-ahead log and
// nowhere else.
func (s *Server) Crash() error { return s.end(syscall.SIGQUIT) }

// Kill is kill -9 of the server, whose sessions end themselves when they notice.
func (s *Server) Kill() error { return s.end(syscall.SIGKILL) }

// end returns when every process of the server is gone.
func (s *Server) end(signal os.Signal) error {
	if s.running == nil {
		return nil
	}
	if err := s.running.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-s.exited
	s.running = nil
	return nil
}

// Copy keeps what a stopped server holds, under a name.
func (s *Server) Copy(ctx context.Context, name string) error {
	return s.run(ctx, "cp", "-a", s.data(), filepath.Join(s.home, name))
}

// Restore puts a copy in the place of what a stopped server holds.
func (s *Server) Restore(ctx context.Context, name string) error {
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	return s.run(ctx, "cp", "-a", filepath.Join(s.home, name), s.data())
}

// Remove ends the server and deletes all that it wrote.
func (s *Server) Remove() error { return errors.Join(s.Crash(), os.RemoveAll(s.home)) }

// Query runs a statement over a connection of its own and returns the first column
// of its first row as text: true, 12, or nothing for no row and for NULL.
func (s *Server) Query(ctx context.Context, statement string, args ...any) (value string, err error) {
	connection, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, connection.Close(ctx)) }()
	rows, err := connection.Query(ctx, statement, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	if rows.Next() && len(rows.FieldDescriptions()) > 0 {
		values, err := rows.Values()
		if err != nil {
			return "", err
		}
		if values[0] != nil {
			value = fmt.Sprint(values[0])
		}
	}
	rows.Close()
	return value, rows.Err()
}

// Configure changes a setting of a running server, for good, and returns when new
// sessions have it.
func (s *Server) Configure(ctx context.Context, setting, value string) error {
	for _, statement := range []string{"ALTER SYSTEM SET " + setting + " = '" + value + "'", "SELECT pg_reload_conf()"} {
		if _, err := s.Query(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return s.await(ctx, value, "SELECT current_setting($1)", setting)
}

// await asks until the answer is as it should be.
func (s *Server) await(ctx context.Context, want, statement string, args ...any) error {
	return wait(ctx, func() error {
		got, err := s.Query(ctx, statement, args...)
		if err == nil && got != want {
			err = again(fmt.Errorf("%s %v: %q is not %q yet", statement, args, got, want))
		}
		return err
	})
}

// notYet is an error that may pass.
type notYet struct{ error }

// again marks an error as one that may pass.
func again(err error) error {
	if err == nil {
		return nil
	}
	return notYet{err}
}

// wait tries until there is no error, or one that will not pass, or ctx ends.
func wait(ctx context.Context, try func() error) error {
	for {
		err := try()
		if !errors.As(err, new(notYet)) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(askAgain):
		}
	}
}
