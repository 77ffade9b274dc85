package combine_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica/combine"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

// A node that freezes keeps its lease for three seconds. Another takes it up to a
// second later, and it may take a second more until that is heard of: before that,
// nobody waits for the frozen one a second time.
func TestAFrozenNodeIsWaitedForOnce(t *testing.T) {
	local := combine.New(sqllogtest.NewMemory())
	defer local.Close()
	frozen := &remote{}
	frozen.fail.Store(&commands.ErrUnknown)
	now := time.Now()
	r := combine.NewRouter(local, frozen, combine.RouterConfig{Now: func() time.Time { return now }})
	r.Learn(holder(1), holder(2), now)
	_, err := r.Insert(t.Context(), insert(1, 1))
	require.ErrorIs(t, err, commands.ErrUnknown)
	for seq, began := uint64(2), now; now.Sub(began) < 4900*time.Millisecond; seq++ {
		now = now.Add(100 * time.Millisecond)
		r.Learn(holder(1), holder(2), now)
		_, err := r.Insert(t.Context(), insert(1, seq))
		require.ErrorIs(t, err, commands.ErrNotSent, "%v later", now.Sub(began))
	}
	require.EqualValues(t, 1, frozen.asked.Load())
	r.Learn(holder(1), holder(3), now)
	_, err = r.Insert(t.Context(), insert(1, 100))
	require.ErrorIs(t, err, commands.ErrUnknown, "another is asked at once")
}
