package archive

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/commands"
)

// indexDigits is how many digits an index has in a key.
const indexDigits = 16

// Prefix is what the keys of a cluster's archive begin with.
func Prefix(cluster commands.ClusterID) string { return fmt.Sprintf("%s/0000/archive/", cluster) }

// Key is where the object of these rows belongs.
func Key(cluster commands.ClusterID, first, last commands.Index) string {
	return fmt.Sprintf("%s%016x-%016x", Prefix(cluster), uint64(first), uint64(last))
}

// Span is an object as a listing shows it.
type Span struct {
	Key         string
	First, Last commands.Index
	Bytes       int64
}

// ParseKey reads the rows back from an object's key.
func ParseKey(key string) (Span, error) {
	name := key[strings.LastIndexByte(key, '/')+1:]
	first, last, ok := strings.Cut(name, "-")
	f, err1 := strconv.ParseUint(first, 16, 64)
	l, err2 := strconv.ParseUint(last, 16, 64)
	s := Span{Key: key, First: commands.Index(f), Last: commands.Index(l)}
	if !ok || err1 != nil || err2 != nil || name != fmt.Sprintf("%016x-%016x", f, l) || f == 0 || l < f {
		return Span{}, fmt.Errorf("object %s is not one of an archive: its name does not say which rows it holds", key)
	}
	return s, nil
}

// List lists the objects in the order of their rows. It ends with the first
// error.
func List(ctx context.Context, bucket *blob.Bucket, prefix string) iter.Seq2[Span, error] {
	return func(yield func(Span, error) bool) {
		objects := bucket.List(&blob.ListOptions{Prefix: prefix})
		for {
			object, err := objects.Next(ctx)
			if err == io.EOF { //nolint:errorlint // the iterator's documented end
				return
			}
			var span Span
			if err != nil {
				err = fmt.Errorf("list the archive under %s: %w", prefix, err)
			} else if span, err = ParseKey(object.Key); err == nil {
				span.Bytes = object.Size
			}
			if !yield(span, err) || err != nil {
				return
			}
		}
	}
}

// Find looks for the object that holds a row. It lists the objects that begin
// close to the row first, so that a long archive is not listed whole.
func Find(ctx context.Context, bucket *blob.Bucket, prefix string, index commands.Index) (found Span, ok bool, err error) {
	digits := fmt.Sprintf("%016x", uint64(index))
	for cut := range indexDigits + 1 {
		for span, err := range List(ctx, bucket, prefix+digits[:indexDigits-cut]) {
			switch {
			case err != nil:
				return Span{}, false, err
			case span.First <= index && index <= span.Last:
				return span, true, nil
			case span.First <= index:
				found = span // the closest before so far
			}
		}
		if found.Key != "" {
			break // what begins further away ends before it, or overlaps
		}
	}
	return Span{}, false, nil
}
