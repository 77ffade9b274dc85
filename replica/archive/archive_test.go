package archive_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/replica/archive"
	"github.com/picomq/picomq/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var rewrite = flag.Bool("rewrite", false, "write the golden object anew; bytes that were released must not change")

var cluster = commands.ClusterID{0xc1, 0xc2, 0xc3}

// rowsAfter makes n rows that follow a place, the same each time.
func rowsAfter(at commands.Position, n int) []commands.Row {
	rows := make([]commands.Row, n)
	for i := range rows {
		index := at.Index + 1
		rows[i] = commands.Row{
			Index: index, ID: -commands.RowID(index) * 7919, Previous: at.Row, DatabaseTime: 1_700_000_000_000 + stream.Time(index*index%17*1000),
			Payload: fmt.Appendf(nil, "the payload of row %d", index),
			Origin:  commands.Origin{Node: commands.NodeID(index % 3), Epoch: 1 << 40, Seq: uint64(index)},
			Summary: commands.Summary{Kinds: "commit 2 tick 1", Commands: 3, Appends: int(index)},
		}
		at = rows[i].Position()
	}
	return rows
}

func seal(t testing.TB, before archive.Link, rows []commands.Row) archive.Object {
	t.Helper()
	w, err := archive.NewWriter(cluster, before)
	require.NoError(t, err)
	for _, row := range rows {
		require.NoError(t, w.Add(row))
	}
	require.Equal(t, rows[len(rows)-1].Position(), w.Last())
	o, err := w.Seal()
	require.NoError(t, err)
	return o
}

// readAll reads an object to its end.
func readAll(r io.Reader) (archive.Header, []commands.Row, error) {
	o, err := archive.NewReader(r)
	if err != nil {
		return archive.Header{}, nil, err
	}
	defer func() { _ = o.Close() }() // closes nothing of r
	var rows []commands.Row
	for {
		row, err := o.Next()
		if errors.Is(err, io.EOF) {
			return o.Header(), rows, nil
		}
		if err != nil {
			return o.Header(), rows, err
		}
		rows = append(rows, row)
	}
}

func TestRowsComeBackAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var before archive.Link
		if index := rapid.Uint64Range(0, 1<<40).Draw(t, "before"); index > 0 {
			before = archive.Link{Last: commands.Position{Index: commands.Index(index), Row: 5}, Digest: commands.ArchiveDigest{9}}
		}
		at := before.Last
		var rows []commands.Row
		for range rapid.IntRange(1, 30).Draw(t, "rows") {
			row := commands.Row{
				Index: at.Index + 1, Previous: at.Row, ID: commands.RowID(rapid.Int64().Draw(t, "id") | 1),
				DatabaseTime: stream.Time(rapid.Int64().Draw(t, "time")),
				Payload:      rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "payload"),
				Origin: commands.Origin{
					Node:  commands.NodeID(rapid.Uint32().Draw(t, "node")),
					Epoch: commands.Epoch(rapid.Uint64().Draw(t, "epoch")), Seq: rapid.Uint64().Draw(t, "seq"),
				},
				Summary: commands.Summary{
					Kinds:    rapid.StringN(0, 40, 200).Draw(t, "kinds"),
					Commands: rapid.IntRange(0, math.MaxInt32).Draw(t, "commands"), Appends: rapid.IntRange(0, math.MaxInt32).Draw(t, "appends"),
				},
			}
			rows, at = append(rows, row), row.Position()
		}
		w, err := archive.NewWriter(cluster, before)
		require.NoError(t, err)
		for _, row := range rows {
			require.NoError(t, w.Add(row))
		}
		o, err := w.Seal()
		require.NoError(t, err)
		header, got, err := readAll(iotest.OneByteReader(bytes.NewReader(o.Bytes)))
		require.NoError(t, err)
		require.Equal(t, rows, got)
		require.Equal(t, o.Header, header)
		require.Equal(t, len(rows), header.Rows())
		for _, row := range rows {
			require.LessOrEqual(t, header.Earliest, row.DatabaseTime)
			require.GreaterOrEqual(t, header.Latest, row.DatabaseTime)
		}
	})
}

