package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/stream"
)

func TestMediaType(t *testing.T) {
	for _, c := range []struct {
		contentType, media string
		json, text         bool
	}{
		{"application/json", "application/json", true, true},
		{"Application/JSON ; charset=utf-8", "application/json", true, true},
		{" application/json", "application/json", true, true},
		{"application/ld+json", "application/ld+json", false, false},
		{"application/jsonl", "application/jsonl", false, false},
		{"text/plain;charset=utf-8", "text/plain", false, true},
		{"TEXT/event-stream", "text/event-stream", false, true},
		{"textual/plain", "textual/plain", false, false},
		{"application/octet-stream", "application/octet-stream", false, false},
		{"", "", false, false},
		{";charset=utf-8", "", false, false},
	} {
		require.Equal(t, c.media, stream.MediaType(c.contentType), "%q", c.contentType)
		require.Equal(t, c.json, stream.IsJSON(c.contentType), "%q", c.contentType)
		require.Equal(t, c.text, stream.IsText(c.contentType), "%q", c.contentType)
	}
}

func TestErrorfKeepsWhatItWraps(t *testing.T) {
	err := stream.Errorf(stream.CodeUnavailable, "append to %q: %w", "a", context.DeadlineExceeded)
	require.EqualError(t, err, `append to "a": context deadline exceeded`)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, stream.CodeUnavailable, err.Code)

	wrapped := fmt.Errorf("handle: %w", err)
	require.Equal(t, stream.CodeUnavailable, stream.CodeOf(wrapped))

	plain := stream.Errorf(stream.CodeClosed, "closed")
	require.NoError(t, errors.Unwrap(plain))
}

func TestCodeOf(t *testing.T) {
	require.Equal(t, stream.CodeInternal, stream.CodeOf(errors.New("anything else")))
	require.Equal(t, stream.CodeInternal, stream.CodeOf(nil))
}

// TestEveryCodeHasAName: the names are labels of metrics, one for each code.
func TestEveryCodeHasAName(t *testing.T) {
	seen := map[string]bool{}
	for c := stream.CodeInternal; c <= stream.CodeUnsupported; c++ {
		name := c.String()
		require.NotEmpty(t, name)
		require.False(t, strings.HasPrefix(name, "code_"), "code %d has no name", uint8(c))
		require.False(t, seen[name], "two codes are named %s", name)
		seen[name] = true
	}
	require.Equal(t, "code_200", stream.Code(200).String())
}

func TestIDHoldsLogAndNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := rapid.Uint16().Draw(t, "log")
		dense := rapid.Uint64Range(1, 1<<48-1).Draw(t, "dense")
		id := stream.MakeID(log, dense)
		require.Equal(t, log, id.Log())
		require.Equal(t, dense, id.Dense())
	})
	require.Equal(t, stream.ID(7), stream.MakeID(0, 7), "streams of log 0 are small numbers")
}

func TestChunkAtEnd(t *testing.T) {
	for _, c := range []struct{ upToDate, closed, want bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
		chunk := stream.Chunk{Info: stream.Info{Closed: c.closed}, UpToDate: c.upToDate}
		require.Equal(t, c.want, chunk.AtEnd())
	}
}

func TestInfoForPeople(t *testing.T) {
	info := stream.Info{ID: stream.MakeID(0, 12), Name: "logs/a", Start: 3, Tail: 9}
	require.Equal(t, "logs/a#12[3,9)", info.String())
	require.Len(t, fmt.Sprint(uint64(stream.MaxOffset)), 16)
}

func TestRefusalsThatMayPassSayWhenToTryAgain(t *testing.T) {
	for code := stream.CodeInternal; code <= stream.CodeUnsupported; code++ {
		want := time.Duration(0)
		switch code {
		case stream.CodeOverloaded, stream.CodeUnavailable, stream.CodeOutcomeUnknown:
			want = stream.DefaultRetryAfter
		default:
		}
		require.Equal(t, want, stream.Errorf(code, "why").RetryAfter, code.String())
	}
}

func TestWhatACreateAsksFor(t *testing.T) {
	idle := stream.Expiry{Kind: stream.ExpiresIdle, TTL: 60}
	have := stream.Config{ContentType: "text/plain; charset=utf-8", Expiry: idle, Retention: stream.Retention{Age: 5, Bytes: 7}}
	for _, c := range []struct {
		why  string
		want stream.Config
		root bool // meets it as a stream of its own
		fork bool // meets it as a fork
	}{
		{"itself", have, true, true},
		{"the type's parameters", stream.Config{ContentType: "Text/Plain", Expiry: idle}, true, true},
		{"bounds of retention left out", stream.Config{ContentType: "text/plain", Expiry: idle, Retention: stream.Retention{Age: 5}}, true, true},
		{"another bound", stream.Config{ContentType: "text/plain", Expiry: idle, Retention: stream.Retention{Age: 6}}, false, false},
		{"another type", stream.Config{ContentType: "text/html", Expiry: idle}, false, false},
		{"a type to inherit", stream.Config{Expiry: idle}, false, true},
		{"an expiry to inherit", stream.Config{ContentType: "text/plain"}, false, true},
		{"another expiry", stream.Config{ContentType: "text/plain", Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 61}}, false, false},
	} {
		require.Equal(t, c.root, have.Meets(c.want, false), c.why)
		require.Equal(t, c.fork, have.Meets(c.want, true), c.why)
	}
}
