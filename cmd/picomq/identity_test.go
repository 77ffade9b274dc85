package main

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/engine"
	"github.com/picomq/picomq/internal/process"
	"github.com/picomq/picomq/replica"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// launchNode starts a node of a cluster: a database, a bucket, and a folder of
// its own.
func launchNode(t *testing.T, database, bucket string, flags ...string) *process.Server {
	t.Helper()
	return launch(t, t.TempDir(), nil, append([]string{"--meta-url", database, "--storage", "file://" + bucket}, flags...)...)
}

// contents lists the objects of a bucket that is a folder.
func contents(t *testing.T, folder string) []string {
	t.Helper()
	var names []string
	require.NoError(t, filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		if err == nil && !strings.Contains(path, "/.filebucket") { // the driver's own
			names = append(names, path)
		}
		return nil // a folder that is not there has no content
	}))
	return names
}

// TestTheDatabaseAndTheBucketBelongTogether: whatever is mixed up is refused in
// one line, and nothing is written anywhere.
func TestTheDatabaseAndTheBucketBelongTogether(t *testing.T) {
	one, other, empty, newer := sqllogtest.Postgres(t), sqllogtest.Postgres(t), sqllogtest.Postgres(t), sqllogtest.Postgres(t)
	buckets := map[*sqllogtest.Database]string{one: t.TempDir(), other: t.TempDir(), newer: t.TempDir()}
	for _, d := range []*sqllogtest.Database{one, other, newer} {
		server := launchNode(t, d.URL, buckets[d])
		call(t, http.MethodPut, server.URL+"/s", "text/plain", "body").require(t, http.StatusCreated)
		stop(t, server, syscall.SIGTERM)
	}
	newer.Exec(t, "INSERT INTO picomq_migrations (name, group_id) VALUES ('29990101000000', 9)")
	const rows = "SELECT idx FROM log_head"
	const tables = "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema()"
	for _, test := range []struct {
		name   string
		d      *sqllogtest.Database
		bucket string
		look   string // at the database
		says   string
	}{
		{"another cluster's bucket", one, buckets[other], rows, "--storage"},
		{"an empty bucket", one, t.TempDir(), rows, "--storage"},
		{"an empty database", empty, buckets[one], tables, "--meta-url"},
		{"a newer schema", newer, buckets[newer], rows, "29990101000000"},
	} {
		t.Run(test.name, func(t *testing.T) {
			database, objects := test.d.String(t, test.look), contents(t, test.bucket)
			code, said := refuse(t, nil, "--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
				"--meta-url", test.d.URL, "--storage", "file://"+test.bucket)
			require.Equal(t, 1, code)
			requireOneLine(t, said)
			require.Contains(t, said, test.says)
			require.Equal(t, database, test.d.String(t, test.look), "the database is as it was")
			require.Equal(t, objects, contents(t, test.bucket), "the bucket is as it was")
		})
	}
}

// TestManyNodesBeginAClusterAtOnce on an empty database and an empty bucket.
func TestManyNodesBeginAClusterAtOnce(t *testing.T) {
	d, bucket := sqllogtest.Postgres(t), t.TempDir()
	servers := make(chan *process.Server)
	const nodes = 4
	for range nodes {
		data := t.TempDir()
		go func() {
			server, err := process.Launch(t.Context(), process.Config{Binary: binary, Args: []string{
				"--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--meta-url", d.URL, "--storage", "file://" + bucket,
			}})
			if err == nil && server.Ready(t.Context()) == nil {
				// A segment, as early as can be: the others still look at the bucket.
				request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/s", strings.NewReader("x"))
				if answer, err := http.DefaultClient.Do(request); err == nil {
					_ = answer.Body.Close()
				}
			}
			servers <- server
		}()
	}
	for range nodes {
		server := <-servers
		require.NotNil(t, server)
		require.NoError(t, server.Ready(t.Context()))
		defer func() { stop(t, server, syscall.SIGTERM) }()
	}
	require.Eventually(t, func() bool { // heartbeats come after the start
		return d.String(t, "SELECT count(*) FROM nodes") == "4"
	}, patience, 10*time.Millisecond)
}

// TestANodeThatReadTheLogBeforeTheClusterBegan finds a bucket in use when it
// comes to look there, and looks at the log again.
func TestANodeThatReadTheLogBeforeTheClusterBegan(t *testing.T) {
	d, bucket := sqllogtest.Postgres(t), t.TempDir()
	late := &node{logger: slog.New(slog.DiscardHandler), hub: engine.NewHub(), cancel: func() {}}
	c := &config{data: t.TempDir(), metaURL: d.URL, storage: "file://" + bucket}
	require.NoError(t, late.openLog(t.Context(), c))
	defer late.stop(t.Context())
	var err error
	late.replica, err = replica.Open(t.Context(), replica.Config{Log: late.log, Bucket: late.bucket, Logger: late.logger})
	require.NoError(t, err)

	server := launchNode(t, d.URL, bucket)
	call(t, http.MethodPut, server.URL+"/s", "text/plain", "body").require(t, http.StatusCreated)
	_, err = late.cluster(t.Context())
	require.NoError(t, err)
}
