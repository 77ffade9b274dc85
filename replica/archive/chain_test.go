package archive_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/internal/faultbucket"
	"github.com/picomq/picomq/replica/archive"
)

var prefix = archive.Prefix(cluster)

// chain is a bucket with objects of so many rows each.
func chain(t *testing.T, sizes ...int) (*blob.Bucket, []archive.Object, []commands.Row) {
	t.Helper()
	bucket := memblob.OpenBucket(nil)
	t.Cleanup(func() { require.NoError(t, bucket.Close()) })
	var at archive.Link
	var objects []archive.Object
	var all []commands.Row
	for _, n := range sizes {
		rows := rowsAfter(at.Last, n)
		o := seal(t, at, rows)
		put(t, bucket, o.Key(), o.Bytes)
		objects, all, at = append(objects, o), append(all, rows...), o.Link()
	}
	return bucket, objects, all
}

func put(t *testing.T, bucket *blob.Bucket, key string, object []byte) {
	t.Helper()
	require.NoError(t, bucket.WriteAll(t.Context(), key, object, nil))
}

func recorded(o archive.Object) commands.Archive {
	return commands.Archive{Head: o.Last, Key: o.Key(), Digest: o.Digest()}
}

// verify walks a whole archive and compares its end with what the log records.
func verify(ctx context.Context, bucket *blob.Bucket, recorded commands.Archive) error {
	end, err := archive.Walk(ctx, bucket, prefix, archive.Link{}, recorded.Head.Index, nil)
	if err == nil && end != archive.LinkAt(recorded) {
		err = &archive.ChainError{Want: end.Last.Index + 1, Why: "the log records another end"}
	}
	return err
}

