package blobwal

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"

	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/stream"
)

// rig is a writer on a bucket that misbehaves as planned, inside a synctest
// bubble: time stands still unless everybody waits.
type rig struct {
	*Writer
	bucket *blob.Bucket
	faults *faultbucket.Faults

	undecided bool // segments stay so

	mu        sync.Mutex
	delivered []*Sealed
	at        []time.Duration // since the rig was made
	start     time.Time
}

func newRig(t *testing.T, config WriterConfig, plan faultbucket.Plan) *rig {
	t.Helper()
	r := &rig{start: time.Now()}
	r.bucket, r.faults = faultbucket.Wrap(memblob.OpenBucket(nil), plan)
	t.Cleanup(func() { require.NoError(t, r.bucket.Close()) })
	config.Bucket, config.Identity, config.Sealed = r.bucket, someone(), r.sealed
	var err error
	r.Writer, err = NewWriter(config)
	require.NoError(t, err)
	return r
}

func (r *rig) sealed(s *Sealed) {
	if !r.undecided {
		defer s.Decided()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delivered = append(r.delivered, s)
	r.at = append(r.at, time.Since(r.start))
}

func (r *rig) closeNow(t *testing.T) {
	t.Helper()
	require.NoError(t, r.Close(context.Background()))
}

// slow is a plan in which every put takes the same time.
func slow(d time.Duration) faultbucket.Plan {
	return func(op faultbucket.Op) (out faultbucket.Decision) {
		if op.Kind == faultbucket.Put {
			out.Delay = d
		}
		return out
	}
}

func TestAnAppendAfterAPauseNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{Interval: 50 * time.Millisecond}, slow(10*time.Millisecond))
		for i := range 3 {
			time.Sleep(time.Second - r.sinceStart()%time.Second)
			require.NoError(t, r.Add(to(1, "a")))
			synctest.Wait()
			assert.Equal(t, i+1, r.faults.Count(faultbucket.Put), "sealed at once")
		}
		r.closeNow(t)
		assert.Equal(t, []time.Duration{1010 * time.Millisecond, 2010 * time.Millisecond, 3010 * time.Millisecond}, r.at)
	})
}

// In a crowd a segment is under way until it is decided, else until it is put.
func TestACrowdWaitsForTheDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{Pace: time.Hour}, slow(time.Millisecond))
		r.undecided = true
		for i := range 2 {
			require.NoError(t, r.Add(to(1, "one of few")))
			time.Sleep(time.Second)
			synctest.Wait()
			require.Len(t, r.delivered, i+1, "it does not wait for decisions")
		}
		for range crowd {
			require.NoError(t, r.Add(to(1, "one of many")))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, r.delivered, 3, "the first of many found nothing under way")
		for _, s := range slices.Clone(r.delivered) {
			s.Decided()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, r.delivered, 4)
		assert.Len(t, r.delivered[3].Appends, crowd-1)
		r.closeNow(t)
	})
}

func TestALoneClientWaitsForNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{}, slow(100*time.Microsecond))
		for i := range 50 {
			require.NoError(t, r.Add(to(1, "a")))
			assert.Nil(t, r.timer)
			time.Sleep(100 * time.Microsecond)
			synctest.Wait()
			require.Len(t, r.delivered, i+1)
		}
		assert.Equal(t, 50*100*time.Microsecond, r.sinceStart(), "fifty puts, one after the other")
		r.closeNow(t)
	})
}

// What comes while an upload is under way goes with the next one: at the pace,
// or when nothing is under way any more.
func TestAppendsBesideAnUploadShareTheNext(t *testing.T) {
	for name, test := range map[string]struct{ put, second time.Duration }{
		"a short put": {put: 400 * time.Microsecond, second: 400 * time.Microsecond},
		"a long put":  {put: 4 * time.Millisecond, second: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, WriterConfig{}, slow(test.put))
				for range 4 {
					require.NoError(t, r.Add(to(1, "a")))
				}
				time.Sleep(time.Second)
				r.closeNow(t)
				require.Len(t, r.delivered, 2)
				assert.Len(t, r.delivered[1].Appends, 3)
				assert.Equal(t, test.second+test.put, r.at[1])
			})
		})
	}
}

func TestALargeGroupDoesNotKeepThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{Pace: time.Hour, SegmentBytes: 10_000}, slow(10*time.Millisecond))
		r.meanPut = 24 * time.Millisecond // a gap of 3 ms
		require.NoError(t, r.Add(to(1, "at once")))
		require.NoError(t, r.Add(to(2, "keeps the pace")))
		time.Sleep(time.Millisecond)
		assert.Equal(t, 1, r.Stats().InFlight)
		require.NoError(t, r.Add(to(3, fill64(2_500))))
		time.Sleep(time.Millisecond)
		assert.Equal(t, 1, r.Stats().InFlight)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.Equal(t, 2, r.Stats().InFlight)
		r.closeNow(t)
	})
}

func (r *rig) sinceStart() time.Duration { return time.Since(r.start) }

func TestAppendsWithinTheIntervalShareASegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{Interval: 50 * time.Millisecond}, nil)
		for range 10 {
			require.NoError(t, r.Add(to(1, "a")))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, r.delivered, 2)
		assert.Len(t, r.delivered[0].Appends, 1)
		assert.Len(t, r.delivered[1].Appends, 9)
		assert.Equal(t, []time.Duration{0, 50 * time.Millisecond}, r.at)
		r.closeNow(t)
	})
}

func TestAFullGroupDoesNotWaitForTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{Interval: time.Hour, MaxAppends: 4}, nil)
		for range 9 { // 1 at once, 4 full, 4 full
			require.NoError(t, r.Add(to(1, "a")))
		}
		synctest.Wait()
		assert.Len(t, r.delivered, 3)
		assert.Zero(t, r.sinceStart())
		r.closeNow(t)
	})
}

func TestSegmentsKeepTheirSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{Interval: time.Hour, SegmentBytes: 10_000}, nil)
		for range 6 { // one at once, then each too large to join the one before
			require.NoError(t, r.Add(to(1, fill64(6_000))))
		}
		require.NoError(t, r.Add(to(1, fill64(20_000)))) // a segment of its own
		synctest.Wait()
		assert.Len(t, r.delivered, 7, "a group that cannot take the next append is full")
		for _, s := range r.delivered {
			assert.Len(t, s.Appends, 1)
		}
		r.closeNow(t)
		assert.Zero(t, r.sinceStart())
	})
}

func TestSealedIsNeverCalledConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inside, most := 0, 0
		var mu sync.Mutex
		count := func(by int) {
			mu.Lock()
			defer mu.Unlock()
			inside += by
			most = max(most, inside)
		}
		bucket, _ := memBucket(t, nil)
		w, err := NewWriter(WriterConfig{Bucket: bucket, Identity: someone(), MaxAppends: 1, Sealed: func(*Sealed) {
			count(1)
			time.Sleep(time.Second)
			count(-1)
		}})
		require.NoError(t, err)
		for i := range uint64(20) {
			require.NoError(t, w.Add(to(i+1, "a")))
		}
		require.NoError(t, w.Close(t.Context()))
		assert.Equal(t, 1, most)
		assert.Equal(t, uint64(20), w.Stats().Segments)
	})
}

func TestUploadsAreBoundedAndSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{Slots: 4}, slow(100*time.Millisecond))
		most := 0
		for range 2000 {
			require.NoError(t, r.Add(to(1, "a")))
			most = max(most, r.Stats().InFlight)
			time.Sleep(time.Millisecond)
		}
		assert.Equal(t, 4, most)
		r.closeNow(t)
		// Once the mean is known, a seal each 25 ms, not four at once each 100.
		assert.InDelta(t, 80, len(r.delivered), 8)
		for i := 20; i < 70; i++ {
			assert.InDelta(t, 25, (r.at[i] - r.at[i-1]).Milliseconds(), 3)
		}
	})
}

func TestALostAnswerIsFoundOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{}, func(op faultbucket.Op) (d faultbucket.Decision) {
			if op.Kind == faultbucket.Put && op.Nth == 0 {
				d.After = faultbucket.Lose(op)
			}
			return d
		})
		require.NoError(t, r.Add(to(1, "a")))
		r.closeNow(t)
		require.Len(t, r.delivered, 1)
		require.NoError(t, r.delivered[0].Err)
		assert.Equal(t, 2, r.faults.Count(faultbucket.Put))
		s := r.Stats()
		assert.Equal(t, []uint64{1, 1, 1, 0}, []uint64{s.Puts, s.PutFailures, s.Retries, s.GivenUp})
	})
}

func TestAnUploadIsGivenUpAtItsDeadlineAndLaterOnesGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := Key(someone().Cluster, someone().Segment(1))
		r := newRig(t, WriterConfig{Deadline: 5 * time.Second, MaxAppends: 1}, func(op faultbucket.Op) (d faultbucket.Decision) {
			if op.Key == first {
				d.Before = faultbucket.Fail(op)
			}
			return d
		})
		require.NoError(t, r.Add(to(1, "lost")))
		synctest.Wait()
		require.NoError(t, r.Add(to(1, "waits for the first")))
		require.NoError(t, r.Add(to(2, "another stream")))
		r.closeNow(t)

		require.Len(t, r.delivered, 3)
		another, lost, later := r.delivered[0], r.delivered[1], r.delivered[2]
		assert.Equal(t, stream.MakeID(0, 2), another.Appends[0].Stream)
		assert.Zero(t, r.at[0])
		require.Error(t, lost.Err)
		assert.Equal(t, stream.CodeUnavailable, stream.CodeOf(lost.Err))
		assert.Contains(t, lost.Err.Error(), "injected", "the bucket's own words")
		assert.Equal(t, uint64(1), lost.ID.Sequence)
		require.NoError(t, later.Err)
		assert.Equal(t, []time.Duration{5 * time.Second, 5 * time.Second}, r.at[1:])
		assert.Equal(t, uint64(1), r.Stats().GivenUp)
		assert.Zero(t, r.Stats().Backlog)
	})
}

// A bucket that was away for long does not keep appends waiting once it is back.
func TestAnUploadGoesOnSoonAfterTheBucketIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const away = 10 * time.Second
		began := time.Now()
		r := newRig(t, WriterConfig{}, func(op faultbucket.Op) (out faultbucket.Decision) {
			if op.Kind == faultbucket.Put && time.Since(began) < away {
				out.Before = faultbucket.Fail(op)
			}
			return out
		})
		assert.LessOrEqual(t, r.appendOne(t), away+500*time.Millisecond)
		r.closeNow(t)
		require.NoError(t, r.delivered[0].Err)
	})
}

func TestSomebodyElsesObjectIsFatal(t *testing.T) {
	ours := Encode(someone(), 1, []*Append{to(1, "a")}).Object
	for name, theirs := range map[string][]byte{
		"other bytes":         []byte("somebody else's"),
		"empty":               {},
		"the beginning of it": ours[:len(ours)-1],
		"more than it":        append(bytes.Clone(ours), 0),
		"one bit":             append(bytes.Clone(ours[:len(ours)-1]), ours[len(ours)-1]^1),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// The put takes its time, so that the second append comes before it ends.
				r := newRig(t, WriterConfig{Interval: time.Second}, func(faultbucket.Op) faultbucket.Decision {
					return faultbucket.Decision{Delay: 10 * time.Millisecond}
				})
				key := Key(someone().Cluster, someone().Segment(1))
				overwrite(t, r.bucket, key, theirs)
				require.NoError(t, r.Add(to(1, "a")))
				require.NoError(t, r.Add(to(1, "waits for the interval")))
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()

				require.Len(t, r.delivered, 1)
				expectForeign(t, r.delivered[0].Err, key)
				expectForeign(t, r.Add(to(1, "no further append is taken")), key)
				r.closeNow(t)
				require.Len(t, r.delivered, 2)
				expectForeign(t, r.delivered[1].Err, key)
				assert.Equal(t, 2, r.faults.Count(faultbucket.Put), "theirs and one try; the second was not put")
				body, err := r.bucket.ReadAll(t.Context(), key)
				require.NoError(t, err)
				assert.Equal(t, string(theirs), string(body))
			})
		})
	}
}

