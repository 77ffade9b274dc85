package httpapi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

func TestInstantsAreThoseOfRFC3339(t *testing.T) {
	for text, want := range map[string]string{
		"2030-01-31T12:00:00Z":           "2030-01-31T12:00:00Z",
		"2030-01-31T12:00:00.25+02:00":   "2030-01-31T10:00:00.25Z",
		"2030-01-31T12:00:00-23:59":      "2030-02-01T11:59:00Z",
		"2028-02-29T23:59:59.999999999Z": "2028-02-29T23:59:59.999Z",
	} {
		at, err := parseInstant("X", text)
		require.NoError(t, err, text)
		assert.Equal(t, want, formatInstant(at))
	}
	for _, text := range []string{
		"", "tomorrow", "2030-01-31", "2030-01-31T12:00:00", "2030-01-31 12:00:00Z", " 2030-01-31T12:00:00Z",
		"2030-01-31T12:00:00,5Z", "2030-01-31T12:00:00.Z", "2030-01-31T1:00:00Z", "2030-1-31T12:00:00Z",
		"2030-01-31T12:00:00+24:00", "2030-01-31T12:00:00+00:60", "2030-01-31T12:00:00+0100",
		"2030-02-30T12:00:00Z", "2030-01-31T24:00:00Z", "2030-01-31T12:00:60Z",
		"0000-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01",
	} {
		_, err := parseInstant("X", text)
		assert.Equal(t, stream.CodeBadRequest, stream.CodeOf(err), text)
		_, err = parsePicoInstant(text)
		assert.Equal(t, stream.CodeBadRequest, stream.CodeOf(err), text)
	}
	// Whatever is printed can be sent.
	at, err := parseInstant("X", formatInstant(stream.Time(time.Now().UnixMilli())))
	require.NoError(t, err)
	assert.Positive(t, at)
}
