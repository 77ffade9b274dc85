package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/internal/process"
)

// Config says what to run.
type Config struct {
	Binary string // built with the tag failpoint
	Data   string // data folder, empty or new
	Kills  int
	Seed   uint64
	Log    func(format string, args ...any) // told of each round
}

const (
	// killsPerRound is how many lives share their streams. In the last of them the
	// shared streams are closed while others append to them.
	killsPerRound = 10
	// lifeLimit bounds one life of the server with its check, which takes
	// seconds on a machine that does nothing else: past it something hangs.
	lifeLimit = 10 * time.Minute
)

// run is a run under way.
type run struct {
	Config
	tally  tally
	report Report
	rounds []*round
}

// Run kills the server as often as it is told and checks it after each
// restart. The error is the first promise that was broken, with the server's
// log where that helps.
func Run(ctx context.Context, c Config) (*Report, error) {
	r := &run{Config: c, report: Report{Seed: c.Seed, Kills: map[string]int{}}}
	kills := plan(newRandom(c.Seed), c.Kills)
	for len(kills) > 0 {
		n := min(len(kills), killsPerRound)
		if err := r.round(ctx, kills[:n]); err != nil {
			return r.finish(), err
		}
		kills = kills[n:]
		c.Log("%v", r.finish())
	}
	err := r.whole(ctx, "the last check", func(ctx context.Context, clients *clients) error {
		for _, round := range r.rounds {
			if err := round.check(ctx, clients, true); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = r.inspect(ctx)
	}
	return r.finish(), err
}

// round runs some lives on streams of their own and settles what they left.
func (r *run) round(ctx context.Context, kills []kill) error {
	round := newRound(r.Seed, len(r.rounds), &r.tally)
	r.rounds = append(r.rounds, round)
	for i, k := range kills {
		if err := r.life(ctx, round, k, i == len(kills)-1); err != nil {
			return fmt.Errorf("round %d, life %d, to be killed %v (count %d): %w", len(r.rounds)-1, i, k.kind, k.count, err)
		}
		r.report.Kills[k.kind.String()]++
	}
	return r.whole(ctx, fmt.Sprintf("the end of round %d", len(r.rounds)-1), func(ctx context.Context, c *clients) error {
		return settle(ctx, round, c)
	})
}

// settle checks what the last kill left, sends again what may be, closes the
// shared streams, and checks everything.
func settle(ctx context.Context, round *round, c *clients) error {
	if err := round.check(ctx, c, true); err != nil {
		return err
	}
	if err := round.create(ctx, c); err != nil {
		return err
	}
	if err := round.resolve(ctx, c); err != nil {
		return err
	}
	for i := range round.shared {
		if err := round.close(ctx, c, i); err != nil {
			return err
		}
	}
	if err := round.check(ctx, c, true); err != nil {
		return err
	}
	return round.catchUp(ctx, c)
}

// life starts the server, checks it, puts it under load and sees it die. In the
// last life of a round the load closes the shared streams.
func (r *run) life(ctx context.Context, round *round, k kill, last bool) error {
	ctx, cancel := context.WithTimeout(ctx, lifeLimit)
	defer cancel()
	p, err := r.launch(ctx, k.environment())
	if err != nil {
		return err
	}
	defer end(p)
	if k.kind == killStarting {
		if err := killAfter(ctx, p, k.delay); err != nil {
			return err
		}
		return killed(ctx, p)
	}
	if err := r.ready(ctx, p); err != nil {
		return err
	}
	c := connect(p.URL, true)
	defer c.close()
	if err := round.check(ctx, c, false); err != nil {
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	if err := round.create(ctx, c); err != nil {
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	if err := r.load(ctx, round, k, last, p, c); err != nil {
		return fmt.Errorf("%w\n%s", err, p.Log())
	}
	return killed(ctx, p)
}

// load lets writers and followers work until the server dies, which it does by
// itself or by the hand of this function.
func (r *run) load(ctx context.Context, round *round, k kill, last bool, p *process.Server, c *clients) error {
	g, ctx := errgroup.WithContext(ctx)
	if k.kind == killOutside {
		rung := r.tally.after(k.count)
		g.Go(func() error { return when(ctx, rung, p, func() error { return killAfter(ctx, p, k.delay) }) })
	}
	for i, w := range round.writers {
		g.Go(func() error { return mourn(ctx, p, w.live(ctx, c.pick(i))) })
	}
	for i, f := range round.followers {
		g.Go(func() error { return mourn(ctx, p, f.live(ctx, c.pick(i), func(int) bool { return false })) })
	}
	if last {
		for i := range round.shared {
			rung := r.tally.after(closeAfter * (i + 1))
			g.Go(func() error { return when(ctx, rung, p, func() error { return mourn(ctx, p, round.close(ctx, c, i)) }) })
		}
	}
	return g.Wait()
}

// closeAfter is how many acknowledgements lie between the closes of a round's
// shared streams: few, so that most come before the kill.
const closeAfter = 10

// when does something at an alarm, unless the server dies before.
func when(ctx context.Context, rung <-chan struct{}, p *process.Server, do func() error) error {
	select {
	case <-rung:
		return do()
	case <-p.Exited():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// mourn takes a lost connection for what it should be, the server's death, and
// waits for that to be seen. A server that lives may not drop connections.
func mourn(ctx context.Context, p *process.Server, err error) error {
	if !errors.Is(err, errLost) {
		return err
	}
	if p.IsReady(ctx) {
		return fmt.Errorf("the server is alive and dropped a connection: %w", err)
	}
	if _, waited := p.Wait(ctx); waited != nil {
		return errors.Join(err, waited)
	}
	return nil
}

// whole gives the server a life that ends with SIGTERM and exit code 0.
func (r *run) whole(ctx context.Context, what string, do func(context.Context, *clients) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*lifeLimit)
	defer cancel()
	p, err := r.launch(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer end(p)
	if err := r.ready(ctx, p); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	c := connect(p.URL, true)
	defer c.close()
	if err := do(ctx, c); err != nil {
		return fmt.Errorf("%s: %w\n%s", what, err, p.Log())
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	state, err := p.Wait(ctx)
	if err == nil && state.ExitCode() != 0 {
		err = fmt.Errorf("SIGTERM ended the server with %v\n%s", state, p.Log())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (r *run) launch(ctx context.Context, environment []string) (*process.Server, error) {
	return process.Launch(ctx, process.Config{
		Binary: r.Binary, Env: append(environment, "PICOMQ_HASTE=1"),
		Args: []string{"--data", r.Data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "warn"},
	})
}

// ready waits for readiness and notes how long the recovery took.
func (r *run) ready(ctx context.Context, p *process.Server) error {
	if err := p.Ready(ctx); err != nil {
		return err
	}
	r.report.LongestRecovery = max(r.report.LongestRecovery, p.Age())
	return nil
}

// end makes sure that a process is gone, whatever happened.
func end(p *process.Server) {
	_ = p.Kill() // it may be gone
	<-p.Exited()
}

// killAfter kills the server from outside after a moment.
func killAfter(ctx context.Context, p *process.Server, delay time.Duration) error {
	select {
	case <-time.After(delay):
		return p.Kill()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// killed waits for the end of a server, which must have been a kill -9.
func killed(ctx context.Context, p *process.Server) error {
	state, err := p.Wait(ctx)
	if err != nil {
		return err
	}
	if !wasKilled(state) {
		return fmt.Errorf("the server was not killed but ended by itself: %v\n%s", state, p.Log())
	}
	return nil
}

func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// finish fills the report from what was counted.
func (r *run) finish() *Report {
	report := &r.report
	report.Acknowledged, report.Records = r.tally.acknowledged.Load(), r.tally.records.Load()
	report.Duplicates, report.Recovered = r.tally.duplicates.Load(), r.tally.recovered.Load()
	report.TooLate = r.tally.tooLate.Load()
	report.Conditions, report.Unavailable = r.tally.conditions.Load(), r.tally.unavailable.Load()
	report.Streams, report.Closed, report.Lost, report.Followed = 0, 0, 0, 0
	report.Forks, report.Inherited, report.Cut, report.Deleted, report.Kept = 0, 0, 0, 0, 0
	for _, round := range r.rounds {
		for _, f := range round.followers {
			report.Followed += int64(len(f.content))
		}
		for _, l := range round.streams(true) {
			report.add(l)
		}
	}
	return report
}
