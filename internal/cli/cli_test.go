package cli_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/picomq/picomq/internal/cli"
	"github.com/picomq/picomq/internal/memserver"
	"github.com/picomq/picomq/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// shell runs commands against one server.
type shell struct {
	t      *testing.T
	server *memserver.Server
	flags  []string // of every command
}

func newShell(t *testing.T, flags ...string) *shell {
	t.Helper()
	server := memserver.Start(t)
	return &shell{t: t, server: server, flags: append([]string{"--endpoint", server.URL}, flags...)}
}

// with is the same server with more flags.
func (s *shell) with(flags ...string) *shell {
	return &shell{t: s.t, server: s.server, flags: append(append([]string(nil), s.flags...), flags...)}
}

// plain runs a command that takes none of the shell's flags.
func (s *shell) plain(args ...string) result {
	s.t.Helper()
	return (&shell{t: s.t, server: s.server}).run("", args...)
}

// result is what a command left.
type result struct {
	out, err string
	code     int
}

// run runs a command whose standard input is in.
func (s *shell) run(in string, args ...string) result {
	s.t.Helper()
	var out, errs bytes.Buffer
	code := s.start(s.t.Context(), strings.NewReader(in), &out, &errs, args...)
	return result{out.String(), errs.String(), code}
}

func (s *shell) start(ctx context.Context, in io.Reader, out, errs io.Writer, args ...string) int {
	root := cli.Root("v1.2.3")
	root.SetContext(ctx)
	root.SetArgs(append(append([]string(nil), s.flags...), args...))
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errs)
	return cli.Execute(root)
}

// ok runs a command that must succeed and returns its standard output.
func (s *shell) ok(in string, args ...string) string {
	s.t.Helper()
	r := s.run(in, args...)
	require.Zero(s.t, r.code, "%v: %s", args, r.err)
	return r.out
}

// fails runs a command that must end with code and one line on standard error.
func (s *shell) fails(code int, message string, args ...string) {
	s.t.Helper()
	r := s.run("", args...)
	require.Equal(s.t, code, r.code, "%v: %s", args, r.err)
	require.Empty(s.t, r.out)
	require.Contains(s.t, r.err, message)
	require.True(s.t, strings.HasPrefix(r.err, "picomq: ") && strings.Count(r.err, "\n") == 1, "one line: %q", r.err)
}

