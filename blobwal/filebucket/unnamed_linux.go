package filebucket

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// openUnnamed makes a file in dir that has no name there. It goes with its last
// descriptor unless linkUnnamed names it. Its Name is the label.
func openUnnamed(dir, label string, mode fs.FileMode) (*os.File, error) {
	for {
		fd, err := unix.Open(dir, unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, uint32(mode.Perm()))
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), label), nil
		case unix.EINTR:
		default:
			return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
		}
	}
}

// linkUnnamed gives an unnamed file a name, which must not exist.
func linkUnnamed(f *os.File, path string) error {
	// By descriptor alone (AT_EMPTY_PATH) it takes a privilege.
	self := "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	if err := unix.Linkat(unix.AT_FDCWD, self, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW); err != nil {
		return &os.LinkError{Op: "link", Old: f.Name(), New: path, Err: err}
	}
	return nil
}

// canUnnamed finds out whether the file system has unnamed files and the system a
// /proc to name them by. It leaves nothing but what a sweep takes for a temporary.
func canUnnamed(dir, id string) bool {
	probe := filepath.Join(dir, id+"-0")
	f, err := openUnnamed(dir, probe, 0o600)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	if err := linkUnnamed(f, probe); err != nil {
		return false
	}
	return unix.Unlink(probe) == nil
}
