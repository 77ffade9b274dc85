package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/picomq/picomq/internal/cli"
	"github.com/picomq/picomq/stream"
)

// config is what `picomq serve` is told, one field per flag.
type config struct {
	data            string
	listen          string
	adminListen     string
	metaURL         string
	metaFlag        string // that says where the log is: "--meta-url", or "--data"
	storage         string
	nodeID          uint32
	nodeTimeout     time.Duration
	drain           time.Duration
	clusterListen   string
	advertise       string
	clusterSecret   string
	clusterID       string
	walInterval     time.Duration
	walPace         time.Duration // follows from storage; 0 for the writer's default
	walUploads      int
	walHedge        string // auto, on or off
	maxBody         int64
	cacheBytes      int64
	longPollTimeout time.Duration
	sseMaxDuration  time.Duration
	reads           string
	retentionAge    cli.Age
	retentionBytes  uint64
	maxExtents      uint64
	keepRows        int
	compactRate     int64
	corsOrigin      string
	logFormat       string
	logLevel        string
	pprof           bool
}

const (
	// cloudInterval is the least time between two segments where each put costs
	// money. Elsewhere there is none.
	cloudInterval = 50 * time.Millisecond
	// diskPace keeps small segments from being put side by side on a disk, whose
	// syncs wait for each other. It is longer than a put.
	diskPace = 20 * time.Millisecond
)

// How long a server that ends fails its readiness before, unless told: not at all
// where it is the only one of its log, since nobody could take over.
const (
	drainByLog   time.Duration = math.MinInt64 // the flag was not given
	clusterDrain               = 5 * time.Second
)

// places are the flags that say where things are kept.
func (c *config) places(f *pflag.FlagSet) {
	f.StringVar(&c.data, "data", "./picomq-data", "folder of everything the server keeps on this machine")
	f.StringVar(&c.metaURL, "meta-url", "", "command log: sqlite://PATH or postgres://… (default sqlite:// under --data)")
	f.StringVar(&c.storage, "storage", "", "bucket: file:///PATH, or mem:// for a server of one run (default file:// under --data)")
}

func (c *config) flags(f *pflag.FlagSet) {
	c.places(f)
	f.StringVar(&c.listen, "listen", "127.0.0.1:4437", "address of both protocols; port 0 picks one and prints it")
	f.StringVar(&c.adminListen, "admin-listen", "127.0.0.1:4438", "address of health, readiness and metrics; empty for none")
	f.Uint32Var(&c.nodeID, "node-id", 0, "force this node number (default: given by the log, remembered in --data)")
	f.DurationVar(&c.nodeTimeout, "node-timeout", 30*time.Second, "how long a node of the cluster may be silent before it is taken for gone, the same on all of them, at least 5s")
	f.DurationVar(&c.drain, "drain", drainByLog, "how long a server that was told to end fails its readiness before it ends, so that balancers notice (default 5s, 0s with the log in SQLite)")
	f.Lookup("drain").DefValue = "0s" // which help does not print: the text says it
	f.StringVar(&c.clusterListen, "cluster-listen", "", "address on which other nodes read this one's recent segments from memory, and send it rows that it inserts into the log for them (default: none)")
	f.StringVar(&c.advertise, "advertise", "", "URL at which other nodes reach --cluster-listen (default: made from it where it names an IP address)")
	f.StringVar(&c.clusterSecret, "cluster-secret", "", "what nodes prove themselves to each other with, the same on all; better given as PICOMQ_CLUSTER_SECRET")
	f.StringVar(&c.clusterID, "cluster-id", "", "a label for logs and metrics; decides nothing")
	f.DurationVar(&c.walInterval, "wal-interval", 0, "least time between two segments, the latency and cost knob (default 0 for file and mem, 50ms for clouds)")
	f.IntVar(&c.walUploads, "wal-uploads", 8, "segments uploaded at once, 1 to 256")
	f.StringVar(&c.walHedge, "wal-hedge", "auto", "put a segment a second time when that takes unusually long: on, off, or auto: for clouds")
	f.Int64Var(&c.maxBody, "max-body", 8<<20, "largest request body in bytes")
	f.Int64Var(&c.cacheBytes, "cache-bytes", 0, "memory for recent segments and read blocks (default 256 MiB, or a quarter of GOMEMLIMIT when that is less)")
	f.DurationVar(&c.longPollTimeout, "long-poll-timeout", 25*time.Second, "how long a long poll waits")
	f.DurationVar(&c.sseMaxDuration, "sse-max-duration", 55*time.Second, "how long an event stream lasts before the client reconnects")
	f.StringVar(&c.reads, "reads", "head", "head: reads first learn the log's head; local: reads answer from what this node has applied")
	f.Var(&c.retentionAge, "retention-age", "remove records older than this (7d, 36h, 3600) from streams that state no age of their own; 0 keeps all")
	f.Uint64Var(&c.retentionBytes, "retention-bytes", 0, "keep the last so many bytes of streams that state no number of their own; 0 keeps all")
	f.Uint64Var(&c.maxExtents, "max-extents", 32<<20, "extents that all streams together may have, some 32 bytes of memory each; appends are slowed in its last eighth and refused beyond it until compaction has caught up")
	f.Int64Var(&c.compactRate, "compact-bandwidth", 32<<20, "bytes a second that compaction may read and write together")
	f.IntVar(&c.keepRows, "keep-rows", 10_000, "newest rows of the command log that stay in SQL once they are archived; a node that lags further reads the archive")
	f.StringVar(&c.corsOrigin, "cors-origin", "*", "origin that browsers may call from")
	f.StringVar(&c.logFormat, "log-format", "text", "text or json")
	f.StringVar(&c.logLevel, "log-level", "info", "debug, info, warn or error")
	f.BoolVar(&c.pprof, "pprof", false, "serve /debug/pprof on the admin address")
}