func TestAChainIsWalkedInOrder(t *testing.T) {
	bucket, objects, all := chain(t, 5, 1, 300, 7)
	require.NoError(t, verify(t.Context(), bucket, recorded(objects[3])))
	require.NoError(t, verify(t.Context(), bucket, recorded(objects[2])), "an object that is not recorded yet may follow")
	require.NoError(t, verify(t.Context(), bucket, commands.Archive{}))
	for _, c := range []struct {
		from  archive.Link
		until commands.Index
		want  []commands.Row
		end   archive.Link
	}{
		{archive.Link{}, 313, all, objects[3].Link()},
		{archive.Link{}, 3, all[:3], objects[0].Link()},
		{objects[0].Link(), 7, all[5:7], objects[2].Link()},
		{objects[2].Link(), 306, nil, objects[2].Link()},
	} {
		var got []commands.Row
		end, err := archive.Walk(t.Context(), bucket, prefix, c.from, c.until, func(row commands.Row) error {
			got = append(got, row)
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
		assert.Equal(t, c.end, end)
	}
	stop := errors.New("enough")
	_, err := archive.Walk(t.Context(), bucket, prefix, archive.Link{}, 313, func(commands.Row) error { return stop })
	require.ErrorIs(t, err, stop)
}

func TestABrokenChainIsNamed(t *testing.T) {
	for _, c := range []struct {
		why    string
		damage func(t *testing.T, bucket *blob.Bucket, objects []archive.Object)
		want   string
		chain  bool // it is a ChainError
	}{
		{"a gap", func(t *testing.T, bucket *blob.Bucket, objects []archive.Object) {
			require.NoError(t, bucket.Delete(t.Context(), objects[1].Key()))
		}, "lacks rows 6 to 8", true},
		{"a missing beginning", func(t *testing.T, bucket *blob.Bucket, objects []archive.Object) {
			require.NoError(t, bucket.Delete(t.Context(), objects[0].Key()))
		}, "lacks rows 1 to 5", true},
		{"a missing end", func(t *testing.T, bucket *blob.Bucket, objects []archive.Object) {
			require.NoError(t, bucket.Delete(t.Context(), objects[2].Key()))
		}, "ends before row 9", true},
		{"an overlap", func(t *testing.T, bucket *blob.Bucket, objects []archive.Object) {
			o := seal(t, objects[0].Link(), rowsAfter(objects[0].Last, 4))
			put(t, bucket, o.Key(), o.Bytes)
		}, "begins with row 6 where row 9 follows: rows are there twice", true},
		{"another history", func(t *testing.T, bucket *blob.Bucket, objects []archive.Object) {
			rows := rowsAfter(objects[0].Last, 3)
			rows[1].Payload = []byte("not what happened")
			o := seal(t, objects[0].Link(), rows)
			put(t, bucket, o.Key(), o.Bytes)
		}, "does not follow the one before", true},
		{"another end", func(t *testing.T, bucket *blob.Bucket, objects []archive.Object) {
			rows := rowsAfter(objects[1].Last, 2)
			rows[1].Payload = []byte("not what happened")
			o := seal(t, objects[1].Link(), rows)
			put(t, bucket, o.Key(), o.Bytes)
		}, "the log records", true},
		{"an object under another's key", func(t *testing.T, bucket *blob.Bucket, objects []archive.Object) {
			put(t, bucket, objects[1].Key(), objects[0].Bytes)
		}, "it belongs under", false},
		{"something else", func(t *testing.T, bucket *blob.Bucket, _ []archive.Object) {
			put(t, bucket, prefix+"0-notes", []byte("hello"))
		}, "is not one of an archive", false},
		{"a damaged object", func(t *testing.T, bucket *blob.Bucket, objects []archive.Object) {
			put(t, bucket, objects[1].Key(), objects[1].Bytes[:200])
		}, "is damaged", false},
	} {
		t.Run(c.why, func(t *testing.T) {
			bucket, objects, _ := chain(t, 5, 3, 2)
			c.damage(t, bucket, objects)
			err := verify(t.Context(), bucket, recorded(objects[2]))
			require.ErrorContains(t, err, c.want)
			var broken *archive.ChainError
			assert.Equal(t, c.chain, errors.As(err, &broken))
		})
	}
}

func TestHeadersAloneCanBeRead(t *testing.T) {
	bucket, objects, _ := chain(t, 5, 3)
	for _, o := range objects {
		header, err := archive.ReadHeader(t.Context(), bucket, o.Key())
		require.NoError(t, err)
		require.Equal(t, o.Header, header)
	}
	put(t, bucket, objects[0].Key(), objects[1].Bytes)
	_, err := archive.ReadHeader(t.Context(), bucket, objects[0].Key())
	require.ErrorContains(t, err, "it belongs under")
	put(t, bucket, objects[0].Key(), objects[0].Bytes[:100])
	_, err = archive.ReadHeader(t.Context(), bucket, objects[0].Key())
	require.ErrorIs(t, err, archive.ErrDamaged)
	require.NoError(t, bucket.Delete(t.Context(), objects[0].Key()))
	_, err = archive.ReadHeader(t.Context(), bucket, objects[0].Key())
	require.Equal(t, gcerrors.NotFound, gcerrors.Code(err))
}

func TestFind(t *testing.T) {
	bucket, objects, all := chain(t, 5, 1, 300, 7, 20)
	for _, row := range all {
		span, ok, err := archive.Find(t.Context(), bucket, prefix, row.Index)
		require.NoError(t, err)
		require.True(t, ok)
		require.LessOrEqual(t, span.First, row.Index)
		require.GreaterOrEqual(t, span.Last, row.Index)
		require.EqualValues(t, len(objects[indexOf(objects, span.Key)].Bytes), span.Bytes)
	}
	for _, index := range []commands.Index{0, 334, 1 << 60} {
		_, ok, err := archive.Find(t.Context(), bucket, prefix, index)
		require.NoError(t, err)
		require.False(t, ok)
	}
	require.NoError(t, bucket.Delete(t.Context(), objects[2].Key()))
	_, ok, err := archive.Find(t.Context(), bucket, prefix, 200)
	require.NoError(t, err)
	require.False(t, ok)
}

func indexOf(objects []archive.Object, key string) int {
	for i := range objects {
		if objects[i].Key() == key {
			return i
		}
	}
	return -1
}

func TestABucketThatFailsIsNotABrokenChain(t *testing.T) {
	inner, objects, _ := chain(t, 5, 3)
	for _, kind := range []faultbucket.Kind{faultbucket.List, faultbucket.Get} {
		bucket, _ := faultbucket.Wrap(inner, func(op faultbucket.Op) faultbucket.Decision {
			if op.Kind == kind {
				return faultbucket.Decision{Before: &faultbucket.Error{Op: op, Code: gcerrors.Internal}}
			}
			return faultbucket.Decision{}
		})
		err := verify(context.Background(), bucket, recorded(objects[1]))
		require.ErrorContains(t, err, "injected")
		require.NotErrorIs(t, err, archive.ErrDamaged)
		var broken *archive.ChainError
		require.False(t, errors.As(err, &broken))
	}
}

func TestKeysSayWhichRows(t *testing.T) {
	span, err := archive.ParseKey(archive.Key(cluster, 0xab, 1<<63))
	require.NoError(t, err)
	assert.EqualValues(t, 0xab, span.First)
	assert.EqualValues(t, uint64(1<<63), span.Last)
	for _, name := range []string{
		"", "1-2", "0000000000000000-0000000000000001", "0000000000000002-0000000000000001", "000000000000000A-000000000000000b",
		"0000000000000001", "0000000000000001-0000000000000002-",
	} {
		_, err := archive.ParseKey(prefix + name)
		require.Error(t, err, name)
	}
}
