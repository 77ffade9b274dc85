package picosuite

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// requestTimeout bounds one exchange: longer than a server's long poll and
// event stream may last.
const requestTimeout = 90 * time.Second

// Option changes how the suite runs.
type Option func(*suite)

// Advance says how time passes for the server. Without it, it is slept. Cases
// that move time this way run alone, because it passes for all of them.
func Advance(pass func(time.Duration)) Option {
	return func(s *suite) { s.advance, s.shared = pass, true }
}

// Transport says how requests are sent. Without it, it is HTTP/1.1 for http://
// addresses.
func Transport(t http.RoundTripper) Option {
	return func(s *suite) { s.client.Transport = t }
}

// suite is one run against one server.
type suite struct {
	base    string
	root    string // first segment of every name of this run
	client  *http.Client
	advance func(time.Duration)
	shared  bool // advance moves a clock that all cases share
}

// Run runs every case against the server at baseURL, which has no trailing
// slash. The server has its default limits; shorter times of its long polls and
// event streams (1 s and 5 s do well) only make the run shorter.
func Run(t *testing.T, baseURL string, options ...Option) {
	var random [5]byte
	_, _ = rand.Read(random[:]) // never fails
	s := &suite{
		base:    strings.TrimSuffix(baseURL, "/"),
		root:    "picosuite-" + hex.EncodeToString(random[:]),
		advance: time.Sleep,
		client: &http.Client{
			Transport:     &http.Transport{ExpectContinueTimeout: 10 * time.Second, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	for _, option := range options {
		option(s)
	}
	t.Cleanup(s.client.CloseIdleConnections)
	for _, c := range loadScripts(t) {
		s.run(t, c.name, !c.pauses || !s.shared, func(p *player) { p.play(c) })
	}
	for _, c := range liveCases {
		s.run(t, c.name, true, c.play)
	}
}

func (s *suite) run(t *testing.T, name string, parallel bool, play func(*player)) {
	t.Run(name, func(t *testing.T) {
		if parallel {
			t.Parallel()
		}
		play(&player{T: t, suite: s, name: s.root + "/" + slug(name), bound: make(map[string]string)})
	})
}

// slug makes a case's name one segment of a stream name.
func slug(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		default:
			return '-'
		}
	}, name)
}

// answer is a whole response.
type answer struct {
	status int
	header http.Header
	body   string
}

// send makes one request and reads its whole response.
func (s *suite) send(ctx context.Context, method, target string, headers []field, body string) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := s.open(ctx, method, target, headers, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return &answer{status: response.StatusCode, header: response.Header, body: string(text)}, nil
}

// open makes one request and returns when its response begins.
func (s *suite) open(ctx context.Context, method, target string, headers []field, body string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, s.base+target, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range headers {
		request.Header.Add(h.name, h.value)
	}
	return s.client.Do(request)
}
