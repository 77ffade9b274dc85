package client_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

// TestRetention is sent, told, inherited by forks and not by Durable Streams.
func TestRetention(t *testing.T) {
	ctx := t.Context()
	server, c := start(t, client.Options{})
	for name, keep := range map[stream.Name]stream.Retention{
		"none": {}, "age": {Age: 60}, "bytes": {Bytes: 1 << 40}, "both": {Age: stream.MaxTTL, Bytes: stream.MaxRetentionBytes},
	} {
		r := client.CreateRequest{Config: stream.Config{Retention: keep}}
		for _, isNew := range []bool{true, false} {
			created, err := c.Create(ctx, name, r)
			require.NoError(t, err)
			require.Equal(t, isNew, created.New)
		}
		info, err := c.Head(ctx, name)
		require.NoError(t, err)
		require.Equal(t, keep, info.Config.Retention)
	}
	_, err := c.Create(ctx, "age", client.CreateRequest{Config: stream.Config{Retention: stream.Retention{Age: 61}}})
	require.Equal(t, stream.CodeConflict, stream.CodeOf(err))

	r := fork("age", client.Now())
	r.Config.Retention.Bytes = 1000
	_, err = c.Create(ctx, "fork", r)
	require.NoError(t, err)
	info, err := c.Head(ctx, "fork")
	require.NoError(t, err)
	require.Equal(t, stream.Retention{Age: 60, Bytes: 1000}, info.Config.Retention)

	durable := connect(t, server, client.Options{Protocol: client.DurableStreams})
	_, err = durable.Create(ctx, "durable", client.CreateRequest{Config: stream.Config{Retention: stream.Retention{Age: 60}}})
	require.Equal(t, stream.CodeUnsupported, stream.CodeOf(err))
	_, err = c.Head(ctx, "durable")
	require.Equal(t, stream.CodeNotFound, stream.CodeOf(err), "nothing was sent")
}

// TestReadingWhatRetentionRemoved: the start is found, an offset below is an
// error that names it.
func TestReadingWhatRetentionRemoved(t *testing.T) {
	ctx := t.Context()
	server, c := start(t, client.Options{})
	_, err := c.Create(ctx, "a", client.CreateRequest{Config: stream.Config{Retention: stream.Retention{Age: 60}}})
	require.NoError(t, err)
	_, err = c.Append(ctx, "a", &stream.AppendRequest{Records: records("0", "1")})
	require.NoError(t, err)
	server.Streams.Advance(61 * time.Second)
	_, err = c.Append(ctx, "a", &stream.AppendRequest{Records: records("2")})
	require.NoError(t, err)
	server.Streams.Retain(stream.Retention{})

	chunk, err := c.Read(ctx, "a", client.ReadRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"2"}, bodies(chunk))
	_, err = c.Read(ctx, "a", client.ReadRequest{From: client.At(1)})
	var trimmed *stream.Error
	require.ErrorAs(t, err, &trimmed)
	require.Equal(t, stream.CodeTrimmed, trimmed.Code)
	require.EqualValues(t, 2, trimmed.Start)
}
