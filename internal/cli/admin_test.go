package cli_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// adminAt answers every page with one status and body, and tells what was asked.
func adminAt(t *testing.T, status int, body string) (url string, asked *string) {
	t.Helper()
	asked = new(string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = r.RequestURI
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

const someCluster = `{"id":"00ff","head":120,"level":1,"release":"v1.2.3","node":2,
"leases":[{"name":"upkeep","node":1,"epoch":4,"expires_ms":8000},{"name":"inserts","node":3,"epoch":9,"expires_ms":-1500}],
"nodes":[{"node":1,"epoch":4,"state":"live","release":"v1.2.3","level":1,"applied":118,"behind":2,"beat_ms":1234,"address":"http://10.0.0.1:4439"},
{"node":2,"epoch":5,"state":"silent","release":"v1.2.3","level":1,"applied":90,"beat_ms":21000},
{"node":3,"epoch":9,"state":"gone","release":"v1.2.2","level":1}]}`

func TestAdminCluster(t *testing.T) {
	url, asked := adminAt(t, http.StatusOK, someCluster)
	r := newShell(t).plain("admin", "cluster", "--admin-url", url)
	require.Equal(t, `cluster        00ff
log head       120
feature level  1
upkeep by      node 1, for 8s if it is not renewed
inserts by     nobody; node 3 until 1.5s ago
nodes          1 live, 1 silent, 1 gone
told by        node 2, release v1.2.3
`, r.out, r.err)
	require.Equal(t, "/cluster", *asked)
}

func TestAdminClusterWithoutUpkeep(t *testing.T) {
	url, _ := adminAt(t, http.StatusOK, `{"id":"00ff","head":1,"level":1,"release":"v1","node":1,"leases":[],"nodes":[]}`)
	require.Contains(t, newShell(t).plain("admin", "cluster", "--admin-url", url).out, "upkeep by      nobody\n")
}

func TestAdminNodes(t *testing.T) {
	url, _ := adminAt(t, http.StatusOK, someCluster)
	r := newShell(t).plain("admin", "nodes", "--admin-url", url)
	require.Equal(t, `NODE  STATE   EPOCH  APPLIED  BEHIND  BEAT      RELEASE  LEVEL  ADDRESS
1     live    4      118      2       1.2s ago  v1.2.3   1      http://10.0.0.1:4439
2     silent  5      90       -       21s ago   v1.2.3   1      -
3     gone    9      -        -       -         v1.2.2   1      -
`, r.out, r.err)
	require.JSONEq(t, someCluster, newShell(t).plain("admin", "nodes", "--json", "--admin-url", url).out)
}

func TestAdminStream(t *testing.T) {
	url, asked := adminAt(t, http.StatusOK, `{"name":"/a b","id":7,"content_type":"text/plain","created":"2026-11-30T10:00:00.000Z",
"start_seq":3,"next_seq":9,"closed":false,"deleted":true,"ttl":60,"retention_bytes":1000,"default_retention_age":604800,"extents":2,"fork":{"from":"/c","parent_id":5,"seq":3},"live_forks":1}`)
	r := newShell(t).plain("admin", "stream", "a b", "--admin-url", url)
	require.Equal(t, 0, r.code, r.err)
	require.Equal(t, "/streams/a%20b", *asked)
	for _, line := range []string{"deleted, kept for its forks", "60 s after the last use", "name        a b\n", "from c (id 5) at 3", "live forks  1", "keeps       1000 bytes at most\n", "keeps       7d, by the server's default\n"} {
		require.Contains(t, r.out, line)
	}
}

func TestAdminOfAStreamThatIsNot(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cluster" {
			_, _ = w.Write([]byte(someCluster))
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":"not_found","message":"there is no stream \"a\""}`))
	}))
	t.Cleanup(server.Close)
	r := newShell(t).plain("admin", "stream", "a", "--admin-url", server.URL)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, `there is no stream "a"`)
}

func TestAdminSaysWhatIsWrong(t *testing.T) {
	refusing, _ := adminAt(t, http.StatusServiceUnavailable, `{"error":"unavailable","message":"the log is out of reach"}`)
	clients, _ := adminAt(t, http.StatusNotFound, `{"error":"not_found","message":"there is no stream \"cluster\""}`)
	other, _ := adminAt(t, http.StatusNotFound, "<html>")
	proxy, _ := adminAt(t, http.StatusBadGateway, "<html>")
	odd, _ := adminAt(t, http.StatusOK, "<html>")
	for url, says := range map[string]string{
		refusing:              "the log is out of reach",
		clients:               "is not the admin address of a server",
		other:                 "is not the admin address of a server",
		proxy:                 "502 Bad Gateway: is it the admin address of a server (--admin-listen)?",
		odd:                   "not of this release",
		"http://127.0.0.1:1/": `connection refused; is "picomq serve" running? --admin-url names another server`,
	} {
		r := newShell(t).plain("admin", "cluster", "--admin-url", url)
		require.Equal(t, 1, r.code)
		require.Contains(t, r.err, says)
	}
	r := newShell(t).plain("admin", "stream", "a", "--admin-url", clients)
	require.Equal(t, 1, r.code)
	require.Contains(t, r.err, clients+" is not the admin address of a server: give --admin-url the one that its picomq serve has as --admin-listen")
	require.Equal(t, 2, newShell(t).plain("admin", "nodes", "--admin-url", "http://%zz").code)
	require.Equal(t, 2, newShell(t).plain("admin", "stream").code)
	r = newShell(t).plain("admin", "node")
	require.Equal(t, 2, r.code)
	require.Contains(t, r.err, `unknown command "node" for "picomq admin"; did you mean nodes? See picomq admin --help`)
	require.Contains(t, newShell(t).plain("admin", "node", "--json").err, `unknown command "node"`)
	require.Contains(t, newShell(t).plain("admin", "nodes", "--jsno").err, "unknown flag: --jsno; see picomq admin nodes --help")
	r = newShell(t).plain("admin")
	require.Equal(t, 0, r.code)
	require.Contains(t, r.out, "picomq admin nodes")
}
