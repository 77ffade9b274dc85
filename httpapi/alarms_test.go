package httpapi

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func rung(alarm <-chan struct{}) bool {
	select {
	case <-alarm:
		return true
	default:
		return false
	}
}

func TestAlarmsRingWithinAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAlarms()
		defer a.end()
		waits := []time.Duration{10 * time.Second, 3 * time.Second, 7500 * time.Millisecond, 0, -time.Second, time.Minute}
		began := time.Now()
		for _, d := range waits {
			alarm := a.after(d, time.Second)
			go func() {
				<-alarm
				late := time.Since(began) - max(d, 0)
				assert.True(t, late >= 0 && late <= time.Second, "%v after %v", late, d)
			}()
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		assert.Empty(t, a.set, "all rang")
		assert.Zero(t, a.next, "and no timer goes on")
	})
}

func TestAlarmsCloseTogetherAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAlarms()
		defer a.end()
		for range 1000 {
			a.after(15*time.Second, time.Second)
			time.Sleep(time.Millisecond)
		}
		assert.LessOrEqual(t, len(a.set), 2)
	})
}

func TestAlarmsEndAtOnce(t *testing.T) {
	a := newAlarms()
	before := a.after(time.Hour, time.Minute)
	a.end()
	a.end()
	require.True(t, rung(before))
	require.True(t, rung(a.after(time.Hour, time.Minute)))
	require.Empty(t, a.set)
}
