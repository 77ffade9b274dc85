package fsck

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFindingsAreForPeopleAndScripts.
func TestFindingsAreForPeopleAndScripts(t *testing.T) {
	f := Finding{Severity: Error, Kind: Missing, Object: "key", What: "the bucket does not have it", Do: "restore it"}
	require.Equal(t, "error key: missing: the bucket does not have it; restore it", f.String())
	text, err := json.Marshal(f)
	require.NoError(t, err)
	require.JSONEq(t, `{"severity":"error","kind":"missing","object":"key","what":"the bucket does not have it","do":"restore it"}`, string(text))
	f.Repaired = true
	require.Equal(t, "error key: missing: the bucket does not have it; repaired", f.String())
	require.Equal(t, "info log: waiting: x", Finding{Severity: Info, Kind: Waiting, Object: "log", What: "x"}.String())
}

// TestReportOnOneLine.
func TestReportOnOneLine(t *testing.T) {
	r := Report{Index: 7, Streams: 1, Extents: 2, Segments: 3, Bytes: 4}
	require.Equal(t, "checked 1 stream, 2 extents and 3 segments (4 bytes) as of row 7: all is well", r.String())
	require.True(t, r.Clean())
	r.Errors, r.Warnings, r.Repaired, r.Quick = 1, 2, 2, true
	require.Equal(t, "checked quickly 1 stream, 2 extents and 3 segments (4 bytes) as of row 7: 1 error, 2 warnings, 2 of them repaired", r.String())
	require.False(t, r.Clean())
}
