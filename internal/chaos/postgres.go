package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

// postgres is a PostgreSQL server of this test alone, which may be crashed. It
// runs as the user postgres when the test runs as root, since it refuses to run
// as root. Its methods are for one goroutine at a time.
type postgres struct {
	bin, home  string // folders of its programs and of its data
	address    string // HOST:PORT
	credential *syscall.Credential

	running *exec.Cmd // nil while it is stopped
	exited  chan struct{}
	output  bytes.Buffer // of all its lives; read when none runs
}

// newPostgres makes an empty database cluster and starts it.
func newPostgres(ctx context.Context) (*postgres, error) {
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is good
	if len(bins) == 0 {
		return nil, errors.New("PostgreSQL is not installed below /usr/lib/postgresql: run scripts/install-missing postgresql")
	}
	home, err := os.MkdirTemp("", "picomq-chaos-postgres-")
	if err != nil {
		return nil, err
	}
	p := &postgres{bin: slices.Max(bins), home: home}
	if err := errors.Join(p.become(), p.initialize(ctx)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	if p.address, err = freeAddress(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	if err := p.start(ctx); err != nil {
		return nil, errors.Join(err, p.remove())
	}
	return p, nil
}

// become finds the user to run as.
func (p *postgres) become() error {
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
	p.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return os.Chown(p.home, int(uid), int(gid))
}

func (p *postgres) initialize(ctx context.Context) error {
	command := p.command(ctx, "initdb", "-D", p.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8", "-N")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	return nil
}

func (p *postgres) data() string { return filepath.Join(p.home, "data") }

func (p *postgres) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, filepath.Join(p.bin, program), args...)
	command.Dir = p.home
	if p.credential != nil {
		command.SysProcAttr = &syscall.SysProcAttr{Credential: p.credential}
	}
	return command
}

// url opens the database through an address, its own or that of a [proxy].
func (p *postgres) url(address string) string {
	return "postgres://postgres@" + address + "/postgres?sslmode=disable"
}

// start starts the server, recovers what was stopped in haste, and returns when
// it answers.
func (p *postgres) start(ctx context.Context) error {
	_, port, err := net.SplitHostPort(p.address)
	if err != nil {
		return err
	}
	// Not bound to ctx: it must outlive it, so that nodes can end in peace.
	p.running = p.command(context.WithoutCancel(ctx), "postgres",
		"-D", p.data(), "-p", port, "-k", p.home, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200")
	p.running.Stdout, p.running.Stderr = &p.output, &p.output
	if err := p.running.Start(); err != nil {
		return fmt.Errorf("start PostgreSQL: %w", err)
	}
	p.exited = make(chan struct{})
	go func(running *exec.Cmd, exited chan struct{}) {
		defer close(exited)
		_ = running.Wait() // how it ended is in its log
	}(p.running, p.exited)
	return p.answers(ctx)
}

// answers waits until the server answers a query.
func (p *postgres) answers(ctx context.Context) error {
	for {
		connection, err := pgx.Connect(ctx, p.url(p.address))
		if err == nil {
			return connection.Close(ctx)
		}
		select {
		case <-p.exited:
			return fmt.Errorf("PostgreSQL ended at its start: %w\n%s", err, p.output.Bytes())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// crash ends the server as `pg_ctl stop -m immediate` does: what it
// acknowledged is in its write-ahead log and nowhere else.
func (p *postgres) crash() error { return p.end(syscall.SIGQUIT) }

func (p *postgres) end(signal os.Signal) error {
	if p.running == nil {
		return nil
	}
	if err := p.running.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.exited
	p.running = nil
	return nil
}

// remove ends the server and deletes its data.
func (p *postgres) remove() error { return errors.Join(p.end(syscall.SIGINT), os.RemoveAll(p.home)) }

// freeAddress is a port of 127.0.0.1 that nobody listens on just now.
func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
