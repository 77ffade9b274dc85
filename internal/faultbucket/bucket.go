package faultbucket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/gcerrors"
)

// Faults is the handle on a wrapped bucket. It is safe for concurrent use.
type Faults struct {
	mu     sync.Mutex
	plan   Plan
	counts [kinds]int
	seen   map[seenKey]int
}

type seenKey struct {
	kind Kind
	key  string
}

// Wrap makes a bucket that does with inner what the plan decides; a nil plan
// changes nothing. Closing it closes inner.
func Wrap(inner *blob.Bucket, plan Plan) (*blob.Bucket, *Faults) {
	f := &Faults{plan: plan, seen: make(map[seenKey]int)}
	return blob.NewBucket(&bucket{inner: inner, faults: f}), f
}

// SetPlan changes the plan of operations that have not begun.
func (f *Faults) SetPlan(plan Plan) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = plan
}

// Count is how many operations of a kind have begun.
func (f *Faults) Count(kind Kind) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[kind]
}

func (f *Faults) decide(kind Kind, key string) Decision {
	f.mu.Lock()
	op := Op{Kind: kind, Key: key, Nth: f.seen[seenKey{kind, key}]}
	f.seen[seenKey{kind, key}]++
	f.counts[kind]++
	plan := f.plan
	f.mu.Unlock()
	if plan == nil {
		return Decision{}
	}
	return plan(op)
}

// begin waits as decided and returns the error of an operation that must not
// happen.
func (f *Faults) begin(ctx context.Context, kind Kind, key string) (Decision, error) {
	d := f.decide(kind, key)
	if d.Delay > 0 {
		timer := time.NewTimer(d.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return d, ctx.Err()
		}
	}
	return d, d.Before
}

// bucket implements driver.Bucket over a portable bucket.
type bucket struct {
	inner  *blob.Bucket
	faults *Faults
}

func (b *bucket) ErrorCode(err error) gcerrors.ErrorCode {
	var injected *Error
	if errors.As(err, &injected) {
		return injected.Code
	}
	return gcerrors.Code(err)
}

func (b *bucket) As(i any) bool                 { return b.inner.As(i) }
func (b *bucket) ErrorAs(err error, i any) bool { return b.inner.ErrorAs(err, i) }
func (b *bucket) Close() error                  { return b.inner.Close() }

func (b *bucket) Attributes(ctx context.Context, key string) (*driver.Attributes, error) {
	d, err := b.faults.begin(ctx, Attributes, key)
	if err != nil {
		return nil, err
	}
	a, err := b.inner.Attributes(ctx, key)
	if err != nil {
		return nil, err
	}
	return &driver.Attributes{
		CacheControl: a.CacheControl, ContentDisposition: a.ContentDisposition, ContentEncoding: a.ContentEncoding,
		ContentLanguage: a.ContentLanguage, ContentType: a.ContentType, Metadata: a.Metadata,
		CreateTime: a.CreateTime, ModTime: a.ModTime, Size: a.Size, MD5: a.MD5, ETag: a.ETag, AsFunc: a.As,
	}, d.After
}

func (b *bucket) ListPaged(ctx context.Context, opts *driver.ListOptions) (*driver.ListPage, error) {
	d, err := b.faults.begin(ctx, List, opts.Prefix)
	if err != nil {
		return nil, err
	}
	token, size := opts.PageToken, opts.PageSize
	if len(token) == 0 {
		token = blob.FirstPageToken
	}
	if size == 0 {
		size = 1000
	}
	objects, next, err := b.inner.ListPage(ctx, token, size, &blob.ListOptions{
		Prefix: opts.Prefix, Delimiter: opts.Delimiter, BeforeList: opts.BeforeList,
	})
	if err != nil {
		return nil, err
	}
	page := &driver.ListPage{NextPageToken: next}
	for _, o := range objects {
		page.Objects = append(page.Objects, &driver.ListObject{
			Key: o.Key, ModTime: o.ModTime, Size: o.Size, MD5: o.MD5, IsDir: o.IsDir, AsFunc: o.As,
		})
	}
	return page, d.After
}

