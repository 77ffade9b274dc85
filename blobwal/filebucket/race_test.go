package filebucket

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// Of any number of create-only puts of one key exactly one wins, through however
// many buckets, and the object is the winner's.
func TestOneCreatorWins(t *testing.T) {
	const races, writers = 100, 16
	dir := t.TempDir()
	buckets := []*blob.Bucket{openTest(t, dir), openTest(t, dir)}
	for race := range races {
		key := fmt.Sprintf("race/%d/key", race) // the directory is raced for as well
		won := make([]bool, writers)
		inParallel(writers, func(i int) {
			err := put(buckets[i%2], key, contentOf(i), createOnly())
			won[i] = err == nil
			if err != nil && gcerrors.Code(err) != gcerrors.FailedPrecondition {
				t.Errorf("race %d, writer %d: %v", race, i, err)
			}
		})
		winner := -1
		for i, w := range won {
			if w {
				require.Equal(t, -1, winner, "two winners in race %d", race)
				winner = i
			}
		}
		got, err := buckets[0].ReadAll(ctx, key)
		require.NoError(t, err)
		require.Equal(t, contentOf(winner), string(got))
	}
	requireNoTemporaries(t, dir)
}

// Overwriting puts never show a reader anything but one whole object, attributes
// included.
func TestOverwritesAreAtomic(t *testing.T) {
	const writers, rounds = 4, 20
	b := openTest(t, t.TempDir())
	write := func(i int) error {
		opts := &blob.WriterOptions{ContentType: fmt.Sprintf("text/x-writer-%d", i)}
		return put(b, "k", contentOf(i), opts)
	}
	require.NoError(t, write(0))
	inParallel(2*writers, func(i int) {
		for range rounds {
			if i < writers {
				if err := write(i); err != nil {
					t.Error(err)
				}
				continue
			}
			if err := readWhole(b, "k"); err != nil {
				t.Error(err)
			}
		}
	})
}

func readWhole(b *blob.Bucket, key string) error {
	r, err := b.NewReader(ctx, key, nil)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	var writer int
	if _, err := fmt.Sscanf(r.ContentType(), "text/x-writer-%d", &writer); err != nil {
		return err
	}
	if string(got) != contentOf(writer) || r.Size() != int64(len(got)) {
		return fmt.Errorf("read a mixture: %d bytes with content type %s", len(got), r.ContentType())
	}
	return nil
}

// A list while others put and delete never fails, and never misses what stays.
func TestListUnderChurn(t *testing.T) {
	const churners, lists = 4, 30
	b := openTest(t, t.TempDir())
	stay := map[string]bool{}
	for i := range 20 {
		key := fmt.Sprintf("d%d/stay-%d", i%3, i)
		require.NoError(t, put(b, key, "x", createOnly()))
		stay[key] = true
	}
	stop := make(chan struct{})
	var churn sync.WaitGroup
	for c := range churners {
		churn.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				key := fmt.Sprintf("d%d/new-%d/churn-%d", i%3, c, i%50)
				if err := put(b, key, "x", createOnly()); err != nil {
					t.Error(err)
				}
				if err := b.Delete(ctx, key); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range lists {
		seen, last := 0, ""
		for _, o := range listAll(t, b, &blob.ListOptions{}, 7) {
			require.Less(t, last, o.Key)
			last = o.Key
			if stay[o.Key] {
				seen++
			}
		}
		require.Equal(t, len(stay), seen)
	}
	close(stop)
	churn.Wait()
}

func inParallel(n int, f func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}

// contentOf is what writer i writes; each has a length of its own.
func contentOf(i int) string { return strings.Repeat(fmt.Sprintf("writer %d.", i), 100+i) }
