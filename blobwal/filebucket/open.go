package filebucket

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gocloud.dev/blob"
)

// Scheme is the URL scheme that OpenURL takes. The package does not register it
// with gocloud's URL mux, where fileblob claims the same.
const Scheme = "file"

// Options are the settings of Open. The zero value, and nil, are the defaults.
type Options struct {
	// DirMode is the mode of directories that the bucket creates, before the
	// umask. Default 0750.
	DirMode fs.FileMode

	// FileMode is the mode of object files, before the umask. Default 0640.
	FileMode fs.FileMode
}

// Open opens the bucket in dir, which it creates if it is missing, and removes
// what crashed processes left in the staging directory. The bucket is safe for
// concurrent use, and any number of processes may have the same dir open. It
// keeps one descriptor until it is closed. Close it after the last put ended.
func Open(dir string, opts *Options) (*blob.Bucket, error) {
	b, err := openBucket(dir, opts, disk{})
	if err != nil {
		return nil, err
	}
	return blob.NewBucket(b), nil
}

// OpenURL opens the bucket that u names, with default options: file:///abs/path,
// or relative to the working directory, file://./path or file://../path. It takes
// no query parameters; one that is given is an error that names it.
func OpenURL(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	dir, err := dirOfURL(u)
	if err != nil {
		return nil, fmt.Errorf("filebucket: open %q: %w", u.Redacted(), err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("filebucket: open %q: %w", u.Redacted(), err)
	}
	return Open(dir, nil)
}

func dirOfURL(u *url.URL) (string, error) {
	params, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", err
	}
	switch {
	case u.Scheme != Scheme:
		return "", fmt.Errorf("the scheme is %q, not %q", u.Scheme, Scheme)
	case u.Opaque != "" || u.User != nil || u.Fragment != "":
		return "", fmt.Errorf("write file:///absolute/path or file://./relative/path")
	case len(params) > 0:
		names := make([]string, 0, len(params))
		for name := range params {
			names = append(names, name)
		}
		slices.Sort(names)
		return "", fmt.Errorf("unknown query parameters %q: there are none for file buckets", names)
	case strings.ContainsRune(u.Path, 0):
		return "", fmt.Errorf("the path holds a zero byte")
	}
	switch u.Host {
	case "", "localhost":
		if u.Path == "" {
			return "", fmt.Errorf("the path is empty: write file:///absolute/path or file://./relative/path")
		}
		return u.Path, nil
	case ".", "..":
		return u.Host + u.Path, nil
	}
	return "", fmt.Errorf("%q stands where a host name does: write file:///%[1]s%s for an absolute path, file://./%[1]s%[2]s for a relative one",
		u.Host, u.Path)
}

// openBucket opens the driver on dir with d for its system calls.
func openBucket(dir string, opts *Options, d disk) (*bucket, error) {
	if opts == nil {
		opts = &Options{}
	}
	if dir == "" {
		return nil, fmt.Errorf("filebucket: open: the directory's name is empty")
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("filebucket: open %s: %w", dir, err)
	}
	dirMode := cmp.Or(opts.DirMode, 0o750)
	if err := makeRoot(d, root, dirMode); err != nil {
		return nil, fmt.Errorf("filebucket: open %s: %w", root, err)
	}
	if info, err := os.Stat(root); err != nil {
		return nil, fmt.Errorf("filebucket: open: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("filebucket: open %s: it is not a directory", root)
	}
	staging, err := openStaging(d, root, dirMode, cmp.Or(opts.FileMode, 0o640))
	if err != nil {
		return nil, fmt.Errorf("filebucket: open %s: %w", root, err)
	}
	return &bucket{root: root, disk: d, dirs: newDirs(d, root, dirMode), staging: staging}, nil
}
