package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/picomq/picomq/commands"
)

// nodeFile remembers, in the data folder, which node this is. Losing it costs
// a new number and nothing else: a node keeps nothing of its own.
const nodeFile = "node-id"

// rememberedNode is the number to register with: the flag's, else the one
// remembered, else 0 for the lowest free.
func rememberedNode(folder string, flag uint32) (commands.NodeID, error) {
	if flag != 0 {
		return commands.NodeID(flag), nil
	}
	name := filepath.Join(folder, nodeFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("--data %s: read the node number: %w", folder, err)
	}
	if len(text) == 0 {
		return 0, nil // power was lost while it was written
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("--data: %s holds %q, which is no node number: delete it to be given one, or use --node-id", name, text)
	}
	return commands.NodeID(n), nil
}

// rememberNode writes the number down for the next start. The folder is there
// unless log and bucket are elsewhere: those make theirs, and durably, which
// this need not be.
func rememberNode(folder string, node commands.NodeID) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("--data %s: %w", folder, err)
	}
	name := filepath.Join(folder, nodeFile)
	temporary := name + ".new"
	if err := os.WriteFile(temporary, []byte(strconv.FormatUint(uint64(node), 10)+"\n"), 0o644); err != nil {
		return fmt.Errorf("--data %s: remember the node number: %w", folder, err)
	}
	if err := os.Rename(temporary, name); err != nil {
		return fmt.Errorf("--data %s: remember the node number: %w", folder, err)
	}
	return nil
}
