//go:build !linux

package main

import (
	"errors"
	"os"
)

// forget makes the page cache drop what it has of a file.
func forget(*os.File) error {
	return errors.New("how to drop a file from the page cache of this system is not known; measure on Linux")
}
