package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
)

// badFlags are values that each flag of serve refuses.
var badFlags = map[string][]string{
	"data":              {"", "/dev/null"},
	"listen":            {"nonsense", "", "127.0.0.1:99999", "256.0.0.1:0"},
	"admin-listen":      {"nonsense", "127.0.0.1:99999"},
	"meta-url":          {"mysql://x", "nonsense", "sqlite:///dev/null/log.db"},
	"storage":           {"ftp://x", "nonsense", "::", "file:///dev/null/bucket", "s3://bucket"},
	"node-id":           {"x", "-1", "4294967296"},
	"node-timeout":      {"4s", "-1m", "30"},
	"drain":             {"-1s", "2h", "5"},
	"cluster-listen":    {"127.0.0.1:0"},        // without a secret
	"advertise":         {"http://127.0.0.1:1"}, // without a listener
	"wal-interval":      {"soon", "-1s", "2m"},
	"wal-hedge":         {"", "yes"},
	"wal-uploads":       {"0", "257", "many"},
	"max-body":          {"0", "-1", "2000000000", "8MB"},
	"cache-bytes":       {"1", "-1", "much"},
	"long-poll-timeout": {"0", "-1s", "25"},
	"sse-max-duration":  {"0", "-1s", "55"},
	"reads":             {"", "tail"},
	"retention-age":     {"1w", "-1", "500ms", "99999999999999"},
	"retention-bytes":   {"-1", "1GB", "9007199254740992"},
	"max-extents":       {"0", "999", "-1"},
	"compact-bandwidth": {"0", "-1", "32MB"},
	"keep-rows":         {"0", "-1", "10k"},
	"cors-origin":       {"a\nb"},
	"log-format":        {"", "xml"},
	"log-level":         {"", "loud"},
	"pprof":             {"maybe"},
}

// anythingGoes are flags that refuse nothing.
var anythingGoes = map[string]bool{"cluster-id": true, "cluster-secret": true, "help": true}

func TestABadFlagStopsServeWithOneLineThatNamesIt(t *testing.T) {
	serveCommand().Flags().VisitAll(func(f *pflag.Flag) {
		require.True(t, anythingGoes[f.Name] || len(badFlags[f.Name]) > 0, "--%s has no bad value here", f.Name)
	})
	for flag, values := range badFlags {
		for _, value := range values {
			t.Run(flag+"="+value, func(t *testing.T) {
				t.Parallel()
				code, said := refuse(t, nil, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--"+flag+"="+value)
				require.NotZero(t, code)
				requireOneLine(t, said)
				require.Contains(t, said, "--"+flag)
			})
		}
	}
}

func TestABadVariableIsNamed(t *testing.T) {
	for variable, value := range map[string]string{"PICOMQ_WAL_UPLOADS": "many", "PICOMQ_SSE_MAX_DURATION": "55", "PICOMQ_PPROF": "maybe"} {
		code, said := refuse(t, []string{variable + "=" + value})
		require.NotZero(t, code)
		requireOneLine(t, said)
		require.Contains(t, said, variable)
	}
}

func TestFlagOverEnvironmentOverDefault(t *testing.T) {
	env := []string{"PICOMQ_MAX_BODY=10"}
	for _, test := range []struct {
		name  string
		env   []string
		flags []string
		taken int // status of an append of 100 bytes
	}{
		{"the default", nil, nil, http.StatusOK},
		{"the environment over the default", env, nil, http.StatusRequestEntityTooLarge},
		{"the flag over the environment", env, []string{"--max-body", "100"}, http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := launch(t, t.TempDir(), test.env, test.flags...)
			call(t, http.MethodPut, server.URL+"/s", "text/plain", "").require(t, http.StatusCreated)
			call(t, http.MethodPost, server.URL+"/s", "text/plain", strings.Repeat("x", 100)).require(t, test.taken)
			stop(t, server, syscall.SIGTERM)
		})
	}
}

func TestPortZeroPicksOneAndPrintsIt(t *testing.T) {
	server := launch(t, t.TempDir(), nil)
	for _, url := range []string{server.URL, server.AdminURL} {
		_, port, found := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
		require.True(t, found, url)
		n, err := strconv.Atoi(port)
		require.NoError(t, err)
		require.NotZero(t, n)
	}
	call(t, http.MethodGet, server.URL+"/", "", "").require(t, http.StatusOK)
	call(t, http.MethodGet, server.AdminURL+"/health", "", "").require(t, http.StatusOK)
}

