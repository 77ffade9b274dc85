package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"

	"github.com/picomq/picomq/internal/fsck"
)

// fsck checks log and bucket with the command, from the first row on. Objects that
// nothing refers to are what every kill leaves, and upkeep deletes after hours;
// they are counted. Anything else is an error.
func (c *cluster) fsck(ctx context.Context) (orphans int, err error) {
	check := exec.CommandContext(ctx, c.binary, "fsck", "--deep", "--json", "--data", c.folder,
		"--meta-url", c.database.URL, "--storage", c.storage())
	var complaint bytes.Buffer
	check.Stderr = &complaint
	output, err := check.Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return 0, fmt.Errorf("picomq fsck: %w\n%s%s", err, output, complaint.Bytes())
	}
	for line := range bytes.Lines(output) {
		var f fsck.Finding
		if err := json.Unmarshal(line, &f); err != nil {
			return orphans, fmt.Errorf("picomq fsck: %w: %s", err, line)
		}
		switch {
		case f.Kind == fsck.Orphan:
			orphans++
		case f.Severity == fsck.Error || f.Severity == fsck.Warning:
			return orphans, fmt.Errorf("picomq fsck: %v", f)
		}
	}
	return orphans, nil
}
