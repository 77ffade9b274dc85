package blobwal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSealRule(t *testing.T) {
	const ms = time.Millisecond
	tests := []struct {
		name string
		in   sealInput
		want time.Duration
	}{
		{"nothing to seal", sealInput{free: 8, slots: 8, sinceSeal: time.Hour}, sealNever},
		{"no slot", sealInput{buffered: true, slots: 8, sinceSeal: time.Hour}, sealNever},
		{"no slot, full", sealInput{buffered: true, full: true, slots: 8, sinceSeal: time.Hour}, sealNever},
		{"after a pause", sealInput{buffered: true, free: 8, slots: 8, sinceSeal: time.Hour, interval: 50 * ms, meanPut: 80 * ms}, 0},
		{"the first ever", sealInput{buffered: true, free: 8, slots: 8, sinceSeal: 1<<63 - 1, interval: 50 * ms}, 0},
		{"alone", sealInput{buffered: true, free: 8, slots: 8, sinceSeal: 1, meanPut: 400 * ms}, 0},
		{"alone, within the interval", sealInput{buffered: true, free: 8, slots: 8, sinceSeal: 20 * ms, interval: 50 * ms, meanPut: 400 * ms}, 30 * ms},
		{"beside another, within the interval", sealInput{buffered: true, free: 7, slots: 8, underWay: true, sinceSeal: 20 * ms, interval: 50 * ms, meanPut: 80 * ms}, 30 * ms},
		{"beside another, within a slot's share of a put", sealInput{buffered: true, free: 1, slots: 8, underWay: true, sinceSeal: 20 * ms, meanPut: 400 * ms}, 30 * ms},
		{"beside another, the pace", sealInput{buffered: true, free: 7, slots: 8, underWay: true, pace: ms, meanPut: 80}, ms},
		{"beside another, a long pace", sealInput{buffered: true, free: 7, slots: 8, underWay: true, sinceSeal: 5 * ms, pace: 20 * ms, meanPut: 2 * ms}, 15 * ms},
		{"beside another, full", sealInput{buffered: true, full: true, free: 7, slots: 8, underWay: true, sinceSeal: 5 * ms, pace: 20 * ms}, 0},
		{"beside a commit, the pace", sealInput{buffered: true, free: 8, slots: 8, underWay: true, sinceSeal: 5 * ms, pace: 20 * ms, meanPut: 2 * ms}, 15 * ms},
		{"exactly due", sealInput{buffered: true, free: 1, slots: 8, underWay: true, sinceSeal: 50 * ms, interval: 50 * ms}, 0},
		{"full", sealInput{buffered: true, full: true, free: 1, slots: 8, underWay: true, interval: time.Hour, meanPut: time.Hour}, 0},
		{"one slot", sealInput{buffered: true, free: 1, slots: 1, sinceSeal: 5 * ms, meanPut: 30 * ms}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			assert.Equal(t, test.want, sealWait(test.in))
		})
	}
}

func TestMovingMean(t *testing.T) {
	mean := moveMean(0, 100*time.Millisecond)
	assert.Equal(t, 100*time.Millisecond, mean, "the first is the mean")
	slow := moveMean(mean, 900*time.Millisecond)
	assert.Equal(t, 200*time.Millisecond, slow, "one slow put moves it by an eighth")
	for range 50 {
		mean = moveMean(mean, 20*time.Millisecond)
	}
	assert.InDelta(t, 20, mean.Milliseconds(), 1)
}
