package filebucket

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

const (
	// maxKnownDirs bounds how many directories are remembered as durable. Beyond
	// it all are forgotten, which costs each its parent's fsync once more.
	maxKnownDirs = 8192

	// maxFailed bounds how many paths are remembered as failed. Beyond it all
	// are taken for failed.
	maxFailed = 1024
)

// dirs creates directories and makes them durable. It is safe for concurrent use.
//
// A directory is known when an fsync of its parent that began after it existed
// has succeeded, and its parent is known; the root is, from Open on. Nothing here
// ever removes a directory, so knowing stays true.
type dirs struct {
	disk disk
	root string
	mode fs.FileMode

	mu     sync.Mutex          // guards what follows; never held over a system call
	known  map[string]struct{} // by path, at most maxKnownDirs
	failed map[string]error    // why fsync failed, by path of directory or object, at most maxFailed
}

func newDirs(d disk, root string, mode fs.FileMode) *dirs {
	return &dirs{disk: d, root: root, mode: mode, known: map[string]struct{}{}, failed: map[string]error{}}
}

// prepare returns path opened for a change in it, created and made durable
// first where needed. The caller changes it, syncs it and closes it.
func (d *dirs) prepare(path string) (*openDir, error) {
	if err := d.ensure(path); err != nil {
		return nil, err
	}
	dir, err := d.open(path)
	if errors.Is(err, fs.ErrNotExist) {
		// Somebody took a known directory away. Once is an accident.
		d.forget()
		if err := d.ensure(path); err != nil {
			return nil, err
		}
		dir, err = d.open(path)
	}
	return dir, err
}

// ensure makes path exist and known. The root is not created: if it is gone,
// that is an error and not a bucket to be started afresh.
func (d *dirs) ensure(path string) error {
	if path == d.root || d.isKnown(path) {
		return nil
	}
	if err := d.ensure(filepath.Dir(path)); err != nil {
		return err
	}
	parent, err := d.open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer parent.close()
	// A directory that exists already may have been made a moment ago by somebody
	// who has yet to sync it, so the sync is due in either case.
	if err := d.disk.mkdir(path, d.mode); err != nil {
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return cmp.Or(err, errConflict)
		}
	}
	if err := parent.sync(); err != nil {
		return err
	}
	d.remember(path)
	return nil
}

// open opens the directory at path for a change.
func (d *dirs) open(path string) (*openDir, error) {
	if err := d.failure(path); err != nil {
		return nil, err
	}
	f, err := d.disk.openDir(path)
	if err != nil {
		return nil, err
	}
	return &openDir{dirs: d, file: f, path: path}, nil
}

func (d *dirs) isKnown(path string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, ok := d.known[path]
	return ok
}

func (d *dirs) remember(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.known) >= maxKnownDirs {
		clear(d.known)
	}
	d.known[path] = struct{}{}
}

func (d *dirs) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.known)
}

// fail marks the directory or object at path as one whose fsync failed.
func (d *dirs) fail(path string, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.failed) < maxFailed {
		d.failed[path] = cause
	}
}

// failure returns an error if an fsync of the directory or object at path has failed.
func (d *dirs) failure(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cause, ok := d.failed[path]; ok {
		return fmt.Errorf("%w (%s: %w)", errUnsynced, path, cause)
	}
	if len(d.failed) >= maxFailed {
		return fmt.Errorf("%w (of %d directories or objects)", errUnsynced, len(d.failed))
	}
	return nil
}

// openDir is a directory opened before a change in it.
type openDir struct {
	dirs *dirs
	file *os.File
	path string
}

// sync makes every change in the directory since it was opened durable. It fails
// for good once it has failed, for every opener of this directory: so it looks for
// a failure before, lest it ask again, and after, since an fsync that failed beside
// this one may have concerned an entry that this one answers for.
func (o *openDir) sync() error {
	if err := o.dirs.failure(o.path); err != nil {
		return err
	}
	if err := o.dirs.disk.syncDir(o.file); err != nil {
		o.dirs.fail(o.path, err)
		return err
	}
	return o.dirs.failure(o.path)
}

// close drops the descriptor. It was open for reading: there is nothing to lose.
func (o *openDir) close() { _ = o.file.Close() }

// makeRoot creates the bucket's directory where it is missing and makes it and
// everything above it durable.
func makeRoot(d disk, root string, mode fs.FileMode) error {
	parent := filepath.Dir(root)
	if parent == root {
		return nil
	}
	if err := makeRoot(d, parent, mode); err != nil {
		return err
	}
	dir, err := d.openDir(parent)
	if err != nil {
		return existingRoot(root, err)
	}
	defer func() { _ = dir.Close() }()
	if err := d.mkdir(root, mode); err == nil {
		return d.syncDir(dir)
	} else if !errors.Is(err, fs.ErrExist) {
		return existingRoot(root, err)
	}
	if err := d.syncDir(dir); err != nil {
		return existingRoot(root, err)
	}
	return nil
}

// existingRoot drops an error of preparing root if it was there anyway and the
// error only says that its parent is not ours to open, change or sync: whoever
// administers the parent has made root.
func existingRoot(root string, err error) error {
	if !isForeign(err) {
		return err
	}
	if info, serr := os.Stat(root); serr != nil || !info.IsDir() {
		return err
	}
	return nil
}
