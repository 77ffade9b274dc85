package commands_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files from the values in this file; bytes that were released must not change")

// golden is a payload whose bytes are kept for ever in testdata/golden.
type golden struct {
	file    string
	story   string
	payload commands.Payload
}

var (
	cluster     = commands.ClusterID{0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0}
	incarnation = commands.Incarnation{0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f, 0x20}
)

// one is a payload with one proposal: node 3, epoch 17, sequence 5.
func one(cmds ...commands.Command) commands.Payload {
	return commands.Payload{
		Clock: 1_700_000_000_000,
		Proposals: []commands.Proposal{{
			Origin:   commands.Origin{Node: 3, Epoch: 17, Seq: 5},
			Commands: cmds,
		}},
	}
}

func ptr[T any](v T) *T { return &v }

// goldens is every kind at every version, each with all fields and with none.
func goldens() []golden {
	registration := commands.Payload{
		Clock: 1_700_000_000_000,
		Proposals: []commands.Proposal{{
			Origin: commands.RegistrationOrigin(incarnation),
			Commands: []commands.Command{&commands.RegisterNode{
				Cluster: cluster, Node: 3, Incarnation: incarnation,
				Address: "http://10.0.0.3:4437", Level: 1, Release: "v1.0.0",
			}},
		}},
	}
	appends := []commands.Append{
		{ID: stream.MakeID(0, 1000), Records: 3, Bytes: 120},
		{ID: stream.MakeID(0, 998), Records: 1, Bytes: 300, HasProducer: true, Producer: stream.Producer{ID: "pump-7", Epoch: 2, Seq: 41}},
		{
			Create: &commands.Create{
				Name:   "logs/api/prod",
				Config: stream.Config{ContentType: "text/plain; charset=utf-8", Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 3600}},
			},
			Records: 2, Bytes: 64,
		},
		{
			ID: stream.MakeID(0, 998), Records: 1, Bytes: 7, Close: true,
			HasProducer: true, Producer: stream.Producer{ID: "pump-7", Epoch: 2, Seq: 42},
			HasMatch: true, Match: 500, HasStreamSeq: true, StreamSeq: []byte("0042"),
		},
	}
	return []golden{
		{"00-empty", "A row without proposals: the format and nothing else.", commands.Payload{}},
		{"00-groups", "Two proposals of two nodes in one row; a clock before 1970.", commands.Payload{
			Clock: -1,
			Proposals: []commands.Proposal{
				{Origin: commands.Origin{Node: 1, Epoch: 1, Seq: 1 << 40}, Commands: []commands.Command{&commands.Tick{}, &commands.Tick{}}},
				{Origin: commands.Origin{Node: 2, Epoch: 2, Seq: 1}, Commands: []commands.Command{&commands.Delete{ID: stream.MakeID(1, 7)}}},
			},
		}},
		{"01-register-v1", "A node registers, asking for number 3. Its origin is made from its incarnation.", registration},
		{"01-register-v1-bare", "A registration with every field zero.", one(&commands.RegisterNode{})},
		{"02-commit-v1", "Four appends: plain; with a producer; one that creates its stream; one that closes under every condition.", one(
			commands.NewCommitSegment(9, 4096, appends, []uint64{7, 8}))},
		{"02-commit-v1-bare", "A commit without appends, which only gives sequence 8 up.", one(commands.NewCommitSegment(9, 0, nil, []uint64{8}))},
		{"02-commit-v1-fork", "An append that creates its stream as a fork: it has two records of its own beyond its parent's first 500.", one(
			commands.NewCommitSegment(9, 4096, []commands.Append{
				{ID: stream.MakeID(0, 998), Records: 1, Bytes: 7},
				{
					Create:  &commands.Create{Name: "a/fork", Fork: &commands.Fork{Parent: stream.MakeID(0, 998), At: ptr(stream.Offset(500))}},
					Records: 2, Bytes: 64, HasMatch: true, Match: 500,
				},
			}, nil))},
		{"03-create-v1", "A closed stream that expires at an instant.", one(&commands.Create{
			Name:   "a/ü",
			Config: stream.Config{ContentType: "application/json", Expiry: stream.Expiry{Kind: stream.ExpiresAt, At: 1_800_000_000_123}},
			Closed: true,
		})},
		{"03-create-v1-bare", "A stream that stays.", one(&commands.Create{Name: "a"})},
		{"03-create-v1-fork", "A fork that ends seven bytes inside its parent's record 70000, with a type and an expiry of its own.", one(&commands.Create{
			Name:   "a/fork",
			Config: stream.Config{ContentType: "text/plain", Expiry: stream.Expiry{Kind: stream.ExpiresIdle, TTL: 60}},
			Fork:   &commands.Fork{Parent: stream.MakeID(0, 300), At: ptr(stream.Offset(70_000)), Sub: 7, Cut: 7},
		})},
		{"03-create-v1-fork-start", "A fork offset that is present and zero differs from one that is absent; three messages beyond it.", one(&commands.Create{
			Name: "a", Fork: &commands.Fork{Parent: 5, At: ptr(stream.Offset(0)), Sub: 3},
		})},
		{"03-create-v1-fork-bare", "A fork at its parent's tail that inherits all there is.", one(&commands.Create{Name: "a", Fork: &commands.Fork{Parent: 5}})},
		{"04-close-v1", "A close under every condition.", one(&commands.Close{
			ID: stream.MakeID(0, 5), Producer: &stream.Producer{ID: "p", Epoch: 1, Seq: 2}, Match: ptr(stream.Offset(10)), StreamSeq: ptr("z"),
		})},
		{"04-close-v1-zeros", "Conditions that are present and zero differ from conditions that are absent.", one(&commands.Close{
			ID: stream.MakeID(0, 5), Producer: &stream.Producer{}, Match: ptr(stream.Offset(0)), StreamSeq: ptr(""),
		})},
		{"04-close-v1-bare", "A close without conditions.", one(&commands.Close{ID: stream.MakeID(0, 5)})},
		{"04-close-v1-bytes", "Strings that are not UTF-8 are byte strings.", one(&commands.Close{
			ID: stream.MakeID(0, 5), Producer: &stream.Producer{ID: "caf\xe9", Epoch: 1, Seq: 2}, StreamSeq: ptr("\xff"),
		})},
		{"05-trim-v1", "Everything below 70000 goes.", one(&commands.Trim{ID: stream.MakeID(0, 5), To: 70_000})},
		{"06-delete-v1", "The largest stream number of the largest log.", one(&commands.Delete{ID: stream.MakeID(65535, 1<<48-1)})},
		{"07-touch-v1", "Three streams were read.", one(&commands.Touch{IDs: []stream.ID{1, 24, 256}})},
		{"08-expire-v1", "Two streams may be past their deadline.", one(&commands.Expire{IDs: []stream.ID{65_536, 1 << 32}})},
		{"09-tick-v1", "Time moves.", one(&commands.Tick{})},
		{"10-checkpoint-v1", "The state after entry 300 has this digest.", one(&commands.Checkpoint{At: 300, Digest: 0x0123456789abcdef})},
		{"05-trim-v1-upkeep", "Retention trims; the idle deadline goes on.", one(&commands.Trim{ID: 5, To: 7, Upkeep: true})},
		{"12-doom-v1", "Three segments that nothing refers to.", one(&commands.Doom{Slots: []uint32{0, 300, 1<<32 - 1}})},
		{"13-collected-v1", "Their objects are gone.", one(&commands.Collected{Slots: []uint32{0, 300}})},
		{"14-pack-v1", "A packed segment of level 2, with records of one minute; sequence 8 is given up.", one(&commands.Pack{
			Sequence: 9, Size: 1 << 25, Level: 2, Oldest: 1_700_000_000_000, Newest: 1_700_000_060_000, First: 7, Last: 9, GivenUp: []uint64{8},
		})},
		{"15-swap-v1", "Two runs: three pieces of stream 7; a fork's one piece, cut, that lies before them.", one(commands.NewSwap(300, 9, []commands.Run{
			{ID: 7, First: 40, Ordinal: 100, Bytes: 2000, Pieces: []commands.Piece{{Slot: 5, Ordinal: 0, Count: 3}, {Slot: 6, Ordinal: 9, Count: 1}, {Slot: 2, Ordinal: 70_000, Count: 20}}},
			{ID: 9, First: 42, Ordinal: 99, Bytes: 5, Pieces: []commands.Piece{{Slot: 6, Ordinal: 9, Count: 1, Cut: true}}},
		}))},
		{"15-swap-v1-bare", "A swap of nothing.", one(commands.NewSwap(0, 0, nil))},
		{"03-create-v1-retention", "A stream that keeps a day, and at most a megabyte.", one(&commands.Create{
			Name: "a", Config: stream.Config{Retention: stream.Retention{Age: 86_400, Bytes: 1 << 20}},
		})},
		{"01-register-v1-previous", "A node registers again, and wants its number only if nobody else lives under it.", commands.Payload{
			Proposals: []commands.Proposal{{
				Origin:   commands.RegistrationOrigin(incarnation),
				Commands: []commands.Command{&commands.RegisterNode{Node: 3, Incarnation: incarnation, Previous: commands.Incarnation{0x21, 0x22}}},
			}},
		}},
		{"16-depart-v1", "Node 300, which registered at row 70000, is gone.", one(&commands.Depart{Node: 300, Epoch: 70_000})},
		{"11-activate-v1", "Feature level 2 is switched on.", one(&commands.Activate{Level: 2, Release: "v1.4.0"})},
	}
}

