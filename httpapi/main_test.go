package httpapi

import (
	"testing"

	"go.uber.org/goleak"
)

// No test may leave a goroutine behind: a live reader that nobody ends would
// be one.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