// validate checks every flag, each error naming its own, and fills what
// depends on others.
func (c *config) validate() error {
	if c.data == "" {
		return errors.New("--data is empty: name a folder")
	}
	if err := c.fillDefaults(); err != nil {
		return err
	}
	for _, check := range []struct {
		ok   bool
		text string
	}{
		{c.nodeTimeout >= 5*time.Second, fmt.Sprintf("--node-timeout %v: at least 5s", c.nodeTimeout)},
		{c.drain >= 0 && c.drain <= time.Hour, fmt.Sprintf("--drain %v: between 0 and 1h", c.drain)},
		{c.walInterval >= 0 && c.walInterval <= time.Minute, fmt.Sprintf("--wal-interval %v: between 0 and 1m", c.walInterval)},
		{c.walUploads >= 1 && c.walUploads <= 256, fmt.Sprintf("--wal-uploads %d: between 1 and 256", c.walUploads)},
		{c.walHedge == "auto" || c.walHedge == "on" || c.walHedge == "off", fmt.Sprintf("--wal-hedge %q: auto, on or off", c.walHedge)},
		{c.maxBody >= 1 && c.maxBody <= 128<<20, fmt.Sprintf("--max-body %d: between 1 and 134217728 bytes", c.maxBody)},
		{c.cacheBytes >= 1<<20, fmt.Sprintf("--cache-bytes %d: at least 1048576", c.cacheBytes)},
		{c.longPollTimeout > 0, fmt.Sprintf("--long-poll-timeout %v: more than 0", c.longPollTimeout)},
		{c.sseMaxDuration > 0, fmt.Sprintf("--sse-max-duration %v: more than 0", c.sseMaxDuration)},
		{c.reads == "head" || c.reads == "local", fmt.Sprintf("--reads %q: head or local", c.reads)},
		{c.retentionBytes <= stream.MaxRetentionBytes, fmt.Sprintf("--retention-bytes %d: at most %d", c.retentionBytes, stream.MaxRetentionBytes)},
		{c.maxExtents >= 1000, fmt.Sprintf("--max-extents %d: at least 1000", c.maxExtents)},
		{c.compactRate >= 1<<20, fmt.Sprintf("--compact-bandwidth %d: at least 1048576", c.compactRate)},
		{c.keepRows >= 1, fmt.Sprintf("--keep-rows %d: at least 1", c.keepRows)},
		{c.logFormat == "text" || c.logFormat == "json", fmt.Sprintf("--log-format %q: text or json", c.logFormat)},
		{!strings.ContainsAny(c.corsOrigin, "\r\n"), "--cors-origin: one line"},
	} {
		if !check.ok {
			return errors.New(check.text)
		}
	}
	if err := c.validatePeers(); err != nil {
		return err
	}
	for flag, address := range map[string]string{"listen": c.listen, "admin-listen": c.adminListen} {
		if address == "" && flag == "admin-listen" {
			continue
		}
		if _, _, err := net.SplitHostPort(address); err != nil {
			return fmt.Errorf("--%s %q: want HOST:PORT", flag, address)
		}
	}
	if new(slog.LevelVar).UnmarshalText([]byte(c.logLevel)) != nil {
		return fmt.Errorf("--log-level %q: debug, info, warn or error", c.logLevel)
	}
	return nil
}

