package faultbucket

import (
	"fmt"
	"time"

	"gocloud.dev/gcerrors"
)

// Kind is a kind of operation.
type Kind uint8

// The kinds. Copies and signed URLs are passed on untouched.
const (
	Put Kind = iota
	Get
	Attributes
	List
	Delete
	kinds
)

// String is the kind's name.
func (k Kind) String() string {
	return [...]string{"put", "get", "attributes", "list", "delete"}[k]
}

// Op is one operation before it happens.
type Op struct {
	Kind Kind
	Key  string // for List the prefix
	Nth  int    // how many operations of this kind this key has had before
}

// Decision is what becomes of an operation.
type Decision struct {
	Delay  time.Duration // before it happens
	Before error         // it fails and does not happen
	After  error         // it happens and fails nevertheless
	// Cut, when positive, ends what a Get returns after so many bytes.
	Cut int
	// Flip, when not nil, may spoil a Get: it is given the position in the object
	// of the bytes and the bytes.
	Flip func(position int64, p []byte)
}

// Plan decides. It is called concurrently.
type Plan func(Op) Decision

// Error is an injected error. gocloud reports it with its code.
type Error struct {
	Op   Op
	Code gcerrors.ErrorCode
	Lost bool // the operation happened
}

// Error says what was injected where.
func (e *Error) Error() string {
	if e.Lost {
		return fmt.Sprintf("injected: the answer to %s %s was lost", e.Op.Kind, e.Op.Key)
	}
	return fmt.Sprintf("injected: %s %s failed (%s)", e.Op.Kind, e.Op.Key, e.Code)
}

// Fail is the error of an operation that did not happen.
func Fail(op Op) error { return &Error{Op: op, Code: gcerrors.Unknown} }

// Lose is the error of an operation that happened and whose answer was lost.
func Lose(op Op) error { return &Error{Op: op, Code: gcerrors.Unknown, Lost: true} }
