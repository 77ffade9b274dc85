package filebucket

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"testing"

	"gocloud.dev/blob"
	"gocloud.dev/blob/driver"
	"gocloud.dev/blob/drivertest"
)

// harness runs go-cloud's own driver suite on a directory of the test's.
type harness struct {
	dir    string
	prefix string
}

func (h *harness) MakeDriver(context.Context) (driver.Bucket, error) {
	b, err := openBucket(h.dir, nil, disk{})
	if err != nil || h.prefix == "" {
		return b, err
	}
	return driver.NewPrefixedBucket(b, h.prefix), nil
}

// There is no bucket that does not exist: Open creates it.
func (h *harness) MakeDriverForNonexistentBucket(context.Context) (driver.Bucket, error) {
	return nil, nil
}

func (h *harness) HTTPClient() *http.Client         { return nil }
func (h *harness) SupportsCopy() bool               { return true }
func (h *harness) SupportsNonSlashDelimiters() bool { return true }
func (h *harness) Close()                           {}

// errorAs checks the one thing that As exposes.
type errorAs struct{}

func (errorAs) Name() string                           { return "errors are *Error and *fs.PathError" }
func (errorAs) BucketCheck(*blob.Bucket) error         { return nil }
func (errorAs) BeforeRead(func(any) bool) error        { return nil }
func (errorAs) BeforeWrite(func(any) bool) error       { return nil }
func (errorAs) BeforeCopy(func(any) bool) error        { return nil }
func (errorAs) BeforeDelete(func(any) bool) error      { return nil }
func (errorAs) BeforeList(func(any) bool) error        { return nil }
func (errorAs) BeforeSign(func(any) bool) error        { return nil }
func (errorAs) AttributesCheck(*blob.Attributes) error { return nil }
func (errorAs) ReaderCheck(*blob.Reader) error         { return nil }
func (errorAs) ListObjectCheck(*blob.ListObject) error { return nil }

func (errorAs) ErrorCheck(b *blob.Bucket, err error) error {
	var ours *Error
	var system *fs.PathError
	if !b.ErrorAs(err, &ours) || !b.ErrorAs(err, &system) {
		return fmt.Errorf("ErrorAs found no *Error or no *fs.PathError in %w", err)
	}
	if ours.Op != "get" || ours.Key == "" || ours.Path != system.Path {
		return fmt.Errorf("operation, key or path is wrong in %w", ours)
	}
	return nil
}

func TestConformance(t *testing.T) {
	for _, prefix := range []string{"", "some/prefix/dir/"} {
		t.Run("prefix="+prefix, func(t *testing.T) {
			newHarness := func(_ context.Context, t *testing.T) (drivertest.Harness, error) {
				t.Helper()
				return &harness{dir: t.TempDir(), prefix: prefix}, nil
			}
			drivertest.RunConformanceTests(t, newHarness, []drivertest.AsTest{errorAs{}})
		})
	}
}
