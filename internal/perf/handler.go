package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// handlerArgument makes this binary the process of a baseline.
const handlerArgument = "baseline-handler"

// baseline starts a handler that does the least of what a server must do, in a
// process of its own, and returns its URL. Kinds are the keys of [handlers].
func (w *world) baseline(ctx context.Context, kind string) (url string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, self, handlerArgument, kind)
	command.Stderr = os.Stderr
	if command.Dir, err = w.dir("baseline"); err != nil {
		return "", err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := command.Start(); err != nil {
		return "", err
	}
	w.servers = append(w.servers, func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = os.RemoveAll(command.Dir)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the baseline's handler printed no address: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// handlers are the baselines, by kind.
var handlers = map[string]http.HandlerFunc{
	// discard reads what it is sent and says that it was done.
	"discard": func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusCreated)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	},
	"loop":  newLoop().ServeHTTP,
	"idle":  serveIdle,
	"send":  sendFromMemory,
	"store": serveStore,
}

// serveBaseline is the process of a baseline. It ends when it is killed.
func serveBaseline(args []string) {
	handler, ok := handlers[strings.Join(args, " ")]
	if !ok {
		fmt.Fprintln(os.Stderr, "perf: no such baseline:", args)
		os.Exit(2)
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, "perf:", err)
		os.Exit(1)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, "perf:", server.Serve(listener))
}

// median is the middle of some values.
func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}
