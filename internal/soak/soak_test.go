package soak_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/picomq/picomq/internal/soak"
)

var (
	lasts = flag.Duration("soak", 3*time.Second, "how long the soaks last together, without their checks at the end")
	seed  = flag.Uint64("seed", 0, "of what is done and what fails; 0 draws one")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	goleak.VerifyTestMain(m)
}

// TestNothingIsLostAndNothingLeftOver soaks one node on SQLite, then two on a log
// that they share.
func TestNothingIsLostAndNothingLeftOver(t *testing.T) {
	t.Parallel() // most of it is waiting
	for nodes := 1; nodes <= 2; nodes++ {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) {
			report, err := soak.Run(t.Context(), soak.Config{
				Folder: t.TempDir(), Seed: *seed, Lasts: *lasts / 2, Nodes: nodes, Workers: 4 * nodes, Log: t.Logf,
			})
			require.NoError(t, err, "go test ./internal/soak -soak %v -seed %d\n%v", *lasts, *seed, report)
			require.Positive(t, report.Read)
			if *lasts >= 30*time.Second { // time enough, however busy the machine is
				require.Positive(t, report.Crashes)
			}
			fmt.Println(report) // shown without -v where go test runs in this folder, as make soak does
		})
	}
}
