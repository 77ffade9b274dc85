package peer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/peer"
)

var request = commands.Insert{
	Origin: commands.Origin{Node: 3, Epoch: 1 << 60, Seq: 9}, Payload: []byte{0, 1, 0xff}, Applied: commands.Position{Index: 7, Row: -5},
	Summary: commands.Summary{Kinds: "tick 1", Commands: 1},
}

// inserter serves one inserter and returns a client and its address.
func inserter(t *testing.T, secret string, insert peer.Inserter) (*peer.Client, string) {
	t.Helper()
	server := httptest.NewServer(peer.InsertHandler(cluster, "secret", insert))
	t.Cleanup(server.Close)
	c := peer.New(peer.Config{Cluster: cluster, Secret: secret, Address: func(uint32, uint64) string { return "" }})
	t.Cleanup(c.Close)
	return c, server.URL
}

func TestARowIsInsertedByAnotherNode(t *testing.T) {
	row := commands.Row{Index: 8, ID: -1 << 63, Previous: -5, DatabaseTime: 12, Payload: []byte{0xff, 0}, Origin: request.Origin, Summary: request.Summary}
	c, address := inserter(t, "secret", func(_ context.Context, in commands.Insert) (commands.Row, error) {
		require.Equal(t, request, in)
		return row, nil
	})
	got, err := c.Insert(t.Context(), address, request)
	require.NoError(t, err)
	require.Equal(t, row, got)
}

func TestTheLogsErrorsArriveAsTheyAre(t *testing.T) {
	lost := &commands.LostTailError{Applied: commands.Position{Index: 9, Row: 1}, Head: commands.Position{Index: 8, Row: -2}}
	truncated := &commands.TruncatedError{After: 3, First: 9}
	all := []error{commands.ErrNotSent, commands.ErrUnknown, commands.ErrDuplicateOrigin, commands.ErrLostTail, commands.ErrTruncated, commands.ErrDamaged}
	for _, sent := range []error{
		commands.ErrNotSent, commands.ErrUnknown, commands.ErrDuplicateOrigin, lost, truncated, commands.ErrDamaged, errors.New("too large"),
	} {
		c, address := inserter(t, "secret", func(context.Context, commands.Insert) (commands.Row, error) {
			return commands.Row{}, fmt.Errorf("append: %w", sent)
		})
		_, err := c.Insert(t.Context(), address, request)
		require.ErrorContains(t, err, sent.Error())
		for _, known := range all {
			require.Equal(t, errors.Is(sent, known), errors.Is(err, known), "%v as %v", sent, known)
		}
	}
}

func TestWhatDoesNotArriveIsNotSent(t *testing.T) {
	c, address := inserter(t, "another", func(context.Context, commands.Insert) (commands.Row, error) {
		t.Error("it was let in")
		return commands.Row{}, nil
	})
	_, err := c.Insert(t.Context(), address, request)
	require.ErrorIs(t, err, commands.ErrNotSent)
	require.ErrorIs(t, err, peer.ErrRefused)
	require.ErrorContains(t, err, "the cluster's secret is wrong", "the other node's reason")
	_, err = c.Insert(t.Context(), "http://127.0.0.1:1", request)
	require.ErrorIs(t, err, commands.ErrNotSent)
	require.NotErrorIs(t, err, peer.ErrRefused)
	_, err = c.Insert(t.Context(), "::", request)
	require.ErrorIs(t, err, commands.ErrNotSent)
}

// An answer that is lost, cut off or something else leaves the outcome open.
func TestAnAnswerThatDoesNotComeIsUnknown(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"cut off":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"empty":    func(http.ResponseWriter, *http.Request) {},
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"nothing":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(answer)
			defer server.Close()
			c := peer.New(peer.Config{Cluster: cluster, Secret: "secret", Address: func(uint32, uint64) string { return "" }})
			defer c.Close()
			_, err := c.Insert(t.Context(), server.URL, request)
			require.ErrorIs(t, err, commands.ErrUnknown)
		})
	}
}

// Two clusters may have one secret, and one of them an address that was the
// other's: nothing gets from one log into the other.
func TestANodeOfAnotherClusterInsertsNothing(t *testing.T) {
	_, address := inserter(t, "secret", func(context.Context, commands.Insert) (commands.Row, error) {
		t.Error("it was let in")
		return commands.Row{}, nil
	})
	c := peer.New(peer.Config{Cluster: [16]byte{8}, Secret: "secret", Address: func(uint32, uint64) string { return "" }})
	defer c.Close()
	_, err := c.Insert(t.Context(), address, request)
	require.ErrorIs(t, err, commands.ErrNotSent)
}

// spoils changes a byte of what passes.
type spoils struct {
	http.RoundTripper
	request, answer bool
}

// RoundTrip replaces the payload by another of the same length.
func (s spoils) RoundTrip(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if s.request {
		sent = spoil(sent)
	}
	r.Body = io.NopCloser(bytes.NewReader(sent))
	response, err := s.RoundTripper.RoundTrip(r)
	if err != nil || !s.answer {
		return response, err
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(response.Body)
	response.Body = io.NopCloser(bytes.NewReader(spoil(got)))
	return response, err
}

func spoil(text []byte) []byte {
	return bytes.Replace(text, []byte(`"Payload":"AAH/`), []byte(`"Payload":"AAE/`), 1)
}

func TestWhatIsSpoiledOnTheWayIsNotBelieved(t *testing.T) {
	for _, c := range []struct {
		way  spoils
		want error
	}{
		{spoils{}, nil},
		{spoils{request: true}, commands.ErrNotSent},
		{spoils{answer: true}, commands.ErrUnknown},
	} {
		inserts := 0
		handler := peer.InsertHandler(cluster, "secret", func(_ context.Context, in commands.Insert) (commands.Row, error) {
			inserts++
			require.Equal(t, request, in)
			return commands.Row{Payload: in.Payload}, nil
		})
		target := httptest.NewServer(handler)
		defer target.Close()
		u, err := url.Parse(target.URL)
		require.NoError(t, err)
		proxy := httputil.NewSingleHostReverseProxy(u)
		c.way.RoundTripper = http.DefaultTransport
		proxy.Transport = c.way
		between := httptest.NewServer(proxy)
		defer between.Close()
		client := peer.New(peer.Config{Cluster: cluster, Secret: "secret", Address: func(uint32, uint64) string { return "" }})
		defer client.Close()
		_, err = client.Insert(t.Context(), between.URL, request)
		require.ErrorIs(t, err, c.want)
		if c.way.request {
			require.Zero(t, inserts)
		}
	}
}

// Who does not know the secret does not hold a connection by a body that never
// comes.
func TestAStrangersBodyIsNotWaitedFor(t *testing.T) {
	_, address := inserter(t, "secret", nil)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(address, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = fmt.Fprintf(conn, "POST /insert/ HTTP/1.1\r\nHost: node\r\nContent-Length: 100\r\n\r\n")
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(30*time.Second)))
	answer, err := io.ReadAll(conn)
	require.NoError(t, err, "it ends")
	require.Contains(t, string(answer), "401")
}
