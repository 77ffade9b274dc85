package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gocloud.dev/blob/memblob"
)

// TestTheLogSaysErrorsInOneLine: errors of buckets know where in the code they
// were made, and print that when a handler asks for all they know.
func TestTheLogSaysErrorsInOneLine(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	defer func() { require.NoError(t, bucket.Close()) }()
	_, err := bucket.ReadAll(t.Context(), "nowhere")
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		(&config{logLevel: "info", logFormat: format}).logTo(&out).Warn("it failed", "error", err)
		require.Contains(t, out.String(), "nowhere")
		require.Contains(t, out.String(), "NotFound")
		require.NotContains(t, out.String(), ".go:", "a stack")
	}
}
