package filebucket

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"gocloud.dev/blob/driver"
	"golang.org/x/sys/unix"
)

// writer is one put, from its temporary file to its durable name. It implements
// driver.Writer and driver.Uploader, and is not safe for concurrent use.
type writer struct {
	bucket     *bucket
	ctx        context.Context // of the put; a driver.Writer has no other way
	key        string
	path       string
	attrs      attributes
	createOnly bool

	file temporary
	tail tail  // of what was written
	err  error // the first failure; after it nothing is published
}

// NewTypedWriter implements driver.Bucket.
func (b *bucket) NewTypedWriter(ctx context.Context, key, contentType string, opts *driver.WriterOptions) (driver.Writer, error) {
	w, err := b.newWriter(ctx, key, newAttributes(contentType, opts), opts.IfNotExist)
	if err != nil {
		return nil, err
	}
	if opts.BeforeWrite != nil {
		if err := opts.BeforeWrite(asNothing); err != nil {
			w.fail(err)
			return nil, w.Close()
		}
	}
	return w, nil
}

func (b *bucket) newWriter(ctx context.Context, key string, attrs attributes, createOnly bool) (*writer, error) {
	path, err := keyPath(b.root, key)
	if err != nil {
		return nil, &Error{Op: "put", Key: key, Err: err}
	}
	file, err := b.staging.create(createOnly)
	if err != nil {
		return nil, &Error{Op: "put", Key: key, Path: path, Err: err}
	}
	return &writer{
		bucket: b, ctx: ctx, key: key, path: path, attrs: attrs, createOnly: createOnly, file: file,
	}, nil
}

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	if w.err == nil {
		w.fail(w.ctx.Err())
	}
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.bucket.disk.write(w.file.File, p)
	w.tail.add(p[:n])
	w.fail(err)
	return n, w.err
}

// Upload implements driver.Uploader. Failures, also of r, are left for Close to
// report: the portable type always calls it next, and gives an error code only to
// what Close returns. What was read before r broke off is not published.
func (w *writer) Upload(r io.Reader) error {
	if _, err := io.Copy(struct{ io.Writer }{w}, r); err != nil {
		w.fail(err)
	}
	return nil
}

// Close implements io.Closer: it publishes the object durably, or removes the
// temporary and says why not.
func (w *writer) Close() error {
	w.finish()
	if w.err == nil {
		w.fail(w.publish())
	}
	w.bucket.staging.discard(w.file)
	return w.err
}

// fail notes the first failure.
func (w *writer) fail(err error) {
	if err != nil && w.err == nil {
		w.err = &Error{Op: "put", Key: w.key, Path: w.path, Err: err}
	}
}

// finish completes the temporary file and makes it durable.
func (w *writer) finish() {
	if w.err == nil && (!w.attrs.empty() || w.tail.isMagic()) {
		w.writeTrailer()
	}
	if w.err == nil {
		w.fail(w.ctx.Err())
	}
	if w.err == nil {
		w.fail(w.bucket.disk.syncFile(w.file.File))
	}
}

func (w *writer) writeTrailer() {
	trailer, err := w.attrs.encode()
	if err == nil {
		_, err = w.bucket.disk.write(w.file.File, trailer)
	}
	w.fail(err)
}

// publish gives the durable temporary its name, and makes that durable.
func (w *writer) publish() error {
	dir, err := w.bucket.dirs.prepare(filepath.Dir(w.path))
	if errors.Is(err, syscall.ENOTDIR) {
		return errConflict
	}
	if err != nil {
		return err
	}
	defer dir.close()
	if err := w.ctx.Err(); err != nil {
		return err
	}
	// From here on the put is not taken back: others may see the name at once.
	named := w.name()
	if named != nil && !errors.Is(named, errExists) {
		return named
	}
	if err := dir.sync(); err != nil {
		return err
	}
	return named
}

// name links or renames the temporary to the object's path. If it returns
// errExists, the bytes of the object that is there are durable; its name may not be.
func (w *writer) name() error {
	if !w.createOnly {
		err := w.bucket.disk.rename(w.file.Name(), w.path)
		if err != nil && isDir(w.path) {
			return errConflict
		}
		return err
	}
	err := w.bucket.staging.link(w.file, w.path)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if isDir(w.path) {
		return errConflict
	}
	return w.syncExisting()
}

// syncExisting syncs the object that a create-only put found and returns errExists.
// Its writer did so before naming it, but a file may also have been copied here.
func (w *writer) syncExisting() error {
	if err := w.bucket.dirs.failure(w.path); err != nil {
		return err
	}
	f, err := os.OpenFile(w.path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return errExists // it did when link was called, and was deleted since
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := w.bucket.disk.syncFile(f); err != nil {
		w.bucket.dirs.fail(w.path, err)
		return err
	}
	return errExists
}