// TestGoldenBytes holds the wire form: what a release wrote, every later one
// writes and reads.
func TestGoldenBytes(t *testing.T) {
	covered := map[commands.Kind]bool{}
	for _, g := range goldens() {
		t.Run(g.file, func(t *testing.T) {
			path := filepath.Join("testdata", "golden", g.file+".hex")
			encoded := g.payload.Encode()
			if *rewrite {
				require.NoError(t, os.WriteFile(path, renderGolden(t, g.story, encoded), 0o644))
			}
			want := readGolden(t, path)
			require.Equal(t, hex.EncodeToString(want), hex.EncodeToString(encoded), "released bytes changed: make a new version instead")

			decoded, err := commands.DecodePayload(want)
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(g.payload, decoded))
		})
		for _, p := range g.payload.Proposals {
			for _, c := range p.Commands {
				covered[c.Kind()] = true
			}
		}
	}
	for k := range 256 {
		kind := commands.Kind(k)
		known := !strings.HasPrefix(kind.String(), "kind_")
		require.Equal(t, known, covered[kind], "kind %v: every kind has a golden file", kind)
	}
}

// TestGoldenFilesAreAllUsed notices a golden file that no test reads any more.
func TestGoldenFilesAreAllUsed(t *testing.T) {
	used := map[string]bool{}
	for _, g := range goldens() {
		used[g.file+".hex"] = true
	}
	files, err := os.ReadDir(filepath.Join("testdata", "golden"))
	require.NoError(t, err)
	for _, f := range files {
		require.True(t, used[f.Name()], "testdata/golden/%s is read by no test", f.Name())
	}
}

// renderGolden is a golden file: the story and the value in CBOR's diagnostic
// notation as comments, then the bytes.
func renderGolden(t *testing.T, story string, encoded []byte) []byte {
	var out strings.Builder
	fmt.Fprintf(&out, "# %s\n#\n", story)
	for line := range strings.Lines(diagnose(t, encoded)) {
		fmt.Fprintf(&out, "# %s", line)
	}
	out.WriteString("\n")
	for rest := encoded; len(rest) > 0; {
		n := min(32, len(rest))
		fmt.Fprintf(&out, "%x\n", rest[:n])
		rest = rest[n:]
	}
	return []byte(out.String())
}

func readGolden(t testing.TB, path string) []byte {
	t.Helper()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	var digits strings.Builder
	for line := range strings.Lines(string(file)) {
		if !strings.HasPrefix(line, "#") {
			digits.WriteString(strings.TrimSpace(line))
		}
	}
	data, err := hex.DecodeString(digits.String())
	require.NoError(t, err)
	return data
}

// allGolden is the bytes of every golden file.
func allGolden(t testing.TB) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, g := range goldens() {
		out[g.file] = readGolden(t, filepath.Join("testdata", "golden", g.file+".hex"))
	}
	return out
}
