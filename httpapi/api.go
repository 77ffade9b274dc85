package httpapi

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/gorilla/mux"

	"github.com/picomq/picomq/stream"
)

// The roots of the two protocols. The Durable Streams root is matched first.
const (
	durableRoot = "/v1/stream/"
	picoRoot    = "/"
)

// API serves both protocols. It is safe for concurrent use.
type API struct {
	config      Config
	handler     http.Handler
	common      commonHeaders
	events      *eventCache
	alarms      *alarms
	spread      atomic.Uint32 // see [subscription.alarm]
	subscribers atomic.Int64
	bodies      atomic.Int64 // bytes of request bodies in memory now
	requests    requestIDs

	// retiring is set once Retire was called.
	retiring atomic.Bool
	// draining is done once Drain was called. Live readers watch it.
	draining context.Context
	drain    context.CancelFunc
}

// New makes an API. It starts no goroutine.
func New(config Config) (*API, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	a := &API{
		config:   config,
		common:   newCommonHeaders(config),
		events:   newEventCache(config.EventCacheBytes, config.Metrics),
		alarms:   newAlarms(),
		requests: newRequestIDs(),
	}
	a.draining, a.drain = context.WithCancel(context.Background())
	a.handler = a.middleware(a.router())
	return a, nil
}

// Handler serves both protocols.
func (a *API) Handler() http.Handler { return a.handler }

// Retire has every answer from now on end its connection: a client or balancer
// that keeps connections makes its next one elsewhere, if it can, and is not about
// to use an old one when this server closes it. Connections that nobody uses are
// left alone, since a request may be on its way on any of them. So are those of
// HTTP/2, where requests that come while one ends have to be sent again:
// [http.Server.Shutdown] ends these.
//
// Call it when readiness begins to fail, some time before Drain.
func (a *API) Retire() { a.retiring.Store(true) }

// Drain ends every live reader cleanly, and from now on those that come: long
// polls answer as if their time were over, event streams end after their last
// whole event. Everything else goes on. Call it before [http.Server.Shutdown],
// which would otherwise wait for them.
func (a *API) Drain() {
	a.drain()
	a.alarms.end()
}

// router tells the protocols apart. Paths are matched as they were sent:
// cleaning them would answer POST with a redirect and take "%2F" for a slash.
func (a *API) router() http.Handler {
	routes := mux.NewRouter().SkipClean(true).UseEncodedPath()
	routes.MatcherFunc(func(r *http.Request, _ *mux.RouteMatch) bool { return isDurable(r) }).HandlerFunc(a.serveDurable)
	routes.NewRoute().HandlerFunc(a.servePico)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The router itself would copy the request twice, to keep variables in it
		// that these routes do not have.
		var match mux.RouteMatch
		if !routes.Match(r, &match) {
			http.NotFound(w, r)
			return
		}
		match.Handler.ServeHTTP(w, r)
	})
}

// isDurable tells whether a request speaks Durable Streams.
func isDurable(r *http.Request) bool { return strings.HasPrefix(r.URL.EscapedPath(), durableRoot) }

func protocolOf(r *http.Request) string {
	if isDurable(r) {
		return "durable"
	}
	return "pico"
}

// nameBelow is the stream that a request names: its path below root,
// percent-decoded once, byte for byte. The error is an *[stream.Error] of code
// [stream.CodeBadRequest].
func nameBelow(root string, r *http.Request) (stream.Name, error) {
	// net/http has refused bad escapes, and decoded Path; the router has
	// matched root, which needs no escapes, literally.
	return stream.ParseName(strings.TrimPrefix(r.URL.Path, root))
}
