package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
	_ "modernc.org/sqlite" // the SQLite driver

	"github.com/picomq/picomq/blobwal/filebucket"
	"github.com/picomq/picomq/internal/faultbucket"
)

const (
	// bareObject is about the bytes of a segment of one record of 256 bytes.
	bareObject = 512
	// bareRow is about the bytes of the row that commits it.
	bareRow = 120
)

// bare does the least that an append must wait for: it puts an object, through
// the server's driver and create-only, and then commits one row to SQLite, in WAL
// mode and with full sync as the log does.
type bare struct {
	dir    string
	bucket *blob.Bucket
	db     *sql.DB
	insert *sql.Stmt
	puts   int
}

// newBare works on a durable bucket, or with faults on one in memory that
// misbehaves so. Close it.
func (w *world) newBare(ctx context.Context, faults string) (_ *bare, err error) {
	b := &bare{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = w.dir("bare"); err != nil {
		return b, err
	}
	if b.bucket, err = openBareBucket(filepath.Join(b.dir, "bucket"), faults); err != nil {
		return b, err
	}
	options := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)"}}
	if b.db, err = sql.Open("sqlite", "file:"+filepath.Join(b.dir, "log.db")+"?"+options.Encode()); err != nil {
		return b, err
	}
	b.db.SetMaxOpenConns(1)
	if _, err = b.db.ExecContext(ctx, "CREATE TABLE log (idx INTEGER PRIMARY KEY, payload BLOB NOT NULL)"); err != nil {
		return b, err
	}
	b.insert, err = b.db.PrepareContext(ctx, "INSERT INTO log (payload) VALUES (?)")
	return b, err
}

func openBareBucket(dir, faults string) (*blob.Bucket, error) {
	if faults == "" {
		return filebucket.Open(dir, nil)
	}
	random, err := faultbucket.ParseRandom(faults)
	if err != nil {
		return nil, err
	}
	bucket, _ := faultbucket.Wrap(memblob.OpenBucket(nil), random.Plan())
	return bucket, nil
}

func (b *bare) close() error {
	var errs []error
	if b.insert != nil {
		errs = append(errs, b.insert.Close())
	}
	if b.db != nil {
		errs = append(errs, b.db.Close())
	}
	if b.bucket != nil {
		errs = append(errs, b.bucket.Close())
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

// run commits one after the other for a time, and returns how long each took.
func (b *bare) run(ctx context.Context, d time.Duration) ([]time.Duration, error) {
	object, row := bytes.Repeat([]byte{'x'}, bareObject), bytes.Repeat([]byte{'r'}, bareRow)
	var took []time.Duration
	until := time.Now().Add(d)
	for began := time.Now(); began.Before(until); began = time.Now() {
		b.puts++
		key := fmt.Sprintf("segments/%d", b.puts)
		err := b.bucket.Upload(ctx, key, bytes.NewReader(object), &blob.WriterOptions{ContentType: "application/octet-stream", IfNotExist: true})
		if err != nil {
			return nil, err
		}
		if _, err := b.insert.ExecContext(ctx, row); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
	}
	return took, nil
}
