package sqllog_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog"
)

// appendForever is the child: it appends rows and prints "index row-id" for
// each that was acknowledged.
func appendForever(path string) error {
	ctx := context.Background()
	l, err := sqllog.Open(ctx, "sqlite://"+path, sqllog.Options{Timeout: patience})
	if err != nil {
		return err
	}
	head, err := l.Head(ctx)
	if err != nil {
		return err
	}
	for seq := uint64(head.Index) + 1; ; seq++ {
		at, err := l.Append(ctx, commands.Insert{
			Origin:  commands.Origin{Node: 1, Epoch: 1, Seq: seq},
			Payload: fmt.Appendf(nil, "payload %d", seq),
			Applied: head,
		})
		if err != nil {
			return err
		}
		head = at.Position
		if _, err := fmt.Printf("%d %d\n", at.Index, at.Row); err != nil {
			return err
		}
	}
}

// child is a process that appends.
type child struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func startChild(t *testing.T, path string) child {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childVariable+"=append", childArgument+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return child{Cmd: cmd, lines: bufio.NewScanner(out)}
}

// acknowledged reads n acknowledgements.
func (c child) acknowledged(t *testing.T, n int) []commands.Position {
	t.Helper()
	var list []commands.Position
	for range n {
		require.True(t, c.lines.Scan(), "the child ended")
		list = append(list, parsePosition(t, c.lines.Text()))
	}
	return list
}

func parsePosition(t *testing.T, line string) commands.Position {
	t.Helper()
	var p commands.Position
	_, err := fmt.Sscanf(line, "%d %d", &p.Index, &p.Row)
	require.NoError(t, err, line)
	return p
}

// kill is kill -9. What the child printed before it died is returned.
func (c child) kill(t *testing.T) []commands.Position {
	t.Helper()
	require.NoError(t, c.Process.Kill())
	var list []commands.Position
	for c.lines.Scan() {
		list = append(list, parsePosition(t, c.lines.Text()))
	}
	_ = c.Wait() // says that it was killed
	return list
}

func TestSQLiteKeepsWhatAKilledProcessAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	var acknowledged []commands.Position
	for range 4 {
		c := startChild(t, path)
		acknowledged = append(acknowledged, c.acknowledged(t, 30)...)
		acknowledged = append(acknowledged, c.kill(t)...)

		l, err := sqllog.Open(t.Context(), "sqlite://"+path, sqllog.Options{Timeout: patience})
		require.NoError(t, err, "the lock went with the process")
		rows, err := l.Read(t.Context(), 0, 1<<20, 1<<30)
		require.NoError(t, err)
		for _, p := range acknowledged {
			require.Equal(t, p, rows[p.Index-1].Position())
		}
		for i, row := range rows {
			require.Equal(t, fmt.Sprintf("payload %d", i+1), string(row.Payload), "every one is there once, in order")
		}
		// A row that was committed and not acknowledged may be the last.
		assert.LessOrEqual(t, len(rows), int(acknowledged[len(acknowledged)-1].Index)+1)
		if extra := rows[len(acknowledged):]; len(extra) > 0 {
			acknowledged = append(acknowledged, extra[0].Position())
		}
		require.NoError(t, l.Close())
	}
}

func TestSQLiteRefusesASecondProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	c := startChild(t, path)
	c.acknowledged(t, 1)
	_, err := sqllog.Open(t.Context(), "sqlite://"+path, sqllog.Options{Timeout: patience})
	require.ErrorContains(t, err, path+" is in use by process "+fmt.Sprint(c.Process.Pid))
	require.ErrorContains(t, err, path+".lock")

	link := filepath.Join(t.TempDir(), "other.db")
	require.NoError(t, os.Symlink(path, link))
	_, err = sqllog.Open(t.Context(), "sqlite://"+link, sqllog.Options{Timeout: patience})
	require.ErrorContains(t, err, "in use", "by another name too")

	c.acknowledged(t, 1) // it was not disturbed
	c.kill(t)
	openSQLite(t, path)
}

func TestSQLiteRefusesASecondLogInTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	first, err := sqllog.Open(t.Context(), "sqlite://"+path, sqllog.Options{Timeout: patience})
	require.NoError(t, err)
	_, err = sqllog.Open(t.Context(), "sqlite://"+path, sqllog.Options{Timeout: patience})
	require.ErrorContains(t, err, "in use")
	assert.Equal(t, 1, strings.Count(err.Error(), "\n")+1, "one line")
	require.NoError(t, first.Close())
	openSQLite(t, path)
}
