package chaos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/process"
)

var (
	lasts = flag.Duration("chaos", 10*time.Second, "how long things go wrong")
	seed  = flag.Uint64("seed", 0, "of the faults and of what is written; 0 draws one")
)

func TestThreeNodesKeepTheirPromises(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	binary, err := process.Build(t.Context(), t.TempDir(), "failpoint")
	require.NoError(t, err)
	report, err := Run(t.Context(), Config{Binary: binary, Folder: t.TempDir(), Seed: *seed, Lasts: *lasts, Log: t.Logf})
	require.NoError(t, err, "go test ./internal/chaos -chaos %v -seed %d\n%v", *lasts, *seed, report)
	require.Zero(t, report.Undecided)
	fmt.Println(report) // shown without -v where go test runs in this folder, as make chaos does
}
