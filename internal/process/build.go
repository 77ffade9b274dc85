package process

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// command is the import path of the binary.
const command = "github.com/picomq/picomq/cmd/picomq"

// Build compiles the picomq binary with the build tags into dir and returns its
// path. The error carries what the compiler said.
func Build(ctx context.Context, dir string, tags ...string) (string, error) {
	binary := filepath.Join(dir, "picomq")
	build := exec.CommandContext(ctx, "go", "build", "-tags", strings.Join(tags, ","), "-o", binary, command)
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", command, err, output)
	}
	return binary, nil
}
