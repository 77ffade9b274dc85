package filebucket

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	lockSuffix = ".lock"

	// maxLockTries bounds how often a new lock file is made because a sweep in
	// another process took the last one between its creation and its flock.
	maxLockTries = 16
)

// staging is where one open bucket keeps its temporary files: a directory that
// all buckets open on this root share, where each has an id of its own.
//
// The id's lock file is locked for as long as the bucket is open, and the kernel
// unlocks it when the process dies. So a sweep can tell the leftovers of the dead
// from the work of the living, in this process or any other.
type staging struct {
	disk disk
	dir  string
	id   string
	lock *os.File
	mode fs.FileMode
	last atomic.Uint64 // number of the newest temporary

	unnamed bool // files may be made without a name and linked later
}

// temporary is the file of one put until it is an object.
type temporary struct {
	*os.File
	named bool // in the staging directory
}

// openStaging sweeps what dead processes left and takes an id. The directory
// need not be durable: nothing in it has to survive.
func openStaging(d disk, root string, dirMode, fileMode fs.FileMode) (*staging, error) {
	s := &staging{disk: d, dir: filepath.Join(root, stagingName), mode: fileMode}
	if err := d.mkdir(s.dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	if err := s.sweep(); err != nil {
		return nil, fmt.Errorf("removing what a crashed process left in %s: %w", s.dir, err)
	}
	for range maxLockTries {
		ok, err := s.takeID()
		if err != nil {
			return nil, err
		}
		if ok {
			s.unnamed = !d.named && canUnnamed(s.dir, s.id)
			return s, nil
		}
	}
	return nil, fmt.Errorf("%s: other processes removed a new lock file %d times: is it being cleaned?", s.dir, maxLockTries)
}

// takeID makes a lock file and locks it. It reports false if a sweep took the
// file for a dead one's before it was locked.
func (s *staging) takeID() (bool, error) {
	id := strings.ToLower(rand.Text())
	path := filepath.Join(s.dir, id+lockSuffix)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return false, err
	}
	locked, err := tryLock(f)
	if err != nil || !locked || !sameFile(f, path) {
		_ = f.Close()
		return false, err
	}
	s.id, s.lock = id, f
	return true, nil
}

// sweep removes the temporaries of every id whose lock nobody holds. Files whose
// names are not of our making stay.
func (s *staging) sweep() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	files := map[string][]string{} // by id
	for _, entry := range entries {
		if id, ok := ownerOf(entry.Name()); ok {
			files[id] = append(files[id], entry.Name())
		}
	}
	for id, names := range files {
		if err := s.sweepID(id, names); err != nil {
			return err
		}
	}
	return nil
}

// ownerOf returns the id in the name of a temporary or of a lock file.
func ownerOf(name string) (string, bool) {
	if id, ok := strings.CutSuffix(name, lockSuffix); ok {
		return id, true
	}
	id, number, ok := strings.Cut(name, "-")
	if _, err := strconv.ParseUint(number, 10, 64); err != nil {
		return "", false
	}
	return id, ok
}

// sweepID removes the named files of id unless its lock is held, or not ours to try. The lock is kept
// until they are gone, and its file goes last. No lock file means that its owner
// closed: it is made before the first temporary.
func (s *staging) sweepID(id string, names []string) error {
	lockPath := filepath.Join(s.dir, id+lockSuffix)
	lock, err := os.OpenFile(lockPath, os.O_RDWR, 0)
	switch {
	case err == nil:
		defer func() { _ = lock.Close() }()
		if locked, err := tryLock(lock); err != nil || !locked {
			return err
		}
	case errors.Is(err, fs.ErrPermission):
		return nil // another user's, who may be alive
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	for _, name := range names {
		if name != id+lockSuffix {
			if err := s.remove(filepath.Join(s.dir, name)); err != nil {
				return err
			}
		}
	}
	return s.remove(lockPath)
}

// create makes a new temporary file. One that will be linked, not renamed, needs
// no name until then: that saves making and removing one, and leaves nothing
// behind whatever happens.
func (s *staging) create(toLink bool) (temporary, error) {
	path := filepath.Join(s.dir, s.id+"-"+strconv.FormatUint(s.last.Add(1), 10))
	if toLink && s.unnamed {
		f, err := s.disk.createUnnamed(s.dir, path, s.mode)
		return temporary{File: f}, err
	}
	f, err := s.disk.create(path, s.mode)
	return temporary{File: f, named: true}, err
}

// link gives a temporary the name of its object, which must not exist.
func (s *staging) link(t temporary, path string) error {
	if t.named {
		return s.disk.link(t.Name(), path)
	}
	return s.disk.linkUnnamed(t.File, path)
}

// discard drops what is left of a temporary. Whatever its object holds was
// synced: closing has nothing to lose. If it cannot be removed now, a sweep will
// do it; after a rename it is gone.
func (s *staging) discard(t temporary) {
	_ = s.disk.close(t.File)
	if t.named {
		_ = s.remove(t.Name())
	}
}

// remove unlinks a temporary. One that is gone already is fine.
func (s *staging) remove(path string) error {
	if err := s.disk.unlink(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// close gives the id up. Temporaries of puts that have yet to end go with the
// next sweep, and those puts fail then.
func (s *staging) close() error {
	err := s.remove(s.lock.Name())
	return errors.Join(err, s.lock.Close())
}

// tryLock takes the exclusive lock of f and reports whether it got it.
func tryLock(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		default:
			return false, fmt.Errorf("locking %s: %w (the filesystem must support flock)", f.Name(), err)
		}
	}
}

// sameFile reports whether path still leads to f.
func sameFile(f *os.File, path string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(opened, named)
}
