package chaos

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// echo listens on a free port and sends back what it receives.
func echo(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		serving.Wait()
	})
	return l.Addr().String()
}

func dial(t *testing.T, p *proxy) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", p.address())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(c, text)
	require.NoError(t, err)
}

func hear(t *testing.T, c net.Conn, text string) {
	t.Helper()
	got := make([]byte, len(text))
	_, err := io.ReadFull(c, got)
	require.NoError(t, err)
	require.Equal(t, text, string(got))
}

func TestTheProxyPassesHoldsAndCuts(t *testing.T) {
	p, err := newProxy(t.Context(), echo(t))
	require.NoError(t, err)
	t.Cleanup(p.close)

	c := dial(t, p)
	say(t, c, "through")
	hear(t, c, "through")

	p.hold()
	say(t, c, "held")
	held := dial(t, p)
	say(t, held, "held too")
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	_, err = c.Read(make([]byte, 1))
	require.ErrorContains(t, err, "timeout", "nothing comes while it is held")
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	p.release()
	hear(t, c, "held")
	hear(t, held, "held too")

	p.cut()
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	again := dial(t, p)
	say(t, again, "anew")
	hear(t, again, "anew")
}
