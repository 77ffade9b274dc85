package filebucket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"gocloud.dev/gcerrors"
)

var (
	// errExists is the answer of a create-only put that lost. It is made at the
	// link step only: EEXIST from any other call must not look like it.
	errExists = errors.New("the key exists already")
	// errConflict says that the filesystem cannot hold the key beside the others.
	errConflict = errors.New("a key and a longer key that continues it with a slash cannot both be stored in a directory")
	// errKey is wrapped by every refusal of a key or of attributes.
	errKey = errors.New("not storable")
	// errDamaged says that an object's attribute trailer does not add up.
	errDamaged = errors.New("attribute trailer is damaged")
	// errUnsynced says that an earlier fsync of a directory, or of an object that a
	// create-only put found, failed.
	errUnsynced = errors.New("an earlier fsync failed, so a later one proves nothing: check the device, then restart")
)

// Error is the error of one operation on one object. gcerrors.Code of the error
// that a blob.Bucket returns gives its class: NotFound, FailedPrecondition (a
// create-only put found the key), InvalidArgument (the key or its attributes cannot
// be stored), ResourceExhausted (disk or quota full), PermissionDenied, Canceled,
// Internal (damaged file), or Unknown.
type Error struct {
	Op   string // "put", "get", "delete", "list", "copy" or "attributes"
	Key  string // the object's key; for "list" the prefix
	Path string // the file, if it got so far
	Err  error  // the cause
}

// Error says what was tried, on which key and file, and what went wrong.
func (e *Error) Error() string {
	at := ""
	if e.Path != "" {
		at = " at " + e.Path
	}
	return fmt.Sprintf("filebucket: %s %q%s: %v%s", e.Op, e.Key, at, e.Err, hint(e.Err))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// hint adds what to do where the system's words do not say it.
func hint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return " (the disk is full: free space or move the bucket; other objects are not affected)"
	case errors.Is(err, syscall.EDQUOT):
		return " (the disk quota is used up; other objects are not affected)"
	case errors.Is(err, syscall.EXDEV):
		return " (a mount inside the bucket's directory: the whole bucket must be one filesystem)"
	case isLink(err) && (errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOTSUP)):
		return " (the filesystem has no hard links, which create-only puts need)"
	}
	return ""
}

func isLink(err error) bool {
	var le *os.LinkError
	return errors.As(err, &le) && le.Op == "link"
}

// code classifies e. ENOENT means NotFound only for operations on an object that
// should exist: for a put it says that a directory was taken away.
func (e *Error) code() gcerrors.ErrorCode {
	switch err := e.Err; {
	case errors.Is(err, errExists):
		return gcerrors.FailedPrecondition
	case errors.Is(err, errKey), errors.Is(err, errConflict), errors.Is(err, syscall.ENAMETOOLONG):
		return gcerrors.InvalidArgument
	case errors.Is(err, errDamaged):
		return gcerrors.Internal
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return gcerrors.ResourceExhausted
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return gcerrors.PermissionDenied
	case e.Op != "put" && isAbsent(err):
		return gcerrors.NotFound
	}
	return gcerrors.Unknown
}

// isAbsent reports whether err says that there is no object at a path: nothing
// there, or a file where the path needs a directory.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// isForeign reports whether err says that a directory is not ours to change, be
// it by permission, by a read-only mount or by a filesystem that cannot sync it.
func isForeign(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) ||
		errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP)
}
