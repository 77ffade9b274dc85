package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/picomq/picomq/stream"
)

// Protocol is one of the two spellings of a request.
type Protocol uint8

// The protocols.
const (
	Pico Protocol = iota
	DurableStreams
)

// String is the protocol's name on a command line.
func (p Protocol) String() string {
	if p == DurableStreams {
		return "ds"
	}
	return "pico"
}

// ParseProtocol reads a name that [Protocol.String] prints.
func ParseProtocol(name string) (Protocol, error) {
	switch name {
	case "pico":
		return Pico, nil
	case "ds":
		return DurableStreams, nil
	default:
		return Pico, fmt.Errorf("protocol %q is not known; use pico or ds", name)
	}
}

// Options says how a client behaves. The zero value is a client of the Pico
// protocol.
type Options struct {
	Protocol Protocol
	// HTTPClient carries the requests; nil means one of this client's own. Its
	// Timeout must be 0, because live reads last.
	HTTPClient *http.Client
	// Timeout bounds one try of a request that is not live, its response
	// included. 0 means 30 s.
	Timeout time.Duration
	// RetryFor bounds the tries of one call together. 0 means 30 s; a negative
	// value means one try.
	RetryFor time.Duration
	// MaxResponse bounds one response, and one event of a live read, in bytes.
	// 0 means 64 MiB.
	MaxResponse int
	// Notify, if set, is told of every failure that will be tried again and of
	// the pause before that. It is called from the goroutine of the call.
	Notify func(err error, pause time.Duration)
}

func (o *Options) setDefaults() {
	if o.HTTPClient == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = 64
		o.HTTPClient = &http.Client{Transport: transport}
	}
	if o.Timeout == 0 {
		o.Timeout = 30 * time.Second
	}
	if o.RetryFor == 0 {
		o.RetryFor = 30 * time.Second
	}
	if o.MaxResponse == 0 {
		o.MaxResponse = 64 << 20
	}
	if o.Notify == nil {
		o.Notify = func(error, time.Duration) {}
	}
}

// durableRoot is the path below which Durable Streams has its streams.
const durableRoot = "/v1/stream/"

// Client makes requests to one server. It is safe for concurrent use.
type Client struct {
	endpoint string // without a trailing slash
	options  Options
}

// New is a client of the server at an http or https URL, which may have a path
// that a proxy strips. Nothing is sent.
func New(endpoint string, options Options) (*Client, error) {
	u, err := url.Parse(endpoint)
	switch {
	case err != nil:
		return nil, fmt.Errorf("endpoint %q is not a URL: %w", endpoint, bare(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("endpoint %q: the scheme must be http or https", endpoint)
	case u.Host == "":
		return nil, fmt.Errorf("endpoint %q names no host", endpoint)
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("endpoint %q has a query or a fragment", endpoint)
	}
	options.setDefaults()
	return &Client{endpoint: strings.TrimRight(endpoint, "/"), options: options}, nil
}

// Protocol is the protocol that the client speaks.
func (c *Client) Protocol() Protocol { return c.options.Protocol }

// CloseIdleConnections drops connections that no request uses.
func (c *Client) CloseIdleConnections() { c.options.HTTPClient.CloseIdleConnections() }

// request is one request before it is sent, so that it can be sent again.
type request struct {
	method string
	name   stream.Name // empty for the list of all streams
	parent stream.Name // of a fork, whose absence is then what a refusal means
	query  url.Values
	header http.Header
	body   []byte
}

// reads tells whether the request changes nothing, so that it matters little
// whether it was carried out.
func (r *request) reads() bool { return r.method == http.MethodGet || r.method == http.MethodHead }

// newRequest checks the name: what no server would take is not sent.
func (c *Client) newRequest(method string, name stream.Name) (*request, error) {
	if _, err := stream.ParseName(string(name)); err != nil {
		return nil, err
	}
	if c.options.Protocol == Pico && strings.HasPrefix("/"+string(name), durableRoot) {
		return nil, stream.Errorf(stream.CodeUnsupported,
			"the name %q lies below %s, where Durable Streams has its streams; use that protocol", name, durableRoot)
	}
	return &request{method: method, name: name, query: url.Values{}, header: http.Header{}}, nil
}

// escaped is a name below a root, each segment escaped.
func escaped(root string, name stream.Name) string {
	segments := strings.Split(string(name), "/")
	for i := range segments {
		segments[i] = url.PathEscape(segments[i])
	}
	return root + strings.Join(segments, "/")
}

// url spells the name below the protocol's root.
func (c *Client) url(r *request) string {
	root := "/"
	if c.options.Protocol == DurableStreams {
		root = durableRoot
	}
	target := c.endpoint + escaped(root, r.name)
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	return target
}

// String names the request in errors.
func (r *request) String() string {
	return fmt.Sprintf("%s %q", r.method, "/"+string(r.name))
}

// send sends the request once and returns the response whose status is a
// success; its body is open. Any other status is an error.
func (c *Client) send(ctx context.Context, r *request) (*http.Response, error) {
	var body io.Reader
	if len(r.body) > 0 {
		body = bytes.NewReader(r.body)
	}
	httpRequest, err := http.NewRequestWithContext(ctx, r.method, c.url(r), body)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", r, err)
	}
	httpRequest.Header = r.header.Clone()
	response, err := c.options.HTTPClient.Do(httpRequest)
	if err != nil {
		return nil, connectionError(r, whySilent(ctx, err))
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		defer func() { _ = response.Body.Close() }()
		return nil, refusal(r, response)
	}
	return response, nil
}

// answer is a response read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// try sends the request once, within Timeout, and reads the response whole.
func (c *Client) try(ctx context.Context, r *request) (*answer, error) {
	tryCtx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	response, err := c.send(tryCtx, r)
	if err == nil {
		defer func() { _ = response.Body.Close() }()
		var body []byte
		if body, err = c.readWhole(r, response.Body); err == nil {
			return &answer{status: response.StatusCode, header: response.Header, body: body}, nil
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("%v: %w", r, ctx.Err())
	}
	return nil, err
}

func (c *Client) readWhole(r *request, body io.Reader) ([]byte, error) {
	limit := c.options.MaxResponse
	data, err := io.ReadAll(io.LimitReader(body, int64(limit)+1))
	if err != nil {
		return nil, connectionError(r, err)
	}
	if len(data) > limit {
		return nil, stream.Errorf(stream.CodeTooLarge, "%v: the response is larger than %d bytes; read fewer bytes at once", r, limit)
	}
	return data, nil
}
