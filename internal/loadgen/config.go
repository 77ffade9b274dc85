package loadgen

import (
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/picomq/picomq/client"
)

// Config is one run. [Run] replaces zero values by the defaults named.
type Config struct {
	Endpoint    string // http or https URL of the server
	Protocol    client.Protocol
	Connections int           // that append; default 64
	Streams     int           // that are written in turn; default 64
	Size        int           // bytes of a record, at least MinSize; default 100
	Batch       int           // records of an append; default 1
	Duration    time.Duration // of the load; default 10 s
	Rate        float64       // appends per second of all connections together; 0: as fast as answers come
	Readers     int           // live readers, spread over the streams
	Prefix      string        // of the streams' names; the default is random
	Baseline    string        // folder for the baseline; empty: none
	// Progress, if set, is called a few times a second from one goroutine.
	Progress func(Progress)
}

// Progress is what happened so far.
type Progress struct {
	Elapsed, Duration  time.Duration
	Appends, Delivered int64
}

// MinSize is the least size of a record: its mark and time.
const MinSize = markLength

// Bounds of a run.
const (
	maxConnections = 1 << 16
	maxStreams     = 1 << 24
	maxAppendBytes = 64 << 20
)

func (c Config) withDefaults() *Config {
	setDefault(&c.Connections, 64)
	setDefault(&c.Streams, 64)
	setDefault(&c.Size, 100)
	setDefault(&c.Batch, 1)
	setDefault(&c.Duration, 10*time.Second)
	if c.Prefix == "" {
		c.Prefix = randomPrefix()
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	return &c
}

func setDefault[T int | time.Duration](v *T, value T) {
	if *v == 0 {
		*v = value
	}
}

// Validate says what is out of range, by the name of the flag that sets it. It
// knows no defaults: 0 of what a run needs some of is out of range.
func (c Config) Validate() error {
	_, err := c.validate()
	return err
}

func (c *Config) validate() (*url.URL, error) {
	for _, bound := range []struct {
		flag           string
		value, low, up int
	}{
		{"connections", c.Connections, 1, maxConnections},
		{"streams", c.Streams, 1, maxStreams},
		{"size", c.Size, MinSize, maxAppendBytes},
		{"batch", c.Batch, 1, 1 << 16},
		{"readers", c.Readers, 0, maxConnections},
	} {
		if bound.value == 0 && bound.low > 0 {
			return nil, fmt.Errorf("--%s is 0; it must be positive, %d to %d", bound.flag, bound.low, bound.up)
		}
		if bound.value < bound.low || bound.value > bound.up {
			return nil, fmt.Errorf("--%s is %d; it must be %d to %d", bound.flag, bound.value, bound.low, bound.up)
		}
	}
	if c.Size*c.Batch > maxAppendBytes {
		return nil, fmt.Errorf("--size %d and --batch %d make appends of more than %d bytes", c.Size, c.Batch, maxAppendBytes)
	}
	if c.Duration <= 0 {
		return nil, fmt.Errorf("--duration is %v; it must be positive", c.Duration)
	}
	if !(c.Rate >= 0) || math.IsInf(c.Rate, 1) { // nor NaN
		return nil, fmt.Errorf("--rate is %v; it must be a number of appends, or 0", c.Rate)
	}
	u, err := url.Parse(c.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("--endpoint: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("--endpoint %q is not an http or https URL", c.Endpoint)
	}
	return u, nil
}
