package filebucket

import (
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/gcerrors"
)

// An error says which class it is of, and what to do where the system's words do not.
func TestErrors(t *testing.T) {
	for _, tc := range []struct {
		fail step
		err  error
		code gcerrors.ErrorCode
		says string
	}{
		{stepWrite, syscall.ENOSPC, gcerrors.ResourceExhausted, "free space"},
		{stepSyncFile, syscall.EDQUOT, gcerrors.ResourceExhausted, "quota"},
		{stepCreate, syscall.EROFS, gcerrors.PermissionDenied, "read-only"},
		{stepOpenDir, syscall.EACCES, gcerrors.PermissionDenied, "permission denied"},
		{stepLink, &os.LinkError{Op: "link", Err: syscall.EXDEV}, gcerrors.Unknown, "must be one filesystem"},
		{stepLink, &os.LinkError{Op: "link", Err: syscall.EPERM}, gcerrors.PermissionDenied, "has no hard links"},
		{stepMkdir, syscall.ENAMETOOLONG, gcerrors.InvalidArgument, "too long"},
		{stepCreate, syscall.EEXIST, gcerrors.Unknown, "exists"},
		{stepOpenDir, syscall.ENOENT, gcerrors.Unknown, "no such file"},
	} {
		rec := &recorder{}
		b := openTapped(t, t.TempDir(), rec.tap)
		rec.reset(func(_ int, c call) error {
			if c.step == tc.fail {
				return tc.err
			}
			return nil
		})
		err := put(b, "a/k", newContent, createOnly())
		require.Equal(t, tc.code, gcerrors.Code(err), "%v", err)
		require.ErrorContains(t, err, tc.says)
		var ours *Error
		require.True(t, b.ErrorAs(err, &ours))
		require.Equal(t, "a/k", ours.Key)
		var link *os.LinkError
		require.Equal(t, tc.fail == stepLink, b.ErrorAs(err, &link))
	}
}
