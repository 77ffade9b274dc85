package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// pollEvery is how often a starting server is asked whether it is ready.
const pollEvery = 2 * time.Millisecond

// Config says what to run.
type Config struct {
	Binary string
	Args   []string // after "serve"
	Env    []string // "NAME=value", beside the environment of the test
	Dir    string   // working folder; default that of the test
}

// Server is one process of `picomq serve`. Its methods are safe for concurrent
// use.
type Server struct {
	// URL and AdminURL are where it listens. They are set once [Server.Ready] has
	// returned nil; AdminURL is empty for a server without an admin address.
	URL, AdminURL string

	started time.Time
	command *exec.Cmd
	stderr  *tail
	printed chan struct{} // closed when both addresses were printed or stdout ended
	exited  chan struct{} // closed when the process is gone
}

// Launch starts a server and returns without waiting for it. The process is
// killed when ctx ends. Callers must wait for [Server.Exited] in the end.
func Launch(ctx context.Context, c Config) (*Server, error) {
	s := &Server{
		command: exec.CommandContext(ctx, c.Binary, append([]string{"serve"}, c.Args...)...),
		stderr:  &tail{limit: keptLog},
		printed: make(chan struct{}),
		exited:  make(chan struct{}),
	}
	s.command.Env = append(os.Environ(), c.Env...)
	s.command.Dir = c.Dir
	s.command.Stderr = s.stderr
	stdout, err := s.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Binary, err)
	}
	s.started = time.Now()
	if err := s.command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Binary, err)
	}
	go s.watch(stdout)
	return s, nil
}

// watch reads the addresses, then waits for the end.
func (s *Server) watch(stdout io.Reader) {
	defer close(s.exited)
	s.readAddresses(stdout)
	close(s.printed)
	_, _ = io.Copy(io.Discard, stdout)
	_ = s.command.Wait() // how it ended is in ProcessState
}

func (s *Server) readAddresses(stdout io.Reader) {
	lines := bufio.NewReader(stdout)
	for s.AdminURL == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		if what, url, found := strings.Cut(strings.TrimSpace(line), " on "); found {
			switch what {
			case "listening":
				s.URL = url
			case "admin":
				s.AdminURL = url
			}
		}
	}
}

// Ready waits until the server says that it is ready for requests. The error
// says why it never will be: it ended, or ctx did.
func (s *Server) Ready(ctx context.Context) error {
	select {
	case <-s.printed:
	case <-ctx.Done():
		return fmt.Errorf("the server printed no address: %w\n%s", context.Cause(ctx), s.Log())
	}
	if s.AdminURL == "" {
		return s.ended("before it was ready")
	}
	for {
		status, err := s.readiness(ctx)
		if err == nil && status == http.StatusOK {
			return nil
		}
		select {
		case <-s.exited:
			return s.ended("before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready (status %d, %w): %w\n%s", status, err, context.Cause(ctx), s.Log())
		case <-time.After(pollEvery):
		}
	}
}

// IsReady asks the server once whether it is ready. One that is gone is not.
func (s *Server) IsReady(ctx context.Context) bool {
	status, err := s.readiness(ctx)
	return err == nil && status == http.StatusOK
}

func (s *Server) readiness(ctx context.Context) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.AdminURL+"/ready", http.NoBody)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	return answer.StatusCode, nil
}

func (s *Server) ended(when string) error {
	<-s.exited
	return fmt.Errorf("the server ended (%v) %s\n%s", s.command.ProcessState, when, s.Log())
}

// Age is the time since the process was started.
func (s *Server) Age() time.Duration { return time.Since(s.started) }

// Signal sends a signal. A process that is gone already is no error.
func (s *Server) Signal(signal os.Signal) error {
	if err := s.command.Process.Signal(signal); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Kill ends the process as kill -9 does: no drain, no flush, no goodbye.
func (s *Server) Kill() error { return s.Signal(os.Kill) }

// Exited is closed when the process is gone.
func (s *Server) Exited() <-chan struct{} { return s.exited }

// Wait waits for the end of the process and tells how it ended.
func (s *Server) Wait(ctx context.Context) (*os.ProcessState, error) {
	select {
	case <-s.exited:
		return s.command.ProcessState, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("the server does not end: %w\n%s", context.Cause(ctx), s.Log())
	}
}

// Log is the end of what the server wrote to standard error, at most 64 KiB.
func (s *Server) Log() string { return s.stderr.String() }

// keptLog bounds the log kept of one server, in bytes.
const keptLog = 64 << 10

// tail keeps the last bytes written to it.
type tail struct {
	limit int

	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if extra := len(t.text) - t.limit; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
