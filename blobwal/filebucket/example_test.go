package filebucket_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/picomq/picomq/blobwal/filebucket"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bucket, err := filebucket.Open(dir, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = bucket.Close() }()

	once := &blob.WriterOptions{ContentType: "application/octet-stream", IfNotExist: true}
	for _, content := range []string{"first", "second"} {
		err := bucket.Upload(context.Background(), "log/1", strings.NewReader(content), once)
		fmt.Println(gcerrors.Code(err) == gcerrors.FailedPrecondition)
	}
	content, err := bucket.ReadAll(context.Background(), "log/1")
	fmt.Println(string(content), err)
	// Output:
	// false
	// true
	// first <nil>
}
