package blobwal

import (
	"errors"
	"fmt"
)

// Fault is what is wrong with an object.
type Fault uint8

// The faults.
const (
	FaultMissing   Fault = iota + 1 // there is no such object
	FaultTruncated                  // it is shorter than it must be
	FaultChecksum                   // its bytes do not match their checksum
	FaultFormat                     // its checksums hold, but it is not what this release reads
	FaultForeign                    // it was written by, or for, somebody else
)

// String is the fault's name in metrics and logs.
func (f Fault) String() string {
	switch f {
	case FaultMissing:
		return "missing"
	case FaultTruncated:
		return "truncated"
	case FaultChecksum:
		return "checksum"
	case FaultFormat:
		return "format"
	case FaultForeign:
		return "foreign"
	default:
		return fmt.Sprintf("fault_%d", uint8(f))
	}
}

// ObjectError says that an object in the bucket is not what was written there.
// It is final: reading again gives the same. An error of the bucket that may
// pass is never an ObjectError.
type ObjectError struct {
	Key    string // empty when bytes were parsed whose key nobody said
	Fault  Fault
	Detail string // what exactly, for people
	cause  error
}

// Error names the object and what is wrong with it.
func (e *ObjectError) Error() string {
	key := e.Key
	if key == "" {
		key = "segment"
	}
	return fmt.Sprintf("object %s: %s: %s", key, e.Fault, e.Detail)
}

// Unwrap is the bucket's error behind this one, if any.
func (e *ObjectError) Unwrap() error { return e.cause }

// Missing tells whether err says that an object is not in the bucket: it was
// collected, if the log names it no more, and is lost, if it does.
func Missing(err error) bool {
	var fault *ObjectError
	return errors.As(err, &fault) && fault.Fault == FaultMissing
}

func faultf(fault Fault, format string, args ...any) *ObjectError {
	return &ObjectError{Fault: fault, Detail: fmt.Sprintf(format, args...)}
}

// WithKey is err with the key put into its [*ObjectError], if it has one that
// was made where the key was not known.
func WithKey(key string, err error) error {
	var fault *ObjectError
	if !errors.As(err, &fault) || fault.Key != "" {
		return err
	}
	keyed := *fault // others may hold the original
	keyed.Key = key
	return &keyed
}