func (c *config) fillDefaults() error {
	folder, err := filepath.Abs(c.data)
	if err != nil {
		return fmt.Errorf("--data %q: %w", c.data, err)
	}
	if c.storage == "" {
		c.storage = (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(folder, "bucket"))}).String()
	}
	c.metaFlag = "--meta-url"
	if c.metaURL == "" && !c.throwAway() {
		c.metaFlag = "--data"
		c.metaURL = "sqlite://" + filepath.ToSlash(filepath.Join(folder, logFile))
	}
	bucket, err := url.Parse(c.storage)
	if err != nil || bucket.Scheme == "" {
		return fmt.Errorf("--storage %q: want a URL such as file:///var/lib/picomq or mem://", c.storage)
	}
	c.placeWriter(bucket.Scheme)
	if c.drain == drainByLog {
		c.drain = clusterDrain
		if strings.HasPrefix(c.metaURL, "sqlite:") || c.throwAway() {
			c.drain = 0
		}
	}
	if c.cacheBytes == 0 {
		c.cacheBytes = memoryShare(256<<20, 4)
	}
	return nil
}

// placeWriter sets what the writer of segments should know of its bucket.
func (c *config) placeWriter(scheme string) {
	switch scheme {
	case "file":
		c.walPace = diskPace
	case "mem":
	default:
		if c.walInterval == 0 {
			c.walInterval = cloudInterval
		}
		if c.walHedge == "auto" {
			c.walHedge = "on"
		}
	}
}

// logFile is the SQLite file of a log that is kept in the data folder.
const logFile = "log.db"

// throwAway tells whether nothing is to be kept: records in memory, and no place
// named for the log, which would be worth nothing without them.
func (c *config) throwAway() bool { return strings.HasPrefix(c.storage, "mem:") && c.metaURL == "" }

// retention is what streams keep that state no bound of their own.
func (c *config) retention() stream.Retention {
	return stream.Retention{Age: uint64(c.retentionAge), Bytes: c.retentionBytes}
}

// logKind is what the log is kept in: sqlite or postgres.
func (c *config) logKind() string {
	if strings.HasPrefix(c.metaURL, "sqlite:") {
		return "sqlite"
	}
	return "postgres"
}

// recordOverhead is the most that the records of one body take in a segment
// beside their bytes.
const recordOverhead = 8 << 20

// maxAppend is the largest append, as stored, that a body can ask for.
func (c *config) maxAppend() int64 { return c.maxBody + recordOverhead }

// inFlight bounds the appends that are not decided yet, in bytes: at least one
// of the largest.
func (c *config) inFlight() int64 { return max(memoryShare(64<<20, 8), 2*c.maxAppend()) }

// bodyBudget bounds the bodies of all requests, in bytes.
func (c *config) bodyBudget() int64 { return max(memoryShare(128<<20, 8), c.maxBody) }

// memoryShare is a bound in bytes: what is usual, or the part-th part of
// GOMEMLIMIT when that is less, and never under a MiB.
func memoryShare(usual, part int64) int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return min(usual, max(limit/part, 1<<20))
	}
	return usual
}

// logger writes to standard error.
func (c *config) logger() *slog.Logger { return c.logTo(os.Stderr) }

func (c *config) logTo(w io.Writer) *slog.Logger {
	level := new(slog.LevelVar)
	_ = level.UnmarshalText([]byte(c.logLevel)) // checked by validate
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: sayErrors}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if c.logFormat == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	logger := slog.New(handler)
	if c.clusterID != "" {
		logger = logger.With("cluster", c.clusterID)
	}
	return logger
}

// sayErrors logs what an error says, without the stack that those of buckets add
// when they are asked for all they know, as the text handler does.
func sayErrors(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		return slog.String(a.Key, err.Error())
	}
	return a
}
