package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/internal/process"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// failing is a bucket whose first operations of some kinds fail with a code, so
// many of each object.
func failing(inner *blob.Bucket, times int, code gcerrors.ErrorCode, kinds ...faultbucket.Kind) *blob.Bucket {
	bucket, _ := faultbucket.Wrap(inner, func(op faultbucket.Op) (d faultbucket.Decision) {
		for _, kind := range kinds {
			if op.Kind == kind && op.Nth < times {
				d.Before = &faultbucket.Error{Op: op, Code: code}
			}
		}
		return d
	})
	return bucket
}

func TestWhatAStartWaitsFor(t *testing.T) {
	ofBucket := func(code gcerrors.ErrorCode) error {
		bucket := failing(memblob.OpenBucket(nil), 1, code, faultbucket.Get)
		defer func() { require.NoError(t, bucket.Close()) }()
		_, err := bucket.ReadAll(t.Context(), "k")
		return fmt.Errorf("--storage: read k: %w", err)
	}
	for _, code := range []gcerrors.ErrorCode{gcerrors.Unknown, gcerrors.Internal, gcerrors.ResourceExhausted, gcerrors.DeadlineExceeded} {
		require.True(t, mayPass(ofBucket(code)), code)
	}
	for _, code := range []gcerrors.ErrorCode{gcerrors.NotFound, gcerrors.PermissionDenied, gcerrors.InvalidArgument, gcerrors.FailedPrecondition} {
		require.False(t, mayPass(ofBucket(code)), code)
	}
	for _, err := range []error{
		errors.New("another process registered as node 1"), &blobwal.IdentityError{Missing: true}, &blobwal.MarkerError{Key: "k"},
		&commands.LostTailError{}, context.Canceled, &os.PathError{Op: "open", Path: "p", Err: syscall.EACCES},
	} {
		require.False(t, mayPass(err), err)
	}
	require.True(t, mayPass(fmt.Errorf("--meta-url: %w", io.ErrUnexpectedEOF)), "the log's")
}

func TestAStartWaitsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		n := &node{logger: slog.New(slog.NewTextHandler(&said, nil))}
		count := func(part string) int { return strings.Count(said.String(), part) }
		tries := 0
		require.NoError(t, n.patiently(t.Context(), func() error {
			if tries++; tries < 5 {
				return io.ErrUnexpectedEOF
			}
			return nil
		}))
		require.Equal(t, 5, tries)
		require.Equal(t, 1, count("the start waits"))
		require.Contains(t, said.String(), "unexpected EOF")
		require.Equal(t, 1, count("the start goes on"))

		begun := time.Now()
		err := n.patiently(t.Context(), func() error { return io.ErrUnexpectedEOF })
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.EqualError(t, err, "waited 30s: unexpected EOF")
		require.InDelta(t, startPatience.Seconds(), time.Since(begun).Seconds(), 2)

		tries, begun = 0, time.Now()
		require.EqualError(t, n.patiently(t.Context(), func() error { tries++; return errors.New("no rights") }), "no rights")
		require.Equal(t, 1, tries)
		require.Zero(t, time.Since(begun))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, context.DeadlineExceeded, n.patiently(ctx, func() error { return io.ErrUnexpectedEOF }), "a signal ends the wait")
	})
}

// TestABucketThatFailsAtFirst delays a start and does not end it, whatever fails,
// the first start of a cluster and the next.
func TestABucketThatFailsAtFirst(t *testing.T) {
	c := configOf(t, "--data", t.TempDir())
	var epoch commands.Epoch
	for range 2 {
		n := newNode(c, "")
		objects, err := openBucket(t.Context(), c.storage)
		require.NoError(t, err)
		n.bucket = failing(objects, 1, gcerrors.Unknown, faultbucket.Get, faultbucket.Put, faultbucket.List)
		require.NoError(t, n.start(t.Context(), c))
		require.Greater(t, n.standing.now.Load().Epoch, epoch)
		epoch = n.standing.now.Load().Epoch
		n.stop(t.Context())
	}
}

// TestADatabaseThatStartsLater: a node that is started before it waits for it.
func TestADatabaseThatStartsLater(t *testing.T) {
	d, bucket := sqllogtest.StartServer(t), t.TempDir()
	require.NoError(t, d.Stop())
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	server, err := process.Launch(ctx, process.Config{
		Binary: binary,
		Args:   []string{"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--drain", "0s", "--meta-url", d.URL, "--storage", "file://" + bucket},
	})
	require.NoError(t, err)
	requireLog(t, server, "the start waits")
	require.Contains(t, server.Log(), "--meta-url")
	require.NoError(t, d.Start(ctx))
	require.NoError(t, server.Ready(ctx))
	stop(t, server, syscall.SIGTERM)
}

// TestASignalEndsTheWait, and the exit code says so.
func TestASignalEndsTheWait(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	server, err := process.Launch(ctx, process.Config{
		Binary: binary,
		Args:   []string{"--data", t.TempDir(), "--listen", "127.0.0.1:0", "--admin-listen", "", "--meta-url", "postgres://127.0.0.1:1/nobody"},
	})
	require.NoError(t, err)
	requireLog(t, server, "the start waits")
	require.NoError(t, server.Signal(syscall.SIGTERM))
	state, err := server.Wait(ctx)
	require.NoError(t, err)
	require.Equal(t, 128+int(syscall.SIGTERM), state.ExitCode(), server.Log())
}
