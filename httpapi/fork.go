package httpapi

import (
	"math"
	"net/http"
	"net/url"
	"strings"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// durableForkHeaders ask for a fork in Durable Streams; only PUT takes them.
var durableForkHeaders = []string{wire.StreamForkedFrom, wire.StreamForkOffset, wire.StreamForkSubOffset}

// durableFork is the fork that a PUT of Durable Streams asks for, nil for a
// stream that begins empty. Whether the source has such a place is decided
// behind [Streams].
func durableFork(h http.Header) (*stream.ForkRequest, error) {
	source, given, err := oneHeader(h, wire.StreamForkedFrom)
	if err != nil {
		return nil, err
	}
	if !given {
		return nil, refuseWithout(h, wire.StreamForkedFrom, wire.StreamForkOffset, wire.StreamForkSubOffset)
	}
	fork := new(stream.ForkRequest)
	if fork.From, err = pathName(wire.StreamForkedFrom, durableRoot, source); err != nil {
		return nil, err
	}
	if fork.At, err = durableForkOffset(h); err != nil {
		return nil, err
	}
	sub, given, err := oneHeader(h, wire.StreamForkSubOffset)
	if err != nil || !given {
		return fork, err
	}
	if fork.Sub, err = parseCanonical(wire.StreamForkSubOffset, sub, math.MaxUint64); err != nil {
		return nil, err
	}
	if fork.Sub > 0 && fork.At == nil {
		return nil, stream.Errorf(stream.CodeBadRequest,
			"%s is %d without %s: nothing lies beyond the tail; send the offset that it counts from", wire.StreamForkSubOffset, fork.Sub, wire.StreamForkOffset)
	}
	return fork, nil
}

// durableForkOffset is where a fork ends to share its source's records, nil for
// the tail. The words "-1" and "now" of reads are no offsets here.
func durableForkOffset(h http.Header) (*stream.Offset, error) {
	text, given, err := oneHeader(h, wire.StreamForkOffset)
	if err != nil || !given {
		return nil, err
	}
	at, err := wire.ParseToken(text)
	if err != nil {
		return nil, stream.Errorf(stream.CodeBadRequest,
			"%s is %.64q; send an offset that this server gave in %s, or leave it out to fork at the tail",
			wire.StreamForkOffset, text, wire.StreamNextOffset)
	}
	return &at, nil
}

// refuseDurableFork refuses the headers of a fork where nothing is created.
func refuseDurableFork(r *http.Request) error {
	for _, name := range durableForkHeaders {
		if len(r.Header.Values(name)) > 0 {
			return stream.Errorf(stream.CodeBadRequest, "%s says nothing to %s; a fork is made with PUT", name, r.Method)
		}
	}
	return nil
}

// picoFork is the fork that a PUT of Pico asks for, nil for a stream that begins
// empty.
func picoFork(r *http.Request) (*stream.ForkRequest, error) {
	source, given, err := oneHeader(r.Header, wire.PicoForkedFrom)
	if err != nil {
		return nil, err
	}
	if !given {
		return nil, refuseWithout(r.Header, wire.PicoForkedFrom, wire.PicoForkSeq)
	}
	if strings.HasPrefix(source, durableRoot) {
		return nil, stream.Errorf(stream.CodeBadRequest, "%s is %.64q; %s belongs to Durable Streams, name the stream as Pico does: %.64q",
			wire.PicoForkedFrom, source, durableRoot, source[len(durableRoot)-1:])
	}
	fork := new(stream.ForkRequest)
	if fork.From, err = pathName(wire.PicoForkedFrom, picoRoot, source); err != nil {
		return nil, err
	}
	seq, given, err := picoNumber(r, wire.PicoForkSeq, math.MaxUint64)
	if given && err == nil {
		at := min(stream.Offset(seq), wire.BeyondEveryTail)
		fork.At = &at
	}
	return fork, err
}

// refuseWithout refuses headers that mean something only together with another.
func refuseWithout(h http.Header, missing string, names ...string) error {
	for _, name := range names {
		if len(h.Values(name)) > 0 {
			return stream.Errorf(stream.CodeBadRequest, "%s means something only together with %s; send both, or neither", name, missing)
		}
	}
	return nil
}

// pathName is the stream that a header names by the path of its URL on this
// server: what follows root, percent-decoded once, as in a request. A query, a
// fragment, a scheme or a host are no part of a path.
func pathName(header, root, path string) (stream.Name, error) {
	below, ok := strings.CutPrefix(path, root)
	if !ok {
		return "", stream.Errorf(stream.CodeBadRequest,
			"%s is %.64q; send the path of the source on this server, percent-encoded, which begins with %s", header, path, root)
	}
	if strings.ContainsAny(below, "?#") {
		return "", stream.Errorf(stream.CodeBadRequest,
			"%s is %.64q; a path has neither query nor fragment, and ? and # in a name are written %%3F and %%23", header, path)
	}
	decoded, err := url.PathUnescape(below)
	if err != nil {
		return "", stream.Errorf(stream.CodeBadRequest, "%s: %w", header, err)
	}
	name, err := stream.ParseName(decoded)
	if err != nil {
		return "", stream.Errorf(stream.CodeBadRequest, "%s: %w", header, err)
	}
	return name, nil
}

// picoPath is a stream's path in Pico as a header carries it: [pathName] reads it
// back. An escaped slash tells a name that begins like the Durable Streams root
// from that root, as in a request.
func picoPath(name stream.Name) string {
	path := (&url.URL{Path: picoRoot + string(name)}).EscapedPath()
	if below, ok := strings.CutPrefix(path, durableRoot); ok {
		return "/v1%2Fstream/" + below
	}
	return path
}

// setPicoFork tells how a stream began and how many forks it has.
func setPicoFork(h http.Header, info *stream.Info) {
	if f := info.Fork; f != nil {
		h.Set(wire.PicoForkedFrom, picoPath(f.From))
		setNumber(h, wire.PicoForkSeq, f.At)
		if f.Sub > 0 {
			setNumber(h, wire.PicoForkSubOffset, f.Sub)
		}
	}
	if info.Forks > 0 {
		setNumber(h, wire.PicoForks, uint64(info.Forks))
	}
}
