package chaos

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryFaultIsDealtAsOftenAsItsOdds(t *testing.T) {
	d, random := &deck{}, rand.New(rand.NewPCG(1, 1))
	cards := 0
	for _, n := range odds {
		require.Positive(t, n)
		cards += n
	}
	for range 3 {
		var dealt [faults]int
		for range cards {
			dealt[d.deal(random)]++
		}
		require.Equal(t, odds, dealt)
	}
}

func TestOneNodeIsSpared(t *testing.T) {
	m := newMisfortune(nil, nil)
	may := func(f fault, pair bool) bool {
		_, may := m.victim(t.Context(), &stroke{fault: f, seat: 2, pair: pair})
		return may
	}
	require.True(t, may(killed, false))
	m.busy[0] = true
	require.False(t, may(killed, false), "it waits for a stroke that may be one of a pair")
	require.True(t, may(killed, true))
	m.busy[1] = true
	for f := range faults {
		require.Equal(t, f == databaseCrash || f == bucketDown, may(f, true), f)
	}
	m.busy[theBucket] = true
	require.False(t, may(bucketDown, true), "it is down")
	m.healed <- theBucket
	m.collect()
	require.True(t, may(bucketDown, true))
}
