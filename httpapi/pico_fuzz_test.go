package httpapi

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// Whatever a client asks for is refused as malformed or becomes a bounded read.
func FuzzPicoReadQuery(f *testing.F) {
	f.Add("seq=-5&count=10&bytes=1000&format=raw&live=long-poll&cursor=7", "")
	f.Add("timestamp=1700000000000", "")
	f.Add("live=sse", "42")
	f.Add("seq=18446744073709551616&bytes=%zz", "now")
	f.Fuzz(func(t *testing.T, query, lastEventID string) {
		r := &http.Request{URL: &url.URL{RawQuery: query}, Header: http.Header{wire.LastEventID: {lastEventID}}}
		q, err := parsePicoRead(r)
		if err != nil {
			require.Equal(t, stream.CodeBadRequest, stream.CodeOf(err))
			return
		}
		require.Contains(t, []string{"", picoLongPoll, picoSSE}, q.live)
		require.NotEmpty(t, q.format.name)
		request := q.request()
		require.True(t, 1 <= request.MaxBytes && request.MaxBytes <= maxReadBytes)
		require.True(t, 1 <= request.MaxRecords && request.MaxRecords <= maxReadRecords)
	})
}

// An instant that is accepted is one that RFC 3339 can write, and what is
// written is accepted as the same instant.
func FuzzPicoInstant(f *testing.F) {
	f.Add("2100-01-31T14:00:00.250+02:00")
	f.Add("4105080000000")
	f.Add("0000-01-01T00:00:00Z")
	f.Add("9999-12-31T23:59:59-23:59")
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parsePicoInstant(text)
		if err != nil {
			require.Equal(t, stream.CodeBadRequest, stream.CodeOf(err))
			return
		}
		again, err := parsePicoInstant(formatInstant(at))
		require.NoError(t, err)
		require.Equal(t, at, again)
	})
}