// TestPicoTour goes through every verb.
func TestPicoTour(t *testing.T) {
	s := newShell(t)
	s.ok("", "create", "/logs/api", "--content-type", "text/plain", "--ttl", "1h")
	require.Contains(t, s.run("", "create", "logs/api", "--content-type", "text/plain", "--ttl", "1h").err, "exists with this configuration")

	require.Contains(t, s.run("one\ntwo\r\n\nfour", "append", "logs/api").err, "appended 4 records to logs/api, next is 4\n")
	require.JSONEq(t, `{"records":1,"start_seq":4,"next_seq":5,"timestamp":1700000000000}`,
		s.ok("", "append", "--json", "--body", "five", "--header", "k=v=w", "--header", "k=x", "logs/api"))

	require.Equal(t, "one\ntwo\n\nfour\nfive\n", s.ok("", "read", "logs/api"))
	require.Equal(t, "two\n\n", s.ok("", "read", "--from", "1", "--count", "2", "logs/api"))
	require.Equal(t, "onetwofourfive", s.ok("", "read", "--format", "raw", "logs/api"))
	require.Equal(t, `{"seq":3,"timestamp":1700000000000,"body":"four"}`+"\n"+
		`{"seq":4,"timestamp":1700000000000,"headers":{"k":"v=w","k":"x"},"body":"five"}`+"\n",
		s.ok("", "read", "--format", "json", "--from", "-2", "logs/api"))
	require.Empty(t, s.ok("", "read", "--from", "now", "logs/api"))
	require.Empty(t, s.ok("", "read", "--timestamp", "1700000000001", "logs/api"))
	require.Equal(t, "one\n", s.ok("", "read", "--timestamp", "1600000000000", "--count", "1", "logs/api"))
	require.Equal(t, "four\nfive\n", s.ok("", "tail", "-n", "2", "logs/api"))

	require.Contains(t, s.run("", "trim", "logs/api", "3").err, "logs/api starts at 3\n")
	s.fails(1, "trimmed away", "read", "--from", "0", "logs/api")
	require.Equal(t, "four\nfive\n", s.ok("", "read", "logs/api"))
	require.Equal(t, "four\nfive\n", s.ok("", "read", "--from", "start", "logs/api"))
	require.Equal(t, "four\nfive\n", s.ok("", "tail", "--from", "start", "logs/api"))
	require.Equal(t, "name     logs/api\ntype     text/plain\nstart    3\nnext     5\nstate    open\nexpires  1h0m0s idle\n", s.ok("", "head", "logs/api"))

	s.ok("", "create", "logs/web", "--expires-at", "2031-01-01T00:00:00+01:00", "--closed")
	s.ok("", "create", "other")
	require.Equal(t, "logs/api\nlogs/web\nother\n", s.ok("", "ls"))
	require.Equal(t, "logs/api\n", s.ok("", "ls", "--limit", "1", "/logs"))
	require.Equal(t, ""+
		"NAME      TYPE                      START  NEXT  STATE   EXPIRES\n"+
		"logs/api  text/plain                3      5     open    1h0m0s idle\n"+
		"logs/web  application/octet-stream  0      0     closed  2030-12-31T23:00:00Z\n", s.ok("", "ls", "-l", "logs/"))
	require.JSONEq(t, `{"name":"logs/api","content_type":"text/plain","start_seq":3,"next_seq":5,"closed":false,"ttl":3600}`,
		s.ok("", "ls", "--json", "logs/a"))

	require.Contains(t, s.run("", "close", "logs/api").err, "closed logs/api at 5\n")
	s.fails(1, "is closed", "append", "logs/api", "--body", "six")
	require.Equal(t, "five\n", s.ok("", "tail", "-f", "-n", "1", "logs/api"), "following a closed stream ends")
	require.Equal(t, "four\nfive\n", s.ok("", "tail", "-f", "--from", "start", "logs/api"))
	s.ok("", "delete", "logs/api", "/logs/web")
	for _, verb := range []string{"read", "tail", "head", "close", "delete"} {
		r := s.run("", verb, "logs/api")
		require.Equal(t, result{"", `picomq: there is no stream "logs/api"` + "\n", 1}, r, verb)
	}
}

func TestDurableStreamsTour(t *testing.T) {
	s := newShell(t, "--protocol", "ds")
	s.ok("", "create", "j", "--content-type", "application/json")
	require.JSONEq(t, `{"records":3,"next_seq":3,"next_offset":"0000000000000000_0000000000000003"}`,
		s.ok("{\"a\":1}\n\n[1,2]\n \n3\n", "append", "--json", "j"), "blank lines are no JSON")
	require.Equal(t, "{\"a\":1}\n[1,2]\n3\n", s.ok("", "read", "j"))
	require.Equal(t, "{\"body\":\"3\"}\n", s.ok("", "tail", "-n", "1", "--format", "json", "j"))
	require.Equal(t, "[1,2]\n", s.ok("", "read", "--from", "0000000000000000_0000000000000001", "--count", "1", "j"))

	require.Contains(t, s.run("one\ntwo", "append", "--create", "t").err, "appended 2 records to t, next is 0000000000000000_0000000000000002\n")
	require.Equal(t, "one\ntwo", s.ok("", "read", "t"))
	require.Equal(t, `{"seq":0,"timestamp":1700000000000,"body":"one\n"}`+"\n",
		s.with("--protocol", "pico").ok("", "read", "--count", "1", "--format", "json", "t"), "the records keep their line ends")
	require.Contains(t, s.run("1\n2\n", "append", "--batch", "2", "t").err, "one record per append unless the stream is JSON")
	s.fails(1, "has no record headers; use the Pico protocol", "append", "--body", "x", "--header", "a=b", "t")
	require.JSONEq(t, `{"name":"t","content_type":"text/plain","next_seq":2,"next_offset":"0000000000000000_0000000000000002","closed":false}`,
		s.ok("", "head", "--json", "t"))
	s.ok("", "close", "t")
	require.Equal(t, "two", s.ok("", "tail", "-f", "-n", "1", "t"))
	s.ok("", "delete", "t")

	s.fails(1, "Durable Streams cannot list streams; use the Pico protocol", "ls")
	s.fails(1, "Durable Streams cannot trim a stream; use the Pico protocol", "trim", "j", "1")
	s.fails(1, "use the Pico protocol", "read", "--timestamp", "1", "j")
}

