package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"github.com/picomq/picomq/commands"
)

// nodeFile remembers, in the data folder, which node this is: its number, and the
// incarnation that had it, as text. Losing it costs a new number and nothing else:
// a node keeps nothing of its own.
const nodeFile = "node-id"

// lockName is the file in the data folder that its process holds locked.
const lockName = "lock"

// lockData takes the data folder for this process: a second one would register as
// the same node and end the first, which whoever watches over it starts again, and
// so on. The kernel releases it when the process ends, however it does; the file
// stays, since removing it would let two processes lock two files of one name. A
// SQLite log is locked itself, and needs no more: nothing is locked then.
func (n *node) lockData(c *config) error {
	if strings.HasPrefix(c.metaURL, "sqlite:") {
		return nil
	}
	if err := os.MkdirAll(c.data, 0o750); err != nil {
		return fmt.Errorf("--data %s: %w", c.data, err)
	}
	name := filepath.Join(c.data, lockName)
	lock := flock.New(name)
	got, err := lock.TryLock()
	switch {
	case err != nil:
		return fmt.Errorf("--data %s: lock it for this process: %w", c.data, err)
	case !got:
		holder := "another process"
		if pid, err := os.ReadFile(name); err == nil && len(pid) > 0 {
			holder = "process " + strings.TrimSpace(string(pid))
		}
		return fmt.Errorf("--data %s is in use by %s, which holds %s: stop it first, or give this node a folder of its own", c.data, holder, name)
	}
	n.lock = lock
	// For the message above only; the lock holds without it.
	if err := os.WriteFile(name, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644); err != nil {
		return fmt.Errorf("--data %s: %w", c.data, err)
	}
	return nil
}

// wish is the number to register with. Zero: the lowest free one.
type wish struct {
	number commands.NodeID
	// previous is who had the number in this folder: it is not taken from anybody
	// else who lives under it, as when the folder is a copy of another node's.
	previous commands.Incarnation
}

// rememberedNode is what to register with: the flag's number, which is taken from
// whoever has it, else the one remembered, else none.
func rememberedNode(folder string, flag uint32) (wish, error) {
	if flag != 0 {
		return wish{number: commands.NodeID(flag)}, nil
	}
	name := filepath.Join(folder, nodeFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return wish{}, nil
	}
	if err != nil {
		return wish{}, fmt.Errorf("--data %s: read the node number: %w", folder, err)
	}
	if len(text) == 0 {
		return wish{}, nil // power was lost while it was written
	}
	w, ok := parseNode(string(text))
	if !ok {
		return wish{}, fmt.Errorf("--data: %s holds %q, which is no node number: delete it to be given one, or use --node-id", name, text)
	}
	return w, nil
}

// parseNode reads a number and, unless the file is of a start that wrote none, an
// incarnation.
func parseNode(text string) (w wish, ok bool) {
	fields := strings.Fields(text)
	if len(fields) < 1 || len(fields) > 2 {
		return w, false
	}
	n, err := strconv.ParseUint(fields[0], 10, 32)
	if err != nil || n == 0 {
		return w, false
	}
	w.number = commands.NodeID(n)
	if len(fields) == 2 {
		previous, err := hex.DecodeString(fields[1])
		if err != nil || len(previous) != len(w.previous) {
			return w, false
		}
		copy(w.previous[:], previous)
	}
	return w, true
}

// rememberNode writes down who this is for the next start. The folder is there
// unless log and bucket are elsewhere: those make theirs, and durably, which
// this need not be.
func rememberNode(folder string, node commands.NodeID, incarnation commands.Incarnation) error {
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return fmt.Errorf("--data %s: %w", folder, err)
	}
	name := filepath.Join(folder, nodeFile)
	temporary := name + ".new"
	if err := os.WriteFile(temporary, fmt.Appendf(nil, "%d %v\n", node, incarnation), 0o644); err != nil {
		return fmt.Errorf("--data %s: remember the node number: %w", folder, err)
	}
	if err := os.Rename(temporary, name); err != nil {
		return fmt.Errorf("--data %s: remember the node number: %w", folder, err)
	}
	return nil
}