func (b *bucket) NewRangeReader(ctx context.Context, key string, offset, length int64, opts *driver.ReaderOptions) (driver.Reader, error) {
	d, err := b.faults.begin(ctx, Get, key)
	if err != nil {
		return nil, err
	}
	inner, err := b.inner.NewRangeReader(ctx, key, offset, length, &blob.ReaderOptions{BeforeRead: opts.BeforeRead})
	if err != nil {
		return nil, err
	}
	if d.After != nil {
		return nil, errors.Join(d.After, inner.Close())
	}
	r := &reader{inner: inner, source: inner, position: offset, flip: d.Flip}
	if d.Cut > 0 {
		r.source = io.LimitReader(inner, int64(d.Cut))
	}
	return r, nil
}

func (b *bucket) NewTypedWriter(ctx context.Context, key, contentType string, opts *driver.WriterOptions) (driver.Writer, error) {
	return &writer{bucket: b, ctx: ctx, key: key, options: &blob.WriterOptions{
		BufferSize: opts.BufferSize, MaxConcurrency: opts.MaxConcurrency, CacheControl: opts.CacheControl,
		ContentDisposition: opts.ContentDisposition, ContentEncoding: opts.ContentEncoding,
		ContentLanguage: opts.ContentLanguage, ContentType: contentType, ContentMD5: opts.ContentMD5,
		Metadata: opts.Metadata, DisableContentTypeDetection: opts.DisableContentTypeDetection,
		BeforeWrite: opts.BeforeWrite, IfNotExist: opts.IfNotExist,
	}}, nil
}

func (b *bucket) Copy(ctx context.Context, dstKey, srcKey string, opts *driver.CopyOptions) error {
	return b.inner.Copy(ctx, dstKey, srcKey, &blob.CopyOptions{BeforeCopy: opts.BeforeCopy})
}

func (b *bucket) Delete(ctx context.Context, key string, opts *driver.DeleteOptions) error {
	d, err := b.faults.begin(ctx, Delete, key)
	if err != nil {
		return err
	}
	if err := b.inner.DeleteWithOptions(ctx, key, &blob.DeleteOptions{BeforeDelete: opts.BeforeDelete}); err != nil {
		return err
	}
	return d.After
}

func (b *bucket) SignedURL(ctx context.Context, key string, opts *driver.SignedURLOptions) (string, error) {
	return b.inner.SignedURL(ctx, key, &blob.SignedURLOptions{
		Expiry: opts.Expiry, Method: opts.Method, ContentType: opts.ContentType,
		EnforceAbsentContentType: opts.EnforceAbsentContentType, BeforeSign: opts.BeforeSign,
	})
}

// reader passes on an object's bytes, cut or spoiled.
type reader struct {
	inner    *blob.Reader
	source   io.Reader
	position int64
	flip     func(position int64, p []byte)
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.source.Read(p)
	if r.flip != nil {
		r.flip(r.position, p[:n])
	}
	r.position += int64(n)
	return n, err
}

func (r *reader) Close() error { return r.inner.Close() }

func (r *reader) Attributes() *driver.ReaderAttributes {
	return &driver.ReaderAttributes{ContentType: r.inner.ContentType(), ModTime: r.inner.ModTime(), Size: r.inner.Size()}
}

func (r *reader) As(i any) bool { return r.inner.As(i) }

// writer collects an object and puts it when it is closed, so that a put is one
// operation.
type writer struct {
	bucket  *bucket
	ctx     context.Context
	key     string
	options *blob.WriterOptions
	body    bytes.Buffer
}

func (w *writer) Write(p []byte) (int, error) { return w.body.Write(p) }

func (w *writer) Upload(r io.Reader) error {
	_, err := w.body.ReadFrom(r)
	return err
}

func (w *writer) Close() error {
	d, err := w.bucket.faults.begin(w.ctx, Put, w.key)
	if err == nil {
		err = w.ctx.Err()
	}
	if err != nil {
		return err
	}
	if err := w.put(); err != nil {
		return err
	}
	return d.After
}

func (w *writer) put() error {
	if w.options.ContentType != "" {
		return w.bucket.inner.Upload(w.ctx, w.key, &w.body, w.options)
	}
	inner, err := w.bucket.inner.NewWriter(w.ctx, w.key, w.options) // Upload wants a type
	if err != nil {
		return err
	}
	_, err = inner.Write(w.body.Bytes())
	return errors.Join(err, inner.Close())
}