func TestAppendWhole(t *testing.T) {
	s := newShell(t)
	s.ok("a\nb\n", "append", "--whole", "--create", "--content-type", "image/png", "--close", "a")
	require.Equal(t, "a\nb\n", s.ok("", "read", "--format", "raw", "a"))
	require.Contains(t, s.ok("", "head", "a"), "type   image/png\nstart  0\nnext   1\nstate  closed\n")

	s.ok("x\ny\n", "append", "--create", "--keep-newlines", "b")
	require.Equal(t, "x\ny\n", s.ok("", "read", "--format", "raw", "b"))
	s.fails(1, "has type text/plain, not image/png", "append", "--content-type", "image/png", "b")
	s.fails(1, "create it, or append with --create", "append", "c")
	require.Contains(t, s.run("", "append", "b").err, "appended nothing to b\n")
	require.Contains(t, s.run("", "append", "--close", "b").err, "appended 0 records to b and closed it at 2\n")
}

// TestBatches: full batches when lines come together, and none left waiting.
func TestBatches(t *testing.T) {
	s := newShell(t)
	require.Equal(t, 3, strings.Count(s.ok("1\n2\n3\n4\n5\n", "append", "--create", "--json", "--batch", "2", "--linger", "1h", "a"), "\n"))
	require.Equal(t, "1\n2\n3\n4\n5\n", s.ok("", "read", "a"))

	in, feed := io.Pipe()
	var out lockedBuffer
	done := make(chan int, 1)
	go func() { done <- s.start(t.Context(), in, &out, io.Discard, "append", "--json", "a") }()
	for i := range 3 {
		_, err := io.WriteString(feed, "slow\n")
		require.NoError(t, err)
		require.Eventually(t, func() bool { return strings.Count(out.String(), "\n") == i+1 }, time.Minute, time.Millisecond,
			"a line is appended although the pipe stays open")
	}
	require.NoError(t, feed.Close())
	require.Zero(t, <-done)
}

func TestLinesThatAreTooLong(t *testing.T) {
	s := newShell(t)
	r := s.run("short\n"+strings.Repeat("x", 8<<20+1), "append", "--create", "a")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, "line 2: it is longer than 8388608 bytes; append the input as one record with --whole")
	require.Equal(t, "short\n", s.ok("", "read", "a"), "what came before was appended")
}

// TestProducerThroughLostAnswers: with a producer every line is stored once.
func TestProducerThroughLostAnswers(t *testing.T) {
	s := newShell(t)
	s.ok("", "create", "a", "--content-type", "text/plain")
	var mu sync.Mutex
	posts := 0
	s.server.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		mu.Lock()
		lose := r.Method == http.MethodPost && posts%2 == 0
		if r.Method == http.MethodPost {
			posts++
		}
		mu.Unlock()
		if lose {
			memserver.LoseAnswer(w, r, next)
		}
		next.ServeHTTP(w, r)
	})
	r := s.run("1\n2\n3\n", "append", "--batch", "1", "--producer", "me", "a")
	require.Zero(t, r.code, r.err)
	require.Contains(t, r.err, "trying again in")
	s.server.Intercept(nil)
	require.Equal(t, "1\n2\n3\n", s.ok("", "read", "a"))

	s.fails(1, "epoch", "append", "--producer", "me", "--producer-epoch", "5", "--body", "late", "a")
}