func TestAPortInUseIsRefused(t *testing.T) {
	server := launch(t, t.TempDir(), nil)
	for flag, url := range map[string]string{"listen": server.URL, "admin-listen": server.AdminURL} {
		code, said := refuse(t, nil, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--"+flag, strings.TrimPrefix(url, "http://"))
		require.Equal(t, 1, code)
		requireOneLine(t, said)
		require.Contains(t, said, "--"+flag)
		require.Contains(t, said, "give another address")
	}
}

// TestASecondProcessOnTheSameDataIsRefused, and the first does not notice.
func TestASecondProcessOnTheSameDataIsRefused(t *testing.T) {
	data := t.TempDir()
	server := launch(t, data, nil)
	call(t, http.MethodPut, server.URL+"/s", "text/plain", "body").require(t, http.StatusCreated)
	code, said := refuse(t, nil, "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	require.Equal(t, 1, code)
	requireOneLine(t, said)
	require.Contains(t, said, "--data")
	require.Contains(t, said, "in use by process")
	require.Contains(t, said, data)
	call(t, http.MethodPost, server.URL+"/s", "text/plain", "more").require(t, http.StatusOK)
	stop(t, server, syscall.SIGTERM)
}

func TestTheNodeNumberIsRemembered(t *testing.T) {
	data := t.TempDir()
	remembered := func() string {
		text, err := os.ReadFile(filepath.Join(data, nodeFile))
		require.NoError(t, err)
		number, incarnation, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		require.Len(t, incarnation, 32)
		return number
	}
	start := func(flags ...string) string {
		server := launch(t, data, nil, flags...)
		stop(t, server, syscall.SIGTERM)
		return server.Log()
	}
	require.Contains(t, start(), "node=1 ")
	require.Equal(t, "1", remembered(), "the log gave the lowest free number")
	require.Contains(t, start(), "node=1 ", "the same node, in another epoch")
	require.Contains(t, start("--node-id", "7"), "node=7 ")
	require.Equal(t, "7", remembered())
	require.Contains(t, start(), "node=7 ")

	require.NoError(t, os.Remove(filepath.Join(data, nodeFile)))
	require.Contains(t, start(), "node=1 ", "a lost number costs a new one, and nothing else; that of a node which ended is free")

	require.NoError(t, os.WriteFile(filepath.Join(data, nodeFile), []byte("one\n"), 0o600))
	code, said := refuse(t, nil, "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	require.Equal(t, 1, code)
	requireOneLine(t, said)
	require.Contains(t, said, filepath.Join(data, nodeFile))
}

// TestAFolderThatCannotBeWrittenIsNamed uses a file where a folder must be, and
// a file system that takes no files: root may write wherever modes forbid it.
func TestAFolderThatCannotBeWrittenIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, data := range []string{file, filepath.Join(file, "below"), "/proc/picomq"} {
		code, said := refuse(t, nil, "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
		require.Equal(t, 1, code)
		requireOneLine(t, said)
		require.Contains(t, said, "--data")
		require.Contains(t, said, data)
	}
}

// TestThePartsOfAClusterBelongTogether: a log without its bucket, or with
// another's, is refused before anything is written.
func TestThePartsOfAClusterBelongTogether(t *testing.T) {
	data, other := t.TempDir(), t.TempDir()
	for _, folder := range []string{data, other} {
		server := launch(t, folder, nil)
		call(t, http.MethodPut, server.URL+"/s", "text/plain", "body").require(t, http.StatusCreated)
		stop(t, server, syscall.SIGTERM)
	}
	for _, test := range []struct{ name, flag, value string }{
		{"another bucket", "--storage", "file://" + filepath.Join(other, "bucket")},
		{"an empty bucket", "--storage", "file://" + filepath.Join(t.TempDir(), "bucket")},
		{"an empty log", "--meta-url", "sqlite://" + filepath.Join(t.TempDir(), "log.db")},
	} {
		t.Run(test.name, func(t *testing.T) {
			code, said := refuse(t, nil, "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", test.flag, test.value)
			require.Equal(t, 1, code)
			requireOneLine(t, said)
			require.Contains(t, said, test.flag)
		})
	}
	server := launch(t, data, nil)
	require.Equal(t, "body", call(t, http.MethodGet, server.URL+"/s?seq=0&format=raw", "", "").body)
}

// TestNoReleasedBinaryCanBeToldToKillItself: the failpoints of the crash test
// are compiled in by their build tag alone.
func TestNoReleasedBinaryCanBeToldToKillItself(t *testing.T) {
	program, err := os.ReadFile(binary)
	require.NoError(t, err)
	require.NotContains(t, string(program), "PICOMQ_"+"FAILPOINT")
	require.NotContains(t, string(program), "PICOMQ_"+"HASTE")
	afterPut, afterCommit, err := failpoints()
	require.NoError(t, err)
	require.Nil(t, afterPut)
	require.Nil(t, afterCommit)
}

// TestABucketThatIsNotTheLogsIsNamed: a log with snapshots says which bucket they
// are in. Another one is refused as such, not for what it does not have.
func TestABucketThatIsNotTheLogsIsNamed(t *testing.T) {
	data := t.TempDir()
	log, err := sqllog.Open(t.Context(), "sqlite://"+filepath.Join(data, logFile), sqllog.Options{})
	require.NoError(t, err)
	cluster := commands.ClusterID{0xab}
	require.NoError(t, log.AddSnapshot(t.Context(), commands.Snapshot{Index: 1, Key: cluster.String() + "/0000/snapshots/1-1"}))
	require.NoError(t, log.Close())
	cmd := serveCommand()
	cmd.SetArgs([]string{"--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "", "--log-level", "error"})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	require.ErrorContains(t, err, "--storage: ")
	require.ErrorContains(t, err, cluster.String())
}
