package filebucket

import (
	"context"
	"fmt"
	"io"
	"os"

	"gocloud.dev/blob/driver"
	"golang.org/x/sys/unix"
)

// Attributes implements driver.Bucket.
func (b *bucket) Attributes(_ context.Context, key string) (*driver.Attributes, error) {
	o, err := b.open("attributes", key)
	if err != nil {
		return nil, err
	}
	_ = o.file.Close()
	modified := o.info.ModTime()
	return &driver.Attributes{
		CacheControl:       o.attrs.CacheControl,
		ContentDisposition: o.attrs.ContentDisposition,
		ContentEncoding:    o.attrs.ContentEncoding,
		ContentLanguage:    o.attrs.ContentLanguage,
		ContentType:        o.attrs.contentType(),
		Metadata:           o.attrs.Metadata,
		ModTime:            modified,
		Size:               o.size,
		ETag:               fmt.Sprintf(`"%x-%x"`, modified.UnixNano(), o.size),
	}, nil
}

// open opens the object of key for the operation op.
func (b *bucket) open(op, key string) (*object, error) {
	path, err := keyPath(b.root, key)
	if err != nil {
		return nil, &Error{Op: op, Key: key, Err: err}
	}
	o, err := openObject(path)
	if err != nil {
		return nil, &Error{Op: op, Key: key, Path: path, Err: err}
	}
	return o, nil
}

// NewRangeReader implements driver.Bucket. A range at or past the end is empty.
// The reader goes on reading the object as it was opened when it is replaced or
// deleted meanwhile.
func (b *bucket) NewRangeReader(_ context.Context, key string, offset, length int64, opts *driver.ReaderOptions) (driver.Reader, error) {
	o, err := b.open("get", key)
	if err != nil {
		return nil, err
	}
	if opts.BeforeRead != nil {
		if err := opts.BeforeRead(asNothing); err != nil {
			_ = o.file.Close()
			return nil, err
		}
	}
	left := max(o.size-offset, 0)
	if length < 0 || length > left {
		length = left
	}
	return &reader{SectionReader: io.NewSectionReader(o.file, offset, length), object: o}, nil
}

// reader implements driver.Reader.
type reader struct {
	*io.SectionReader
	object *object
}

func (r *reader) Close() error { return r.object.file.Close() }

func (r *reader) Attributes() *driver.ReaderAttributes {
	return &driver.ReaderAttributes{
		ContentType: r.object.attrs.contentType(),
		ModTime:     r.object.info.ModTime(),
		Size:        r.object.size,
	}
}

func (r *reader) As(any) bool { return false }

// object is an open object file.
type object struct {
	file  *os.File
	info  os.FileInfo
	attrs attributes
	size  int64 // the object's bytes, without the trailer
}

// openObject opens the object at path. What is not a regular file is absent, and
// O_NONBLOCK keeps a pipe from holding us up. The caller closes object.file.
func openObject(path string) (_ *object, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "open", Path: path, Err: os.ErrNotExist}
	}
	attrs, size, err := readTrailer(f, info.Size())
	if err != nil {
		return nil, err
	}
	return &object{file: f, info: info, attrs: attrs, size: size}, nil
}