// lockedBuffer is a buffer that a test reads while a command writes it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestFollow: tail -f goes on through a restart and ends with its context, as
// with a signal, quietly.
func TestFollow(t *testing.T) {
	for _, flags := range [][]string{
		{"--protocol", "pico"},
		{"--protocol", "ds"},
	} {
		for _, live := range []string{"auto", "sse", "long-poll"} {
			t.Run(flags[1]+" "+live, func(t *testing.T) {
				s := newShell(t, flags...)
				s.ok("", "create", "a", "--content-type", "application/json")
				s.ok("0\n1\n2\n", "append", "a")
				ctx, interrupt := context.WithCancel(t.Context())
				defer interrupt()
				var out, errs lockedBuffer
				done := make(chan int, 1)
				go func() { done <- s.start(ctx, nil, &out, &errs, "tail", "-f", "-n", "2", "--live", live, "a") }()
				shows := func(want string) {
					t.Helper()
					require.Eventually(t, func() bool { return out.String() == want }, time.Minute, time.Millisecond, "want %q, have %q", want, out.String())
				}
				shows("1\n2\n")
				s.ok("3\n", "append", "a")
				shows("1\n2\n3\n")
				s.server.Stop()
				s.server.Restart()
				s.ok("4\n", "append", "a")
				shows("1\n2\n3\n4\n")
				interrupt()
				require.Equal(t, 130, <-done)
				for line := range strings.Lines(errs.String()) {
					require.Contains(t, line, "trying again in")
				}
			})
		}
	}
}

func TestUsageErrors(t *testing.T) {
	s := newShell(t)
	for _, c := range []struct {
		message string
		args    []string
	}{
		{`unknown command "frob" for "picomq"; see picomq --help`, []string{"frob"}},
		{`unknown command "raed" for "picomq"; did you mean read? See picomq --help`, []string{"raed", "a"}},
		{"picomq: NAME is missing; see picomq read --help", []string{"read"}},
		{"picomq: NAME is missing; see picomq delete --help", []string{"delete"}},
		{"picomq: SEQ is missing; see picomq trim --help", []string{"trim", "a"}},
		{`picomq: too many arguments: "b", "c"; see picomq tail --help`, []string{"tail", "a", "b", "c"}},
		{`picomq: too many arguments: "b"; see picomq ls --help`, []string{"ls", "a", "b"}},
		{`picomq: bench takes no arguments: "a"; see picomq bench --help`, []string{"bench", "a"}},
		{"unknown flag: --frob", []string{"read", "--frob", "a"}},
		{`picomq: --count "x": want a whole number; see picomq read --help`, []string{"read", "--count", "x", "a"}},
		{`--limit "9223372036854775808": the number is out of range`, []string{"ls", "--limit", "9223372036854775808"}},
		{`--lines "-1": want a whole number that is not negative`, []string{"tail", "-n", "-1", "a"}},
		{`--duration "5": want a duration such as 250ms, 30s or 1h`, []string{"bench", "--duration", "5"}},
		{`--rate "x": want a number`, []string{"bench", "--rate", "x"}},
		{`--follow "x": want true or false`, []string{"tail", "--follow=x", "a"}},
		{"--from and --lines exclude each other", []string{"tail", "--from", "5", "-n", "3", "a"}},
		{"--duration is 0s; it must be positive", []string{"bench", "--duration", "0"}},
		{"--connections is 0; it must be positive", []string{"bench", "--connections", "0"}},
		{"--streams is 0; it must be positive", []string{"bench", "--streams", "0"}},
		{"--batch is 0; it must be positive", []string{"bench", "--batch", "0"}},
		{"has an empty segment", []string{"read", "a//b"}},
		{"the reserved segment", []string{"create", "__ds/a"}},
		{"--from and --timestamp exclude each other", []string{"read", "--from", "1", "--timestamp", "1", "a"}},
		{"--count and --timestamp must not be negative", []string{"read", "--count", "-1", "a"}},
		{`--from is "x y"; give a sequence`, []string{"read", "--from", "x y", "a"}},
		{`--format is "xml"; use lines, json or raw`, []string{"read", "--format", "xml", "a"}},
		{`--live is "push"`, []string{"tail", "-f", "--live", "push", "a"}},
		{`SEQ: "-1" is not a plain decimal number`, []string{"trim", "--", "a", "-1"}},
		{"--ttl and --expires-at exclude each other", []string{"create", "--ttl", "1s", "--expires-at", "2031-01-01T00:00:00Z", "a"}},
		{"--ttl is 1.5s; it must be whole seconds", []string{"create", "--ttl", "1500ms", "a"}},
		{`--retention-age "1w": want an age such as 7d, 36h, 90m or 3600 (seconds); see picomq create --help`, []string{"create", "--retention-age", "1w", "a"}},
		{`--retention-age "9007199254741": at most 9007199254740 seconds`, []string{"create", "--retention-age", "9007199254741", "a"}},
		{"--retention-age is 0; leave it out", []string{"create", "--retention-age", "0", "a"}},
		{"--retention-bytes is 0; leave it out", []string{"fork", "--retention-bytes", "0", "a", "b"}},
		{"--retention-bytes is 9007199254740992; at most", []string{"create", "--retention-bytes", "9007199254740992", "a"}},
		{`--retention-bytes "1GB": want a whole number`, []string{"create", "--retention-bytes", "1GB", "a"}},
		{`--expires-at is "tomorrow"`, []string{"create", "--expires-at", "tomorrow", "a"}},
		{"--whole and --body exclude each other", []string{"append", "--whole", "--body", "x", "a"}},
		{"--batch is 0; it must be 1 to 65536", []string{"append", "--batch", "0", "a"}},
		{"--linger is -1s", []string{"append", "--linger", "-1s", "a"}},
		{"--producer-epoch needs --producer", []string{"append", "--producer-epoch", "1", "a"}},
		{`--header is "k"; write NAME=VALUE`, []string{"append", "--header", "k", "a"}},
		{"--limit is -1", []string{"ls", "--limit", "-1"}},
		{`--protocol: protocol "amqp" is not known`, []string{"ls", "--protocol", "amqp"}},
		{"--endpoint: endpoint \"ftp://x\"", []string{"ls", "--endpoint", "ftp://x"}},
		{"--size is 3; it must be 18 to", []string{"bench", "--size", "3"}},
	} {
		s.fails(2, c.message, c.args...)
	}
	s.server.Stop()
	for _, verb := range []string{"ls", "bench"} {
		s.fails(1, "the server cannot be reached", verb)
		s.fails(1, `connection refused; is "picomq serve" running? --endpoint names another server`, verb)
	}
	s.server.Restart()
}

