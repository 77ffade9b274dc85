package faultbucket

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/drivertest"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"
)

// harness runs go-cloud's driver suite over a wrapped bucket without a plan: a
// bucket that is left alone behaves like the one inside.
type harness struct{ prefix string }

func (h *harness) MakeDriver(context.Context) (driver.Bucket, error) {
	b := &bucket{inner: memblob.OpenBucket(nil), faults: &Faults{seen: make(map[seenKey]int)}}
	if h.prefix == "" {
		return b, nil
	}
	return driver.NewPrefixedBucket(b, h.prefix), nil
}

func (h *harness) MakeDriverForNonexistentBucket(context.Context) (driver.Bucket, error) {
	return nil, nil
}
func (h *harness) HTTPClient() *http.Client         { return nil }
func (h *harness) SupportsCopy() bool               { return true }
func (h *harness) SupportsNonSlashDelimiters() bool { return true }
func (h *harness) Close()                           {}

func TestConformance(t *testing.T) {
	drivertest.RunConformanceTests(t, func(context.Context, *testing.T) (drivertest.Harness, error) {
		return &harness{}, nil
	}, nil)
}

func open(t *testing.T, plan Plan) (*blob.Bucket, *Faults) {
	t.Helper()
	b, faults := Wrap(memblob.OpenBucket(nil), plan)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b, faults
}

func TestAnOperationThatFailsDoesNotHappen(t *testing.T) {
	b, faults := open(t, func(op Op) (d Decision) {
		if op.Kind == Put && op.Nth == 0 {
			d.Before = Fail(op)
		}
		return d
	})
	err := b.WriteAll(t.Context(), "k", []byte("v"), nil)
	var injected *Error
	require.True(t, b.ErrorAs(err, &injected) || errors.As(err, &injected))
	assert.Equal(t, gcerrors.Unknown, gcerrors.Code(err))
	exists, err := b.Exists(t.Context(), "k")
	require.NoError(t, err)
	assert.False(t, exists)
	require.NoError(t, b.WriteAll(t.Context(), "k", []byte("v"), nil))
	assert.Equal(t, 2, faults.Count(Put))
}

func TestAnOperationWhoseAnswerIsLostHappens(t *testing.T) {
	b, _ := open(t, func(op Op) (d Decision) {
		if op.Kind == Put || op.Kind == Delete {
			d.After = Lose(op)
		}
		return d
	})
	require.Error(t, b.WriteAll(t.Context(), "k", []byte("v"), nil))
	body, err := b.ReadAll(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "v", string(body))
	require.Error(t, b.Delete(t.Context(), "k"))
	_, err = b.ReadAll(t.Context(), "k")
	assert.Equal(t, gcerrors.NotFound, gcerrors.Code(err))
}

func TestReadsAreCutAndSpoiled(t *testing.T) {
	b, faults := open(t, nil)
	require.NoError(t, b.WriteAll(t.Context(), "k", []byte("abcdef"), nil))
	faults.SetPlan(func(Op) Decision { return Decision{Cut: 3} })
	body, err := b.ReadAll(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "abc", string(body))
	faults.SetPlan(func(Op) Decision {
		return Decision{Flip: func(position int64, p []byte) {
			for i := range p {
				if position+int64(i) == 4 {
					p[i] = 'X'
				}
			}
		}}
	})
	body, err = b.ReadAll(t.Context(), "k")
	require.NoError(t, err)
	assert.Equal(t, "abcdXf", string(body))
}

func TestADelayEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := open(t, func(Op) Decision { return Decision{Delay: time.Minute} })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := b.Attributes(ctx, "k")
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestRandomPlansRepeat(t *testing.T) {
	random := Random{Seed: 7, Latency: time.Millisecond, Jitter: time.Second, Put: 2 * time.Second, Straggle: 0.01, Straggler: time.Minute, PutBefore: 0.2, PutAfter: 0.2, GetBefore: 0.3}
	first, again := random.Plan(), random.Plan()
	before, after, stragglers := 0, 0, 0
	for n := range 5000 {
		op := Op{Kind: Put, Key: "k", Nth: n}
		d := first(op)
		assert.Equal(t, d, again(op))
		if d.Before != nil {
			before++
		}
		if d.After != nil {
			after++
		}
		if d.Delay == time.Minute {
			stragglers++
		} else {
			assert.GreaterOrEqual(t, d.Delay, 2001*time.Millisecond)
			assert.Less(t, d.Delay, 3001*time.Millisecond)
		}
	}
	assert.InDelta(t, 1000, before, 150)
	assert.InDelta(t, 1000, after, 150)
	assert.InDelta(t, 50, stragglers, 30)
	assert.Less(t, first(Op{Kind: List, Key: "k"}).Delay, 1001*time.Millisecond, "neither put nor get")
}

func TestEveryOperationFailsWhileTheFileIsThere(t *testing.T) {
	down := filepath.Join(t.TempDir(), "down")
	plan := Random{Down: down}.Plan()
	assert.Zero(t, plan(Op{Kind: Put, Key: "k"}))
	require.NoError(t, os.WriteFile(down, nil, 0o600))
	for kind := range kinds {
		assert.Error(t, plan(Op{Kind: kind, Key: "k"}).Before, kind)
	}
	require.NoError(t, os.Remove(down))
	assert.Zero(t, plan(Op{Kind: Put, Key: "k"}))
}

func TestParseRandom(t *testing.T) {
	r, err := ParseRandom("put=20ms,get=10ms,latency=1ms,jitter=2ms,straggle=0.01:500ms,put-fails=0.2,put-lost=0.3,get-fails=0.4,seed=7,down=/tmp/x")
	require.NoError(t, err)
	assert.Equal(t, Random{
		Seed: 7, Latency: time.Millisecond, Jitter: 2 * time.Millisecond, Put: 20 * time.Millisecond, Get: 10 * time.Millisecond,
		Straggle: 0.01, Straggler: 500 * time.Millisecond, PutBefore: 0.2, PutAfter: 0.3, GetBefore: 0.4, Down: "/tmp/x",
	}, r)
	for _, text := range []string{
		"", "put", "put=", "put=20", "put=-1s", "get=soon", "straggle=0.1", "straggle=2:1s", "straggle=NaN:1s", "put-fails=-0.1", "seed=x", "list=1s", "put=1s,,seed=1",
	} {
		_, err := ParseRandom(text)
		assert.Error(t, err, text)
	}
}
