package wire_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

func TestParseDecimal(t *testing.T) {
	good := map[string]uint64{"0": 0, "7": 7, "007": 7, "18446744073709551615": math.MaxUint64}
	for text, want := range good {
		got, err := wire.ParseDecimal(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "+1", "-1", " 1", "1 ", "1.0", "1e3", "0x1", "１", "18446744073709551616", "99999999999999999999999"} {
		_, err := wire.ParseDecimal(text)
		assert.Equal(t, stream.CodeBadRequest, codeOf(t, err), text)
	}
}

func TestParseCanonicalDecimalRefusesLeadingZeros(t *testing.T) {
	for _, text := range []string{"0", "10"} {
		_, err := wire.ParseCanonicalDecimal(text)
		require.NoError(t, err, text)
	}
	for _, text := range []string{"00", "010", "", "+1"} {
		_, err := wire.ParseCanonicalDecimal(text)
		require.Error(t, err, text)
	}
}

func TestTokensOfOffsets(t *testing.T) {
	golden := map[stream.Offset]string{
		0:                "0000000000000000_0000000000000000",
		42:               "0000000000000000_0000000000000042",
		stream.MaxOffset: "0000000000000000_9999999999999998",
	}
	for offset, token := range golden {
		assert.Equal(t, token, wire.FormatToken(offset))
		got, err := wire.ParseToken(token)
		require.NoError(t, err)
		assert.Equal(t, offset, got)
	}
}

func TestTokensCompareAsTheirOffsets(t *testing.T) {
	offsets := rapid.Uint64Range(0, uint64(stream.MaxOffset))
	rapid.Check(t, func(t *rapid.T) {
		a, b := stream.Offset(offsets.Draw(t, "a")), stream.Offset(offsets.Draw(t, "b"))
		if (a < b) != (wire.FormatToken(a) < wire.FormatToken(b)) {
			t.Fatalf("tokens of %d and %d are out of order", a, b)
		}
	})
}

func TestATokenWithAReservedHalfLiesBeyondEveryTail(t *testing.T) {
	for _, token := range []string{"9999999999999999_9999999999999999", "0000000000000001_0000000000000000", "0000000000000000_9999999999999999"} {
		got, err := wire.ParseToken(token)
		require.NoError(t, err)
		assert.Greater(t, got, stream.MaxOffset, token)
	}
}

func TestTextsThatAreNoToken(t *testing.T) {
	for _, text := range []string{
		"", "-1", "now", "0", "0000000000000000", "0000000000000000_", "0000000000000000-0000000000000000",
		"0000000000000000_000000000000000a", "+000000000000000_0000000000000000", "0000000000000000_0000000000000000 ",
		"0000000000000000_00000000000000000", "0000000000000000_0000000000000,00",
	} {
		_, err := wire.ParseToken(text)
		assert.Equal(t, stream.CodeBadRequest, codeOf(t, err), "%q", text)
	}
}

func TestCursorIsTheIntervalOfNow(t *testing.T) {
	epoch := time.Date(2024, time.October, 9, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after  time.Duration
		client string
		want   uint64
	}{
		{0, "", 0},
		{19_999 * time.Millisecond, "", 0},
		{20 * time.Second, "", 1},
		{-time.Hour, "", 0},
		{200 * time.Second, "9", 10}, // older: the current
		{200 * time.Second, "nonsense", 10},
		{200 * time.Second, "-3", 10},
		{200 * time.Second, "18446744073709551615", 10}, // could not be advanced
		{200 * time.Second, "10", 12},                   // collides: 25 s are two intervals
		{200 * time.Second, "500", 502},
	} {
		assert.Equal(t, c.want, wire.NextCursor(epoch.Add(c.after), c.client, 25*time.Second), "%v %q", c.after, c.client)
	}
}

func TestCursorAlwaysMovesPastTheClients(t *testing.T) {
	now := time.Now()
	rapid.Check(t, func(t *rapid.T) {
		client := wire.NextCursor(now, "", 0) + rapid.Uint64Range(0, 1<<40).Draw(t, "ahead")
		jitter := time.Duration(rapid.Int64Range(-1, int64(2*time.Hour)).Draw(t, "jitter"))
		next := wire.NextCursor(now, fmt.Sprint(client), jitter)
		if next <= client || next > client+180 {
			t.Fatalf("cursor %d after %d", next, client)
		}
	})
}

func TestCursorJitterIsWholeSecondsOfOneHour(t *testing.T) {
	for range 1000 {
		jitter := wire.CursorJitter()
		require.GreaterOrEqual(t, jitter, time.Second)
		require.LessOrEqual(t, jitter, time.Hour)
		require.Zero(t, jitter%time.Second)
	}
}

func TestControl(t *testing.T) {
	assert.Equal(t, `{"next_seq":7,"up_to_date":true}`, string(wire.AppendControl(nil, wire.Control{NextSeq: 7, UpToDate: true})))
	assert.Equal(t, `{"next_seq":0,"up_to_date":false,"closed":true}`, string(wire.AppendControl(nil, wire.Control{Closed: true})))
}

func codeOf(t *testing.T, err error) stream.Code {
	t.Helper()
	require.Error(t, err)
	return stream.CodeOf(err)
}