// TestEnvironment: flag over variable over default, for every flag.
func TestEnvironment(t *testing.T) {
	s := newShell(t)
	s.ok("", "create", "a", "--content-type", "text/plain")
	s.ok("1\n2\n3\n", "append", "a")
	t.Setenv("PICOMQ_COUNT", "1")
	t.Setenv("PICOMQ_FORMAT", "raw")
	require.Equal(t, "1", s.ok("", "read", "a"))
	require.Equal(t, "12", s.ok("", "read", "--count", "2", "a"))
	t.Setenv("PICOMQ_COUNT", "many")
	s.fails(2, `picomq: $PICOMQ_COUNT "many": want a whole number; see`, "read", "a")
	t.Setenv("PICOMQ_COUNT", "")
	t.Setenv("PICOMQ_FORMAT", "")
	require.Equal(t, "1\n2\n3\n", s.ok("", "read", "a"), "an empty variable is not set")
	t.Setenv("PICOMQ_FORMAT", "raw")

	t.Setenv("PICOMQ_COUNT", "0")
	t.Setenv("PICOMQ_LINES", "2")
	require.Equal(t, "23", s.ok("", "tail", "a"))
	require.Equal(t, "3", s.ok("", "tail", "--from", "2", "a"), "a flag wins over the variable of one that it excludes")
	t.Setenv("PICOMQ_FROM", "0")
	require.Equal(t, "3", s.ok("", "tail", "-n", "1", "a"))
	s.fails(2, "--from and --lines exclude each other", "tail", "a")
	t.Setenv("PICOMQ_FROM", "")
	t.Setenv("PICOMQ_ENDPOINT", s.server.URL)
	bare := &shell{t: t, server: s.server}
	require.Equal(t, "123", bare.ok("", "read", "a"))
}