func expectForeign(t *testing.T, err error, key string) {
	t.Helper()
	var fault *ObjectError
	require.ErrorAs(t, err, &fault)
	assert.Equal(t, FaultForeign, fault.Fault)
	assert.Equal(t, key, fault.Key)
	assert.Equal(t, stream.CodeInternal, stream.CodeOf(err))
}

func TestBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{BacklogBytes: 10_000}, slow(time.Second))
		taken := 0
		var err error
		for err == nil {
			if err = r.Add(to(1, fill64(1000))); err == nil {
				taken++
			}
		}
		assert.Equal(t, 9, taken)
		var refusal *stream.Error
		require.ErrorAs(t, err, &refusal)
		assert.Equal(t, stream.CodeOverloaded, refusal.Code)
		assert.Positive(t, refusal.RetryAfter)
		assert.LessOrEqual(t, r.Stats().Backlog, 10_000)

		time.Sleep(3 * time.Second)
		require.NoError(t, r.Add(to(1, "there is room again")))
		r.closeNow(t)
		assert.Zero(t, r.Stats().Backlog)
		assert.Equal(t, uint64(taken+1), r.Stats().Appends)
	})
}

func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{MaxAppendBytes: 1000}, nil)
		assert.Equal(t, stream.CodeBadRequest, stream.CodeOf(r.Add(to(1))))
		assert.Equal(t, stream.CodeBadRequest, stream.CodeOf(r.Add(creating("", "a"))))
		assert.Equal(t, stream.CodeTooLarge, stream.CodeOf(r.Add(to(1, fill64(1000)))))
		many := to(1, "a")
		many.Records[0].Headers = make([]stream.Header, MaxHeaders+1)
		assert.Equal(t, stream.CodeTooLarge, stream.CodeOf(r.Add(many)))
		r.closeNow(t)
		assert.Equal(t, stream.CodeUnavailable, stream.CodeOf(r.Add(to(1, "a"))))
		assert.Zero(t, r.faults.Count(faultbucket.Put))
	})
}

func TestCloseDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{Slots: 1, Interval: time.Hour, MaxAppends: 2}, slow(time.Second))
		for range 6 {
			require.NoError(t, r.Add(to(1, "a")))
		}
		r.closeNow(t)
		require.Len(t, r.delivered, 4)
		assert.Equal(t, 4*time.Second, r.sinceStart(), "no interval is waited for")
		r.closeNow(t)
	})
}

func TestCloseDoesNotWaitForTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{Interval: time.Hour}, nil)
		require.NoError(t, r.Add(to(1, "at once")))
		require.NoError(t, r.Add(to(1, "in an hour")))
		synctest.Wait()
		r.closeNow(t)
		assert.Len(t, r.delivered, 2)
		assert.Zero(t, r.sinceStart())
	})
}

func TestCloseBreaksOffWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{Slots: 1, MaxAppends: 1}, slow(time.Hour))
		for range 3 {
			require.NoError(t, r.Add(to(1, "a")))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, r.Close(ctx), context.DeadlineExceeded)
		require.Len(t, r.delivered, 3, "everything added is delivered")
		for _, s := range r.delivered {
			assert.Equal(t, stream.CodeUnavailable, stream.CodeOf(s.Err))
		}
	})
}

func TestWhatIsDeliveredIsInTheBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, WriterConfig{}, nil)
		require.NoError(t, r.Add(to(1, "a", "b")))
		r.closeNow(t)
		s := r.delivered[0]
		object, index, err := ReadObject(t.Context(), r.bucket, s.Key, s.Size)
		require.NoError(t, err)
		assert.Equal(t, s.Object, object)
		assert.Equal(t, s.ID, index.ID())
		attributes, err := r.bucket.Attributes(t.Context(), s.Key)
		require.NoError(t, err)
		assert.Equal(t, "application/octet-stream", attributes.ContentType)
	})
}
