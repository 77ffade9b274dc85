package filebucket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
)

var errUnsigned = errors.New("filebucket: signed URLs are not supported: there is no server to sign for")

// bucket implements driver.Bucket. Its fields do not change after Open.
type bucket struct {
	root    string // absolute and clean
	disk    disk
	dirs    *dirs
	staging *staging
}

// Copy implements driver.Bucket: a put of the source's bytes and attributes.
func (b *bucket) Copy(ctx context.Context, dstKey, srcKey string, opts *driver.CopyOptions) error {
	o, err := b.open("copy", srcKey)
	if err != nil {
		return err
	}
	defer func() { _ = o.file.Close() }()
	if opts.BeforeCopy != nil {
		if err := opts.BeforeCopy(asNothing); err != nil {
			return err
		}
	}
	w, err := b.newWriter(ctx, dstKey, o.attrs, false)
	if err != nil {
		return err
	}
	return errors.Join(w.Upload(io.NewSectionReader(o.file, 0, o.size)), w.Close())
}

// Delete implements driver.Bucket. That the key is gone, or was not there, is
// durable when it answers so. Directories stay.
func (b *bucket) Delete(_ context.Context, key string, opts *driver.DeleteOptions) error {
	if opts.BeforeDelete != nil {
		if err := opts.BeforeDelete(asNothing); err != nil {
			return err
		}
	}
	path, err := keyPath(b.root, key)
	if err != nil {
		return &Error{Op: "delete", Key: key, Err: err}
	}
	if err := b.remove(path); err != nil {
		return &Error{Op: "delete", Key: key, Path: path, Err: err}
	}
	return nil
}

// remove unlinks an object. A key that is absent may be so because of an unlink
// that nobody has synced yet, so that answer waits for the fsync as well.
func (b *bucket) remove(path string) error {
	dir, err := b.dirs.open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.close()
	gone := b.disk.unlink(path)
	if gone != nil && isDir(path) {
		return &fs.PathError{Op: "unlink", Path: path, Err: fs.ErrNotExist}
	}
	if gone != nil && !errors.Is(gone, fs.ErrNotExist) {
		return gone
	}
	if err := dir.sync(); err != nil {
		return err
	}
	return gone
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// SignedURL implements driver.Bucket. It is not supported.
func (b *bucket) SignedURL(context.Context, string, *driver.SignedURLOptions) (string, error) {
	return "", errUnsigned
}

// Close implements driver.Bucket. Readers go on; see staging.close for puts.
func (b *bucket) Close() error { return b.staging.close() }

// ErrorCode implements driver.Bucket.
func (b *bucket) ErrorCode(err error) gcerrors.ErrorCode {
	if errors.Is(err, errUnsigned) {
		return gcerrors.Unimplemented
	}
	var e *Error
	if errors.As(err, &e) {
		return e.code()
	}
	return gcerrors.Unknown
}

// As implements driver.Bucket.
func (b *bucket) As(any) bool { return false }

// ErrorAs implements driver.Bucket.
func (b *bucket) ErrorAs(err error, target any) bool {
	switch target := target.(type) {
	case **Error:
		return errors.As(err, target)
	case **fs.PathError:
		return errors.As(err, target)
	case **os.LinkError:
		return errors.As(err, target)
	}
	return false
}

// asNothing is what hooks get: there is nothing driver-specific to change.
func asNothing(any) bool { return false }
