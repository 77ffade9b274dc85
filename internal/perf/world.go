package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/picomq/picomq/internal/process"
)

// startTimeout bounds the start of a server.
const startTimeout = 30 * time.Second

// world is what rows measure with.
type world struct {
	duration time.Duration // of one load
	profiles string        // folder, or empty
	binary   string
	folder   string // goes with the world
	servers  []func()
	made     int
	filled   map[string]string // folders that rows share, by what is in them
}

// newWorld makes a world and builds its binary, unless it is given one.
func newWorld(ctx context.Context, duration time.Duration, profiles, binary string) (*world, error) {
	folder, err := os.MkdirTemp("", "picomq-perf-")
	if err != nil {
		return nil, err
	}
	w := &world{duration: duration, profiles: profiles, binary: binary, folder: folder}
	if profiles != "" {
		err = os.MkdirAll(profiles, 0o755)
	}
	if err == nil && binary == "" {
		w.binary, err = process.Build(ctx, folder, "failpoint") // whose bucket may be made slow
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *world) close() {
	w.stopServers()
	_ = os.RemoveAll(w.folder)
}

// dir makes a folder that goes with the world.
func (w *world) dir(name string) (string, error) {
	w.made++
	dir := filepath.Join(w.folder, fmt.Sprintf("%s-%d", name, w.made))
	return dir, os.MkdirAll(dir, 0o755)
}

// serve starts a server on embedded defaults but for args and env, and waits
// until it is ready.
func (w *world) serve(ctx context.Context, env []string, args ...string) (*process.Server, error) {
	dir, err := w.dir("data")
	if err != nil {
		return nil, err
	}
	s, stop, err := w.serveIn(ctx, dir, env, args...)
	w.servers = append(w.servers, func() {
		stop()
		_ = os.RemoveAll(dir)
	})
	return s, err
}

// serveIn is serve on a folder that the caller has, perhaps of an earlier server.
// The caller calls stop, which kills the server.
func (w *world) serveIn(ctx context.Context, dir string, env []string, args ...string) (s *process.Server, stop func(), err error) {
	args = append([]string{"--data", dir, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "warn", "--pprof"}, args...)
	s, err = process.Launch(ctx, process.Config{Binary: w.binary, Args: args, Env: env})
	if err != nil {
		return nil, func() {}, err
	}
	stop = func() {
		_ = s.Kill()
		<-s.Exited()
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return s, stop, s.Ready(starting)
}

// stopServers kills what serve and baseline started and removes its folders.
func (w *world) stopServers() {
	for _, stop := range w.servers {
		stop()
	}
	w.servers = nil
}

// profiled runs do while the server is profiled under a name, if that was asked
// for.
func (w *world) profiled(ctx context.Context, s *process.Server, name string, do func() error) error {
	if w.profiles == "" {
		return do()
	}
	seconds := max(1, int(w.duration.Seconds())-1)
	cpu := make(chan error, 1)
	go func() {
		cpu <- w.fetch(ctx, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", s.AdminURL, seconds), name+".cpu")
	}()
	err := errors.Join(do(), <-cpu)
	for _, kind := range []string{"allocs", "heap", "block", "mutex"} {
		err = errors.Join(err, w.fetch(ctx, s.AdminURL+"/debug/pprof/"+kind, name+"."+kind))
	}
	return err
}

// fetch writes a page into the folder of profiles.
func (w *world) fetch(ctx context.Context, url, name string) error {
	return getPage(ctx, url, func(body io.Reader) error {
		file, err := os.Create(filepath.Join(w.profiles, name))
		if err != nil {
			return err
		}
		_, err = io.Copy(file, body)
		return errors.Join(err, file.Close())
	})
}

// getPage hands a page to read. Any answer but 200 is an error.
func getPage(ctx context.Context, url string, read func(body io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, answer.Status)
	}
	return read(answer.Body)
}

// alternate runs measured and baseline in turn, rounds times, and returns the
// medians of what they report.
func alternate(rounds int, measured, baseline func() (float64, error)) (m, b float64, err error) {
	var ms, bs []float64
	for range rounds {
		for _, side := range []struct {
			run func() (float64, error)
			to  *[]float64
		}{{baseline, &bs}, {measured, &ms}} {
			v, err := side.run()
			if err != nil {
				return 0, 0, err
			}
			*side.to = append(*side.to, v)
		}
	}
	return median(ms), median(bs), nil
}
