package archive

import (
	"context"
	"errors"
	"fmt"
	"io"

	"gocloud.dev/blob"

	"github.com/picomq/picomq/commands"
)

// ChainError is two objects that do not follow each other, or a chain that ends
// too early: rows are missing between them, or are there twice, or are not of
// one history.
type ChainError struct {
	Key   string         // of the later object; "" when the chain ends
	Want  commands.Index // the row that follows
	First commands.Index // the first row of the object; 0 when the chain ends
	Why   string
}

// Error names the object and the rows.
func (e *ChainError) Error() string {
	switch {
	case e.Key == "":
		return fmt.Sprintf("the archive ends before row %d: %s", e.Want, e.Why)
	case e.First > e.Want:
		return fmt.Sprintf("the archive lacks rows %d to %d, before object %s", e.Want, e.First-1, e.Key)
	case e.First < e.Want:
		return fmt.Sprintf("archive object %s begins with row %d where row %d follows: %s", e.Key, e.First, e.Want, e.Why)
	default:
		return fmt.Sprintf("archive object %s does not follow the one before: %s", e.Key, e.Why)
	}
}

// Open begins to read the object under a key, which must be the one that its
// header names. The reader must be closed.
func Open(ctx context.Context, bucket *blob.Bucket, key string) (*Reader, error) {
	body, err := bucket.NewReader(ctx, key, nil)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	o, err := NewReader(body)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", key, err), body.Close())
	}
	o.closers = append(o.closers, body.Close)
	if err := o.header.belongs(key); err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", key, err), o.Close())
	}
	return o, nil
}

// ReadHeader reads only the header of the object under a key: to look for a
// time, for one.
func ReadHeader(ctx context.Context, bucket *blob.Bucket, key string) (h Header, err error) {
	body, err := bucket.NewRangeReader(ctx, key, 0, HeaderBytes, nil)
	if err != nil {
		return h, fmt.Errorf("read %s: %w", key, err)
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	var encoded [HeaderBytes]byte
	from := &source{r: body}
	if _, err := io.ReadFull(from, encoded[:]); err != nil {
		return h, fmt.Errorf("read %s: %w", key, from.fault(err))
	}
	if h, err = decodeHeader(&encoded); err == nil {
		err = h.belongs(key)
	}
	if err != nil {
		return Header{}, fmt.Errorf("read %s: %w", key, err)
	}
	return h, nil
}

// belongs checks that an object stands where its header says.
func (h *Header) belongs(key string) error {
	if want := h.Key(); want != key {
		return damaged("it belongs under %s", want)
	}
	return nil
}

// Read reads an object to its end: it hands each row to visit, which may be
// nil, and answers the header once everything in it proved true. An error of
// visit ends it.
func Read(ctx context.Context, bucket *blob.Bucket, key string, visit func(commands.Row) error) (Header, error) {
	return read(ctx, bucket, key, func(Header) error { return nil }, visit)
}

// read is Read with a check of the header before any row is handed out.
func read(ctx context.Context, bucket *blob.Bucket, key string, check func(Header) error, visit func(commands.Row) error) (h Header, err error) {
	o, err := Open(ctx, bucket, key)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	if err := check(o.header); err != nil {
		return h, err
	}
	for {
		row, err := o.Next()
		if err == io.EOF { //nolint:errorlint // the documented end
			return o.header, nil
		}
		if err != nil {
			return h, fmt.Errorf("read %s: %w", key, err)
		}
		if visit == nil {
			continue
		}
		if err := visit(row); err != nil {
			return h, err
		}
	}
}

// Walk reads the objects after a place one by one, checks that each follows the
// one before, and hands their rows to visit, which may be nil, up to until. The
// object that holds until is still read to its end; the answer is the place
// after it. Rows must be there up to until.
func Walk(ctx context.Context, bucket *blob.Bucket, prefix string, from Link, until commands.Index, visit func(commands.Row) error) (Link, error) {
	at := from
	for span, err := range List(ctx, bucket, prefix) {
		switch {
		case err != nil:
			return at, err
		case at.Last.Index >= until:
			return at, nil
		case span.Last <= from.Last.Index:
			continue // before where the walk begins
		}
		next, err := follow(ctx, bucket, at, span, func(row commands.Row) error {
			if visit == nil || row.Index > until {
				return nil
			}
			return visit(row)
		})
		if err != nil {
			return at, err
		}
		at = next
	}
	if at.Last.Index < until {
		return at, &ChainError{Want: at.Last.Index + 1, Why: fmt.Sprintf("it is to hold rows up to %d", until)}
	}
	return at, nil
}

// follow reads the object that follows a place.
func follow(ctx context.Context, bucket *blob.Bucket, at Link, span Span, visit func(commands.Row) error) (Link, error) {
	broken := &ChainError{Key: span.Key, Want: at.Last.Index + 1, First: span.First}
	if span.First != broken.Want {
		broken.Why = "rows are there twice"
		return at, broken
	}
	header, err := read(ctx, bucket, span.Key, func(h Header) error {
		if h.Before == at {
			return nil
		}
		broken.Why = fmt.Sprintf("it names %v of object %v before it, which is %v of object %v",
			h.Before.Last, h.Before.Digest, at.Last, at.Digest)
		return broken
	}, visit)
	if err != nil {
		return at, err
	}
	return header.Link(), nil
}
