package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
)

// left is what `picomq fsck` counted after the last life.
type left struct {
	Index    uint64 `json:"index"`    // entries of the log, ever
	Rows     uint64 `json:"rows"`     // replayed
	Archives int    `json:"archives"` // objects
	Objects  uint64 `json:"objects"`  // segments
	Extents  uint64 `json:"extents"`
}

// inspect lets `picomq fsck` check log and bucket, every byte of them, from the
// first entry on.
func (r *run) inspect(ctx context.Context) error {
	command := exec.CommandContext(ctx, r.Binary, "fsck", "--data", r.Data, "--deep", "--json")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	found, err := command.Output()
	if err != nil {
		return fmt.Errorf("fsck: %w\n%s%s", err, found, &stderr)
	}
	lines := bytes.Split(bytes.TrimSpace(found), []byte("\n"))
	var last struct{ Summary left }
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
		return fmt.Errorf("fsck ended with %q: %w", lines[len(lines)-1], err)
	}
	r.report.Left = last.Summary
	if r.report.Left.Archives == 0 {
		return errors.New("nothing was archived in any life")
	}
	return nil
}
