package crash

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/internal/process"
)

var (
	kills = flag.Int("kills", 10, "how often the server is killed")
	seed  = flag.Uint64("seed", 0, "of the kills and of what is written; 0 draws one")
)

func TestNothingAcknowledgedIsLost(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	binary, err := process.Build(t.Context(), t.TempDir(), "failpoint")
	require.NoError(t, err)
	report, err := Run(t.Context(), Config{
		Binary: binary, Data: filepath.Join(t.TempDir(), "data"), Kills: *kills, Seed: *seed, Log: t.Logf,
	})
	require.NoError(t, err, "go test ./internal/crash -kills %d -seed %d\n%v", *kills, *seed, report)
	require.Positive(t, report.Acknowledged)
	fmt.Println(report) // shown without -v where go test runs in this folder, as make crash does
}
