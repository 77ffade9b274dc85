package soak_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/soak"
)

var (
	streams = flag.Int("month", 20_000, "how many idle streams a month has")
	days    = flag.Int("days", 1, "how many days a month has")
)

// TestAMonth: whatever a month brings, only what streams hold is left at its end.
func TestAMonth(t *testing.T) {
	t.Parallel() // most of it is waiting
	report, err := soak.Month(t.Context(), soak.MonthConfig{Seed: *seed, Days: *days, Streams: *streams, Busy: 300, Log: t.Logf})
	require.NoError(t, err, "go test ./internal/soak -run TestAMonth -month %d -days %d -seed %d\n%v", *streams, *days, *seed, report)
	fmt.Println(report)
}
