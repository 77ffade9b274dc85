//go:build !linux

package filebucket

import (
	"errors"
	"io/fs"
	"os"
)

// canUnnamed is false: only Linux can name a file that was made without a name.
func canUnnamed(string, string) bool { return false }

func openUnnamed(string, string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

func linkUnnamed(*os.File, string) error { return errors.ErrUnsupported }
