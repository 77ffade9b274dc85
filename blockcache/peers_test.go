package blockcache

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/blobwal"
	"github.com/picomq/picomq/internal/faultbucket"
)

// memory is a peer that answers for some segments.
type memory struct {
	objects  map[blobwal.SegmentID][]byte
	asked    atomic.Int64
	answered chan struct{} // when set, an answer waits until it is closed
	refused  error         // what verify last said
}

func (m *memory) Ask(ctx context.Context, id blobwal.SegmentID, _ uint64, verify func([]byte) error) []byte {
	m.asked.Add(1)
	if m.answered != nil {
		select {
		case <-m.answered:
		case <-ctx.Done():
			return nil
		}
	}
	object := m.objects[id]
	if object != nil {
		m.refused = verify(object)
	}
	if m.refused != nil {
		return nil
	}
	return object
}

func (m *memory) May(blobwal.SegmentID) bool { return m.objects != nil }

// reads counts what is read of a bucket.
func reads(n *atomic.Int64) faultbucket.Plan {
	return func(op faultbucket.Op) faultbucket.Decision {
		if op.Kind == faultbucket.Get {
			n.Add(1)
		}
		return faultbucket.Decision{}
	}
}

func TestAPeerIsAskedAheadOfReadersBeforeTheBucket(t *testing.T) {
	for name, records := range map[string]int{"small": 3, "large": 300} {
		t.Run(name, func(t *testing.T) {
			var gets atomic.Int64
			peer := &memory{objects: map[blobwal.SegmentID][]byte{}}
			r := newRig(t, Config{Peers: peer}, reads(&gets))
			segment, object := r.store(t, 1, 1000, records)
			peer.objects[segment.ID] = object
			require.Equal(t, Underway, r.Ahead(segment, 0, uint32(records)))
			block, err := r.Block(t.Context(), segment, 0, 1)
			require.NoError(t, err)
			require.NotZero(t, block.Len())
			require.Equal(t, int64(1), peer.asked.Load())
			require.Zero(t, gets.Load())
		})
	}
}

func TestAPeerIsAskedOnceForAllReadersBeforeTheBucket(t *testing.T) {
	for name, records := range map[string]int{"small": 3, "large": 300} {
		t.Run(name, func(t *testing.T) {
			var gets atomic.Int64
			peer := &memory{objects: map[blobwal.SegmentID][]byte{}, answered: make(chan struct{})}
			r := newRig(t, Config{Peers: peer}, reads(&gets))
			segment, object := r.store(t, 1, 1000, records, records)
			peer.objects[segment.ID] = object
			var readers sync.WaitGroup
			for i := range 50 {
				readers.Go(func() {
					ordinal := uint32(i) % uint32(2*records)
					block, err := r.Block(t.Context(), segment, ordinal, ordinal+1)
					if err != nil || block.Len() == 0 {
						t.Errorf("reader %d: %v", i, err)
					}
				})
			}
			close(peer.answered)
			readers.Wait()
			require.EqualValues(t, 1, peer.asked.Load())
			require.Zero(t, gets.Load(), "the bucket is not asked")
			kept, ok := r.Recent(segment.ID)
			require.True(t, ok, "and neither is the peer again")
			require.Equal(t, object, kept)
			require.EqualValues(t, 1, r.Stats().PeerHits)
			require.EqualValues(t, len(object), r.Stats().PeerBytes)
		})
	}
}

// TestTheBucketHasWhatPeersHaveNot: they have nothing, or something else.
func TestTheBucketHasWhatPeersHaveNot(t *testing.T) {
	for name, answer := range map[string]func(object []byte) []byte{
		"nothing":         func([]byte) []byte { return nil },
		"a flipped bit":   func(object []byte) []byte { object[len(object)/2] ^= 1; return object },
		"shorter":         func(object []byte) []byte { return object[:len(object)-1] },
		"another segment": func([]byte) []byte { _, other := encode(2, 1000, 100); return other },
	} {
		t.Run(name, func(t *testing.T) {
			peer := &memory{objects: map[blobwal.SegmentID][]byte{}}
			r := newRig(t, Config{Peers: peer}, nil)
			segment, object := r.store(t, 1, 1000, 100)
			if wrong := answer(bytes.Clone(object)); wrong != nil {
				peer.objects[segment.ID] = wrong
			}
			for ordinal := range uint32(100) {
				block, err := r.Block(t.Context(), segment, ordinal, ordinal+1)
				require.NoError(t, err)
				require.NotZero(t, block.Len())
			}
			require.EqualValues(t, 1, peer.asked.Load(), "what was begun with the bucket goes on with it")
			require.Equal(t, name != "nothing", peer.refused != nil)
			require.Zero(t, r.Stats().PeerHits)
			require.Zero(t, r.Stats().Corrupt)
		})
	}
}

func TestAnObjectOfAPeerMayBeLargerThanTheRing(t *testing.T) {
	peer := &memory{objects: map[blobwal.SegmentID][]byte{}}
	r := newRig(t, Config{Peers: peer, TailBytes: 1000}, nil)
	segment, object := encode(1, 1000, 100)
	peer.objects[segment.ID] = object
	block, err := r.Block(t.Context(), segment, 99, 100)
	require.NoError(t, err)
	require.NotZero(t, block.Len())
	_, ok := r.Recent(segment.ID)
	require.False(t, ok)
}

// TestAReaderDoesNotWaitForAPeerLongerThanItWants.
func TestAReaderDoesNotWaitForAPeerLongerThanItWants(t *testing.T) {
	peer := &memory{answered: make(chan struct{})}
	r := newRig(t, Config{Peers: peer}, nil)
	segment, _ := r.store(t, 1, 1000, 100)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for peer.asked.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	_, err := r.Block(ctx, segment, 0, 1)
	require.True(t, errors.Is(err, context.Canceled), "%v", err)
	close(peer.answered)
}
