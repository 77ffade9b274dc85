package sqllog_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience bounds a call to a log, and what else must come, however busy the
// machine is: it only ends a test that hangs.
const patience = time.Minute

// childVariable makes the test binary a child of a test: its value names what
// the child does, its arguments follow in childArgument.
const (
	childVariable = "SQLLOG_TEST_CHILD"
	childArgument = "SQLLOG_TEST_ARGUMENT"
)

func TestMain(m *testing.M) {
	switch child := os.Getenv(childVariable); child {
	case "":
		goleak.VerifyTestMain(m)
	case "append":
		if err := appendForever(os.Getenv(childArgument)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, "no such child:", child)
		os.Exit(2)
	}
}
