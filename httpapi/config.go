package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config is what an [API] is made from. Zero fields take the defaults named
// beside them.
type Config struct {
	// Streams carries the requests out. Required.
	Streams Streams
	// Logger takes internal errors, each with its request id. Default:
	// [slog.Default].
	Logger *slog.Logger
	// Metrics counts what is served. Default: metrics that nobody gathers.
	Metrics *Metrics
	// Clock is the wall clock that cursors are counted by. Default: [time.Now].
	Clock func() time.Time

	// MaxBody is the largest request body in bytes. Default: 8 MiB.
	MaxBody int64
	// BodyBudget bounds the memory of all requests' bodies at one time, in bytes:
	// what was taken for their bytes, and for the records decoded from them
	// ([stream.RecordMemory]). What does not fit is refused with 503, except that
	// one request alone always fits. The process that serves sets it from the
	// memory it may take (GOMEMLIMIT); this package does not look. The heap grows
	// to about twice as much before garbage is collected. Default: 256 MiB, or four
	// times MaxBody if that is more.
	BodyBudget int64
	// MaxSubscribers bounds the live readers, long polls and event streams
	// together; one more is refused with 503. Default: 100,000.
	MaxSubscribers int
	// EventCacheBytes bounds the encoded events kept for sharing between
	// readers, in bytes. Default: 32 MiB.
	EventCacheBytes int64

	// LongPollTimeout is how long a long poll waits for data, give or take a
	// sixty-fourth. Default: 25 s.
	LongPollTimeout time.Duration
	// SSEMaxDuration is how long an event stream lasts before its reader has to
	// connect again. Default: 55 s.
	SSEMaxDuration time.Duration
	// Keepalive bounds the silence of an event stream: before it is over, and not
	// before three quarters of it, the stream carries a comment line, so that
	// proxies and clients know it alive. Default: 15 s.
	Keepalive time.Duration
	// WriteTimeout bounds one write of a response: an event, or a piece of a
	// body. A client that takes nothing for so long is cut. Default: 30 s.
	WriteTimeout time.Duration
	// BodyTimeout bounds the time that a request body may take, from when its
	// headers are there. Default: 60 s.
	BodyTimeout time.Duration

	// CORSOrigin is the value of Access-Control-Allow-Origin. Default: "*".
	CORSOrigin string
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Metrics == nil {
		c.Metrics = NewMetrics()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	setDefault(&c.MaxBody, 8<<20)
	setDefault(&c.BodyBudget, max(256<<20, 4*c.MaxBody))
	setDefault(&c.MaxSubscribers, 100_000)
	setDefault(&c.EventCacheBytes, 32<<20)
	setDefault(&c.LongPollTimeout, 25*time.Second)
	setDefault(&c.SSEMaxDuration, 55*time.Second)
	setDefault(&c.Keepalive, 15*time.Second)
	setDefault(&c.WriteTimeout, 30*time.Second)
	setDefault(&c.BodyTimeout, 60*time.Second)
	setDefault(&c.CORSOrigin, "*")
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate reports the first field that cannot be used. Zero fields are fine:
// they take their defaults.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Streams == nil:
		return errors.New("httpapi: Config.Streams is required")
	case c.MaxBody < 1:
		return fmt.Errorf("httpapi: Config.MaxBody is %d bytes; it must be positive", c.MaxBody)
	case c.BodyBudget < c.MaxBody:
		return fmt.Errorf("httpapi: Config.BodyBudget is %d bytes; it must hold one body of MaxBody, %d bytes", c.BodyBudget, c.MaxBody)
	case c.MaxSubscribers < 1:
		return fmt.Errorf("httpapi: Config.MaxSubscribers is %d; it must be positive", c.MaxSubscribers)
	case c.EventCacheBytes < 1:
		return fmt.Errorf("httpapi: Config.EventCacheBytes is %d; it must be positive", c.EventCacheBytes)
	}
	return errors.Join(
		positive("LongPollTimeout", c.LongPollTimeout),
		positive("SSEMaxDuration", c.SSEMaxDuration),
		positive("Keepalive", c.Keepalive),
		positive("WriteTimeout", c.WriteTimeout),
		positive("BodyTimeout", c.BodyTimeout),
	)
}

func positive(field string, d time.Duration) error {
	if d < 1 {
		return fmt.Errorf("httpapi: Config.%s is %v; it must be positive", field, d)
	}
	return nil
}
