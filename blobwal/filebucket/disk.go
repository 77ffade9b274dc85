package filebucket

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// step names one call of a kind that disk makes.
type step string

const (
	stepCreate   step = "create"
	stepWrite    step = "write"
	stepSyncFile step = "sync-file"
	stepClose    step = "close"
	stepMkdir    step = "mkdir"
	stepOpenDir  step = "open-dir"
	stepLink     step = "link"
	stepRename   step = "rename"
	stepSyncDir  step = "sync-dir"
	stepUnlink   step = "unlink"
	stepReadDir  step = "read-dir"
)

// disk makes the calls of this package that durability rests on, and those that
// list, so that a test can record their order and fail any one of them.
type disk struct {
	// tap, if set, is called before each call. An error is returned in place of
	// the call, which is then not made.
	tap func(call) error
	// named keeps temporaries from being unnamed where they could be.
	named bool
}

// call is one step about to be made.
type call struct {
	step step
	path string // what it is about; for link and rename the new name
	from string // for link and rename the old name
}

func (d disk) before(s step, path string) error { return d.see(call{step: s, path: path}) }

func (d disk) see(c call) error {
	if d.tap == nil {
		return nil
	}
	return d.tap(c)
}

// create makes a file that must not exist yet.
func (d disk) create(path string, mode fs.FileMode) (*os.File, error) {
	if err := d.before(stepCreate, path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

// createUnnamed makes a file in dir without a name. Its Name is the label.
func (d disk) createUnnamed(dir, label string, mode fs.FileMode) (*os.File, error) {
	if err := d.before(stepCreate, label); err != nil {
		return nil, err
	}
	return openUnnamed(dir, label, mode)
}

func (d disk) write(f *os.File, p []byte) (int, error) {
	if err := d.before(stepWrite, f.Name()); err != nil {
		return 0, err
	}
	return f.Write(p)
}

func (d disk) syncFile(f *os.File) error {
	if err := d.before(stepSyncFile, f.Name()); err != nil {
		return err
	}
	return f.Sync()
}

// close closes f even when the tap reports a failure: a descriptor must not leak.
func (d disk) close(f *os.File) error {
	err := d.before(stepClose, f.Name())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

func (d disk) mkdir(path string, mode fs.FileMode) error {
	if err := d.before(stepMkdir, path); err != nil {
		return err
	}
	return os.Mkdir(path, mode)
}

func (d disk) openDir(path string) (*os.File, error) {
	if err := d.before(stepOpenDir, path); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

func (d disk) syncDir(f *os.File) error {
	if err := d.before(stepSyncDir, f.Name()); err != nil {
		return err
	}
	return f.Sync()
}

func (d disk) link(oldPath, newPath string) error {
	if err := d.see(call{step: stepLink, path: newPath, from: oldPath}); err != nil {
		return err
	}
	return os.Link(oldPath, newPath)
}

func (d disk) linkUnnamed(f *os.File, newPath string) error {
	if err := d.see(call{step: stepLink, path: newPath, from: f.Name()}); err != nil {
		return err
	}
	return linkUnnamed(f, newPath)
}

func (d disk) rename(oldPath, newPath string) error {
	if err := d.see(call{step: stepRename, path: newPath, from: oldPath}); err != nil {
		return err
	}
	return os.Rename(oldPath, newPath)
}

// unlink removes a file and never a directory, which os.Remove would: an empty
// directory that vanishes breaks what dirs knows about it.
func (d disk) unlink(path string) error {
	if err := d.before(stepUnlink, path); err != nil {
		return err
	}
	if err := unix.Unlink(path); err != nil {
		return &fs.PathError{Op: "unlink", Path: path, Err: err}
	}
	return nil
}

// readDir returns what is in a directory, in no order that means anything.
func (d disk) readDir(path string) ([]fs.DirEntry, error) {
	if err := d.before(stepReadDir, path); err != nil {
		return nil, err
	}
	return os.ReadDir(path)
}
