package peer_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/internal/peer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	cluster = [16]byte{7}
	object  = bytes.Repeat([]byte("segment "), 1000)
	known   = blobwal.SegmentID{Node: 2, Epoch: 9, Sequence: 30}
)

// node is one that has a segment in memory, behind whatever goes wrong.
type node struct {
	*httptest.Server
	asked atomic.Int64
	wrong atomic.Pointer[http.HandlerFunc] // answers instead
}

func start(t *testing.T) *node {
	n := &node{}
	handler := peer.Handler(cluster, "secret", func(id blobwal.SegmentID) ([]byte, bool) { return object, id == known })
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.asked.Add(1)
		if wrong := n.wrong.Load(); wrong != nil {
			(*wrong)(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(n.Close)
	return n
}

// client asks a node, with a clock that a test moves.
func client(t *testing.T, n *node, secret string) (*peer.Client, *atomic.Int64) {
	var clock atomic.Int64
	c := peer.New(peer.Config{
		Cluster: cluster, Secret: secret, Timeout: time.Minute, Now: func() time.Time { return time.Unix(clock.Load(), 0) },
		Address: func(node uint32, epoch uint64) string {
			if node == known.Node && epoch == known.Epoch {
				return n.URL
			}
			return ""
		},
	})
	t.Cleanup(c.Close)
	return c, &clock
}

func same(got []byte) error {
	if !bytes.Equal(got, object) {
		return errors.New("it is another")
	}
	return nil
}

var size = uint64(len(object))

func TestASegmentComesFromTheNodeThatWroteIt(t *testing.T) {
	n := start(t)
	c, _ := client(t, n, "secret")
	require.True(t, c.May(known))
	require.Equal(t, object, c.Ask(t.Context(), known, size, same))
	require.Equal(t, peer.Stats{Hits: 1}, c.Stats())

	elsewhere := known
	elsewhere.Epoch++
	require.Nil(t, c.Ask(t.Context(), elsewhere, size, same), "that start has no address")
	require.False(t, c.May(elsewhere))
	require.EqualValues(t, 1, n.asked.Load())
}

func TestWhatIsOlderThanAMissIsNotAskedFor(t *testing.T) {
	n := start(t)
	c, _ := client(t, n, "secret")
	at := func(sequence uint64) blobwal.SegmentID {
		return blobwal.SegmentID{Node: 2, Epoch: 9, Sequence: sequence}
	}
	require.Nil(t, c.Ask(t.Context(), at(20), size, same))
	require.Nil(t, c.Ask(t.Context(), at(20), size, same))
	require.Nil(t, c.Ask(t.Context(), at(3), size, same))
	require.False(t, c.May(at(3)), "it has nothing so old")
	require.EqualValues(t, 1, n.asked.Load())
	require.Equal(t, object, c.Ask(t.Context(), known, size, same))
	require.Equal(t, peer.Stats{Hits: 1, Misses: 1, Spared: 2}, c.Stats())
}

// TestOnlyWhoKnowsTheSecretIsAnswered, and only about segments of the cluster.
func TestOnlyWhoKnowsTheSecretIsAnswered(t *testing.T) {
	n := start(t)
	c, _ := client(t, n, "secreT")
	require.Nil(t, c.Ask(t.Context(), known, size, same))
	require.EqualValues(t, 1, c.Stats().Errors)

	key := "/segments/" + blobwal.Key(cluster, known)
	for _, test := range []struct {
		name, method, path, authorization string
		status                            int
	}{
		{"right", http.MethodGet, key, "Bearer secret", http.StatusOK},
		{"no secret", http.MethodGet, key, "", http.StatusUnauthorized},
		{"an empty one", http.MethodGet, key, "Bearer ", http.StatusUnauthorized},
		{"another scheme", http.MethodGet, key, "secret", http.StatusUnauthorized},
		{"longer", http.MethodGet, key, "Bearer secrets", http.StatusUnauthorized},
		{"another cluster", http.MethodGet, "/segments/" + blobwal.Key([16]byte{8}, known), "Bearer secret", http.StatusNotFound},
		{"no key", http.MethodGet, "/segments/", "Bearer secret", http.StatusNotFound},
		{"another path", http.MethodGet, "/", "Bearer secret", http.StatusNotFound},
		{"a change", http.MethodPut, key, "Bearer secret", http.StatusMethodNotAllowed},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), test.method, n.URL+test.path, nil)
			require.NoError(t, err)
			r.Header.Set("Authorization", test.authorization)
			response, err := n.Client().Do(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, test.status, response.StatusCode)
		})
	}
	nobody := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, key, nil)
	r.Header.Set("Authorization", "Bearer ")
	peer.Handler(cluster, "", func(blobwal.SegmentID) ([]byte, bool) { return object, true }).ServeHTTP(nobody, r)
	require.Equal(t, http.StatusUnauthorized, nobody.Code, "no secret is nobody's secret")
}

// TestAWrongSecretIsNamed in the log of the node that was turned away.
func TestAWrongSecretIsNamed(t *testing.T) {
	n := start(t)
	var said bytes.Buffer
	c := peer.New(peer.Config{
		Cluster: cluster, Secret: "secreT", Timeout: time.Minute, Address: func(uint32, uint64) string { return n.URL }, Logger: slog.New(slog.NewTextHandler(&said, nil)),
	})
	defer c.Close()
	for range 3 {
		require.Nil(t, c.Ask(t.Context(), known, size, same))
	}
	require.Contains(t, said.String(), "level=WARN")
	require.Contains(t, said.String(), "the cluster's secret is wrong")
}

// TestANodeThatFailsIsLeftAlone, whatever is wrong with it, and asked again later.
func TestANodeThatFailsIsLeftAlone(t *testing.T) {
	for name, wrong := range map[string]http.HandlerFunc{
		"an error":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"elsewhere":    func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) },
		"too short":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(object[1:]) },
		"too long":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(append(object[:size:size], 1)) },
		"a lie":        func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte{1}, len(object))) },
		"cut off":      func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"an empty one": func(http.ResponseWriter, *http.Request) {},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t)
			c, clock := client(t, n, "secret")
			n.wrong.Store(&wrong)
			ask := func(times int) {
				for range times {
					require.Nil(t, c.Ask(t.Context(), known, size, same))
				}
			}
			ask(100)
			require.EqualValues(t, 3, n.asked.Load())
			clock.Add(1)
			ask(100)
			require.EqualValues(t, 4, n.asked.Load(), "one may try")
			clock.Add(1)
			ask(100)
			require.EqualValues(t, 4, n.asked.Load(), "the pause has doubled")
			clock.Add(3600)
			n.wrong.Store(nil)
			for range 10 {
				require.Equal(t, object, c.Ask(t.Context(), known, size, same))
			}
			require.EqualValues(t, 4, c.Stats().Errors)
		})
	}
}

// TestANodeThatIsSilentCostsTheTimeout, and no more.
func TestANodeThatIsSilentCostsTheTimeout(t *testing.T) {
	n := start(t)
	release := make(chan struct{})
	silence := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	n.wrong.Store(&silence)
	c := peer.New(peer.Config{
		Cluster: cluster, Secret: "secret", Timeout: time.Millisecond, Address: func(uint32, uint64) string { return n.URL },
	})
	t.Cleanup(c.Close)
	t.Cleanup(func() { close(release) })
	require.Nil(t, c.Ask(t.Context(), known, size, same))
	require.EqualValues(t, 1, c.Stats().Errors)
}
