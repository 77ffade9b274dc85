package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoomForWhatWaitsForADisk(t *testing.T) {
	const postgres = "postgres://localhost/picomq"
	for _, test := range []struct {
		name        string
		config      config
		environment string
		want        int
	}{
		{"defaults", config{data: t.TempDir()}, "", 2 + diskCalls},
		{"only the log on a disk", config{storage: "mem://", metaURL: "sqlite:///tmp/log.db"}, "", 2 + diskCalls},
		{"only the records on a disk", config{storage: "file:///tmp/bucket", metaURL: postgres}, "", 2 + diskCalls},
		{"nothing on a disk", config{storage: "mem://", metaURL: postgres}, "", 2},
		{"the environment's choice", config{data: t.TempDir()}, "2", 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.NoError(t, test.config.fillDefaults())
			require.Equal(t, test.want, processors(&test.config, test.environment, 2))
		})
	}
}