// TestHelpNamesEveryVariable walks all commands.
func TestHelpNamesEveryVariable(t *testing.T) {
	root := cli.Root("v1")
	serve := &cobra.Command{Use: "serve", Short: "Run a server", RunE: func(*cobra.Command, []string) error { return nil }}
	serve.Flags().String("cluster-id", "", "a label")
	cli.BindEnv(serve)
	root.AddCommand(serve)
	require.Equal(t, "a label [$PICOMQ_CLUSTER_ID]", serve.Flags().Lookup("cluster-id").Usage)
	for _, cmd := range root.Commands() {
		require.NotEmpty(t, cmd.Short, cmd.Name())
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "retention-age" || f.Name == "retention-bytes" {
				require.NotContains(t, f.Usage, "$", "the server's settings have these names")
				return
			}
			name := "[$PICOMQ_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_")) + "]"
			require.True(t, strings.HasSuffix(f.Usage, name), "%s --%s: %q", cmd.Name(), f.Name, f.Usage)
		})
	}
}

// TestAddedCommands: a command of another package has the same exit codes and
// variables.
func TestAddedCommands(t *testing.T) {
	run := func(args ...string) (string, int) {
		var got string
		serve := &cobra.Command{Use: "serve", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
			switch got {
			case "bad":
				return cli.UsageError(io.ErrUnexpectedEOF)
			case "fails":
				return io.ErrUnexpectedEOF
			}
			return nil
		}}
		serve.Flags().StringVar(&got, "data", "default", "folder")
		cli.BindEnv(serve)
		root := cli.Root("v1")
		root.AddCommand(serve)
		root.SetArgs(append([]string{"serve"}, args...))
		root.SetErr(io.Discard)
		code := cli.Execute(root)
		return got, code
	}
	got, code := run()
	require.Equal(t, "default", got)
	require.Zero(t, code)
	_, code = run("--data", "bad")
	require.Equal(t, 2, code)
	_, code = run("--data", "fails")
	require.Equal(t, 1, code)
	t.Setenv("PICOMQ_DATA", "variable")
	got, _ = run()
	require.Equal(t, "variable", got)
	got, _ = run("--data", "flag")
	require.Equal(t, "flag", got)
}

func TestVersion(t *testing.T) {
	s := &shell{t: t}
	require.Regexp(t, `^picomq v1\.2\.3 .*go1\.\d+\S* \w+/\w+\n$`, s.ok("", "version"))
	require.Equal(t, s.ok("", "version"), s.ok("", "--version"))
}

func TestCompletion(t *testing.T) {
	s := newShell(t)
	s.ok("", "create", "logs/api")
	s.ok("", "create", "logs/web")
	require.True(t, strings.HasPrefix(s.ok("", "__complete", "read", "/logs/a"), "/logs/api\n"))
	require.True(t, strings.HasPrefix(s.ok("", "__complete", "ls", "--protocol", ""), "pico\nds\n"))
	require.True(t, strings.HasPrefix(s.ok("", "__complete", "tail", "--live", ""), "auto\nsse\nlong-poll\n"))
	require.True(t, strings.HasPrefix(s.ok("", "__complete", "trim", "logs/api", ""), ":"), "a sequence is no name")
	require.Contains(t, (&shell{t: t}).ok("", "completion", "bash"), "picomq")
}

func TestBench(t *testing.T) {
	s := newShell(t)
	out := s.ok("", "bench", "--duration", "50ms", "--connections", "2", "--streams", "1", "--readers", "1", "--batch", "3", "--json")
	require.Contains(t, out, `"records_per_append": 3`)
	out = s.ok("", "bench", "--duration", "50ms", "--connections", "2", "--streams", "1", "--baseline="+t.TempDir())
	require.Contains(t, out, "bare put+fsync+SQLite commits/s")
	page, err := s.server.Streams.List(t.Context(), stream.ListRequest{Limit: 1})
	require.NoError(t, err)
	require.Empty(t, page.Streams)
	_, set := os.LookupEnv("PICOMQ_BASELINE")
	require.False(t, set, "the tests expect no variables of picomq")
}

// TestABenchOfWhichAppendsFailedFails, with what it measured.
func TestABenchOfWhichAppendsFailedFails(t *testing.T) {
	s := newShell(t)
	var appends atomic.Int64
	s.server.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPost && appends.Add(1)%2 == 0 {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		next.ServeHTTP(w, r)
	})
	r := s.run("", "bench", "--duration", "100ms", "--connections", "1", "--streams", "1")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "appends failed: 503: ")
	require.Regexp(t, `^picomq: [0-9]+ appends failed\n$`, r.err)
}