// The golden object must be read for ever. What is written today must hold the
// same, though another release of the compressor may write other bytes.
func TestGolden(t *testing.T) {
	before := archive.Link{Last: commands.Position{Index: 41, Row: 0x1122334455667788}, Digest: commands.ArchiveDigest{0xaa, 0xbb}}
	rows := rowsAfter(before.Last, 20)
	o := seal(t, before, rows)
	path := filepath.Join("testdata", "v1.hex")
	if *rewrite {
		require.NoError(t, os.WriteFile(path, []byte(hex.EncodeToString(o.Bytes)+"\n"), 0o600))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	golden, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	require.NoError(t, err)
	header, got, err := readAll(bytes.NewReader(golden))
	require.NoError(t, err)
	assert.Equal(t, rows, got)
	assert.Equal(t, o.Digest(), header.Digest(), "the digest is of what it holds")
	assert.Equal(t, "d87a", header.Digest().String()[:4])
	assert.Equal(t, "c1c2c300000000000000000000000000/0000/archive/000000000000002a-000000000000003d", header.Key())
	assert.Equal(t, golden[:152], o.Bytes[:152], "all of the header but how it was compressed")
}

// Every cut is found, and every spoiled byte, unless the rows come out right all
// the same: the compressor's own header has bits that say nothing.
func TestNothingDamagedIsBelieved(t *testing.T) {
	rows := rowsAfter(commands.Position{}, 12)
	object := seal(t, archive.Link{}, rows).Bytes
	for i := range object {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			spoiled := bytes.Clone(object)
			spoiled[i] ^= flip
			_, got, err := readAll(bytes.NewReader(spoiled))
			if err == nil && i >= archive.HeaderBytes {
				require.Equalf(t, rows, got, "byte %d", i)
				continue
			}
			require.Truef(t, errors.Is(err, archive.ErrDamaged) || errors.Is(err, archive.ErrVersion), "byte %d: %v", i, err)
		}
		_, _, err := readAll(bytes.NewReader(object[:i]))
		require.ErrorIsf(t, err, archive.ErrDamaged, "cut at %d", i)
	}
	_, _, err := readAll(bytes.NewReader(append(bytes.Clone(object), 0)))
	require.ErrorIs(t, err, archive.ErrDamaged)
	require.ErrorContains(t, err, "bytes follow")
}

func TestAFaultOfTheBucketIsNotDamage(t *testing.T) {
	object := seal(t, archive.Link{}, rowsAfter(commands.Position{}, 12)).Bytes
	gone := errors.New("the network is gone")
	for _, cut := range []int{0, 10, archive.HeaderBytes, len(object) - 5, len(object)} {
		_, _, err := readAll(io.MultiReader(bytes.NewReader(object[:cut]), iotest.ErrReader(gone)))
		require.ErrorIs(t, err, gone)
		require.NotErrorIs(t, err, archive.ErrDamaged)
	}
}

func TestWhatDoesNotFollowIsRefused(t *testing.T) {
	rows := rowsAfter(commands.Position{}, 4)
	w, err := archive.NewWriter(cluster, archive.Link{})
	require.NoError(t, err)
	_, err = w.Seal()
	require.ErrorContains(t, err, "no rows")
	require.NoError(t, w.Add(rows[0]))
	replaced := rows[1]
	replaced.Previous++
	unnamed, empty, huge := rows[1], rows[1], rows[1]
	unnamed.ID, empty.Payload, huge.Payload = 0, nil, make([]byte, commands.MaxPayload+1)
	for _, row := range []commands.Row{rows[0], rows[2], replaced, unnamed, empty, huge} {
		require.Error(t, w.Add(row))
	}
	require.NoError(t, w.Add(rows[1]))
	o, err := w.Seal()
	require.NoError(t, err)
	_, got, err := readAll(bytes.NewReader(o.Bytes))
	require.NoError(t, err)
	assert.Equal(t, rows[:2], got)
}

func TestAnObjectIsFullByBytesOrTime(t *testing.T) {
	row := rowsAfter(commands.Position{}, 1)[0]
	follow := func(row commands.Row, payload int, age time.Duration) commands.Row {
		return commands.Row{
			Index: row.Index + 1, ID: row.ID + 1, Previous: row.ID, Payload: make([]byte, payload),
			DatabaseTime: row.DatabaseTime + stream.Time(age.Milliseconds()),
		}
	}
	w, err := archive.NewWriter(cluster, archive.Link{})
	require.NoError(t, err)
	row.Payload = make([]byte, commands.MaxPayload)
	assert.True(t, w.Fits(row), "the first always does")
	require.NoError(t, w.Add(row))
	assert.False(t, w.Fits(follow(row, 1, 0)))

	w, err = archive.NewWriter(cluster, archive.Link{})
	require.NoError(t, err)
	row.Payload = []byte("small")
	require.NoError(t, w.Add(row))
	assert.True(t, w.Fits(follow(row, archive.FullBytes-5, archive.FullTime)))
	assert.False(t, w.Fits(follow(row, archive.FullBytes-4, 0)))
	assert.False(t, w.Fits(follow(row, 1, archive.FullTime+time.Millisecond)))
}

func FuzzReader(f *testing.F) {
	object := seal(f, archive.Link{}, rowsAfter(commands.Position{}, 5)).Bytes
	f.Add(object)
	f.Add(object[:archive.HeaderBytes])
	f.Add(object[:len(object)-3])
	f.Fuzz(func(t *testing.T, data []byte) {
		header, rows, err := readAll(bytes.NewReader(data))
		if err != nil {
			require.True(t, errors.Is(err, archive.ErrDamaged) || errors.Is(err, archive.ErrVersion), err)
			return
		}
		again := seal(t, header.Before, rows)
		again.Cluster = header.Cluster
		require.Equal(t, header.Digest(), again.Digest())
	})
}
