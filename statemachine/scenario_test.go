package statemachine

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/stream"
)

var rewrite = flag.Bool("rewrite", false, "write the scenarios' expected output anew")

// TestScenarios runs the scripts in testdata. A script is blocks apart by empty
// lines: lines of one entry, a line "----", and what it did. Lines that begin
// with # say why.
//
//	at <ms> [clock=<ms>]                      the entry's times; as before when left out
//	from <node>/<epoch>/<seq>                 a proposal of this origin; without it, the next of node 1
//	register <incarnation> [node= previous= level= cluster= release=]
//	depart <node> <epoch>
//	commit <sequence> [given-up=<n>,…]        then indented, its appends:
//	  append <id> | append new <name> [type= ttl= at= closed fork= …]
//	         [records= bytes= producer=<id>/<epoch>/<seq> match= stream-seq= close]
//	create <name> [type= ttl= at= closed retention=<age>/<bytes>] [fork=<parent's id> fork-at= sub= cut=]
//	close <id> [producer= match= stream-seq=]
//	trim <id> <offset> [upkeep], delete <id>, touch <id>…, expire <id>…, tick, activate <level> [release=]
//	doom <slot>…, collected <slot>…
//	pack <sequence> [size= level= oldest= newest= first= last= given-up=<n>,…]
//	swap <slot> <sequence>                    then indented, its runs; a piece is in a slot, from a record on:
//	  run <id> <first> at <record> [bytes=] <slot>:<record>+<count>… | <slot>:<record>+cut
//	checkpoint <index> <digest>               right or wrong
//	skip <n>                                  n entries of one tick each, first
//	dump                                      the whole state; alone in its block
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			require.NoError(t, err)
			got := (&scenario{t: t, s: New()}).run(string(script))
			if *rewrite {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
				return
			}
			assert.Equal(t, string(script), got)
		})
	}
}

// scenario is a script being run.
type scenario struct {
	t         *testing.T
	s         *State
	at, clock int64
}

// run is the script with the output that it gives now.
func (x *scenario) run(script string) string {
	var out []string
	for block := range strings.SplitSeq(strings.TrimSpace(script), "\n\n") {
		input, _, isEntry := strings.Cut(block, "----")
		if isEntry {
			block = input + "----\n" + x.block(input)
		}
		out = append(out, strings.TrimRight(block, "\n"))
	}
	return strings.Join(out, "\n\n") + "\n"
}

// block applies one entry, or dumps.
func (x *scenario) block(input string) string {
	var lines []line
	for text := range strings.SplitSeq(input, "\n") {
		if strings.TrimSpace(text) != "" && !strings.HasPrefix(text, "#") {
			lines = append(lines, parse(text))
		}
	}
	if lines[0].verb == "dump" {
		return x.s.dump()
	}
	e := &commands.Entry{}
	for len(lines) > 0 {
		lines = x.command(e, lines)
	}
	e.Index = x.s.Index() + 1
	e.DatabaseTime, e.Clock = stream.Time(x.at), stream.Time(x.clock)
	out := x.s.Apply(e)
	assert.Equal(x.t, x.s.items, x.s.recompute(), "the digest kept is not the digest of the state")
	return printOutcome(e, out)
}

// line is a verb, its words and its key=value words.
type line struct {
	verb  string
	words []string
	keys  map[string]string
}

func parse(text string) line {
	l := line{keys: map[string]string{}}
	for i, word := range strings.Fields(text) {
		key, value, isKey := strings.Cut(word, "=")
		switch {
		case i == 0:
			l.verb = word
		case isKey:
			l.keys[key] = value
		case word == "close" || word == "closed":
			l.keys[word] = word
		default:
			l.words = append(l.words, word)
		}
	}
	return l
}

func (x *scenario) number(text string) uint64 {
	if text == "" {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(x.t, err)
	return uint64(n)
}

// command reads the lines of one command and returns the rest.
func (x *scenario) command(e *commands.Entry, lines []line) []line {
	l, rest := lines[0], lines[1:]
	word := func(i int) string { return append(l.words, "", "")[i] }
	id := stream.ID(0)
	if l.verb != "at" && l.verb != "from" && l.verb != "register" && l.verb != "create" {
		n, _ := strconv.ParseUint(word(0), 10, 64)
		id = stream.ID(n)
	}
	switch l.verb {
	case "at":
		x.at = int64(x.number(word(0)))
		x.clock = x.at
		if clock := l.keys["clock"]; clock != "" {
			x.clock = int64(x.number(clock))
		}
	case "skip":
		for range id {
			x.s.Apply(&commands.Entry{Index: x.s.Index() + 1, DatabaseTime: stream.Time(x.at), Payload: commands.Payload{Clock: stream.Time(x.at)}})
		}
	case "from":
		parts := strings.Split(word(0), "/")
		e.Proposals = append(e.Proposals, commands.Proposal{Origin: commands.Origin{
			Node: commands.NodeID(x.number(parts[0])), Epoch: commands.Epoch(x.number(parts[1])), Seq: x.number(parts[2]),
		}})
	case "register":
		m := &commands.RegisterNode{
			Cluster: commands.ClusterID{byte(x.number(l.keys["cluster"]))}, Node: commands.NodeID(x.number(l.keys["node"])),
			Level: max(1, uint32(x.number(l.keys["level"]))), Release: l.keys["release"],
		}
		copy(m.Incarnation[:], word(0))
		copy(m.Previous[:], l.keys["previous"])
		if l.keys["level"] == "0" {
			m.Level = 0
		}
		e.Proposals = append(e.Proposals, commands.Proposal{
			Origin: commands.RegistrationOrigin(m.Incarnation), Commands: []commands.Command{m},
		})
	case "commit":
		return x.commit(e, l, rest)
	case "create":
		x.add(e, x.create(word(0), l))
	case "close":
		a := x.request(l)
		m := &commands.Close{ID: id}
		if a.HasProducer {
			m.Producer = &a.Producer
		}
		if a.HasMatch {
			m.Match = &a.Match
		}
		if a.HasStreamSeq {
			value := string(a.StreamSeq)
			m.StreamSeq = &value
		}
		x.add(e, m)
	case "trim":
		x.add(e, &commands.Trim{ID: id, To: stream.Offset(x.number(word(1))), Upkeep: len(l.words) > 2})
	case "doom":
		x.add(e, &commands.Doom{Slots: x.slots(l.words)})
	case "collected":
		x.add(e, &commands.Collected{Slots: x.slots(l.words)})
	case "pack":
		x.add(e, x.pack(l))
	case "swap":
		return x.swap(e, l, rest)
	case "delete":
		x.add(e, &commands.Delete{ID: id})
	case "touch":
		x.add(e, &commands.Touch{IDs: x.ids(l.words)})
	case "expire":
		x.add(e, &commands.Expire{IDs: x.ids(l.words)})
	case "tick":
		x.add(e, &commands.Tick{})
	case "depart":
		x.add(e, &commands.Depart{Node: commands.NodeID(id), Epoch: commands.Epoch(x.number(word(1)))})
	case "activate":
		x.add(e, &commands.Activate{Level: uint32(id), Release: l.keys["release"]})
	case "checkpoint":
		m := &commands.Checkpoint{At: commands.Index(id), Digest: 1}
		if i := slices.IndexFunc(x.s.ring.list, func(c checkpoint) bool { return c.at == m.At }); i >= 0 && word(1) == "right" {
			m.Digest = x.s.ring.list[i].digest
		}
		x.add(e, m)
	default:
		x.t.Fatalf("unknown line %q", l.verb)
	}
	return rest
}

// add puts a command into the entry's last proposal, or into one of node 1.
func (x *scenario) add(e *commands.Entry, c commands.Command) {
	if last := len(e.Proposals) - 1; last < 0 || e.Proposals[last].Origin.Node == 0 {
		n, _ := x.s.nodes.find(1)
		require.NotNil(x.t, n, "node 1 is not registered")
		e.Proposals = append(e.Proposals, commands.Proposal{Origin: commands.Origin{Node: 1, Epoch: n.Epoch, Seq: n.LastSeq + 1}})
	}
	last := &e.Proposals[len(e.Proposals)-1]
	last.Commands = append(last.Commands, c)
}

func (x *scenario) ids(words []string) (ids []stream.ID) {
	for _, w := range words {
		ids = append(ids, stream.ID(x.number(w)))
	}
	return ids
}

func (x *scenario) create(name string, l line) *commands.Create {
	m := &commands.Create{Name: stream.Name(name), Closed: l.keys["closed"] != ""}
	m.Config.ContentType = l.keys["type"]
	if ttl, ok := l.keys["ttl"]; ok {
		m.Config.Expiry = stream.Expiry{Kind: stream.ExpiresIdle, TTL: x.number(ttl)}
	}
	if at, ok := l.keys["at"]; ok {
		m.Config.Expiry = stream.Expiry{Kind: stream.ExpiresAt, At: stream.Time(x.number(at))}
	}
	if keep, ok := l.keys["retention"]; ok {
		age, bytes, _ := strings.Cut(keep, "/")
		m.Config.Retention = stream.Retention{Age: x.number(age), Bytes: x.number(bytes)}
	}
	if parent, ok := l.keys["fork"]; ok {
		m.Fork = &commands.Fork{Parent: stream.ID(x.number(parent)), Sub: x.number(l.keys["sub"]), Cut: uint32(x.number(l.keys["cut"]))}
		if at, ok := l.keys["fork-at"]; ok {
			offset := stream.Offset(x.number(at))
			m.Fork.At = &offset
		}
	}
	return m
}

func (x *scenario) request(l line) commands.Append {
	var a commands.Append
	if producer, ok := l.keys["producer"]; ok {
		parts := strings.Split(producer, "/")
		a.HasProducer = true
		a.Producer = stream.Producer{ID: parts[0], Epoch: x.number(parts[1]), Seq: x.number(parts[2])}
	}
	if match, ok := l.keys["match"]; ok {
		a.HasMatch, a.Match = true, stream.Offset(x.number(match))
	}
	if value, ok := l.keys["stream-seq"]; ok {
		a.HasStreamSeq, a.StreamSeq = true, []byte(value)
	}
	return a
}

func (x *scenario) commit(e *commands.Entry, l line, rest []line) []line {
	var appends []commands.Append
	for len(rest) > 0 && rest[0].verb == "append" {
		a, words := x.request(rest[0]), rest[0].words
		if words[0] == "new" {
			a.Create = x.create(words[1], rest[0])
		} else {
			a.ID = stream.ID(x.number(words[0]))
		}
		a.Records = max(1, uint32(x.number(rest[0].keys["records"])))
		a.Bytes = 10 * uint64(a.Records)
		if bytes, ok := rest[0].keys["bytes"]; ok {
			a.Bytes = x.number(bytes)
		}
		a.Close = rest[0].keys["close"] != ""
		appends = append(appends, a)
		rest = rest[1:]
	}
	x.add(e, commands.NewCommitSegment(x.number(l.words[0]), 1000, appends, x.givenUp(l)))
	return rest
}

// printOutcome prints what an entry did, one line a command or append.
func printOutcome(e *commands.Entry, out *Outcome) string {
	var b strings.Builder
	for i, p := range out.Proposals {
		if p.Status != Applied {
			fmt.Fprintf(&b, "%s\n", p.Status)
		}
		for j, r := range p.Results {
			fmt.Fprintf(&b, "%s %s", e.Proposals[i].Commands[j].Kind(), printAnswer(r.AppendResult))
			switch {
			case r.Node != 0:
				fmt.Fprintf(&b, " node %d epoch %d", r.Node, r.Epoch)
			case r.Removed != 0:
				fmt.Fprintf(&b, " removed %d", r.Removed)
			case len(r.Appends) > 0, r.Verdict == Accepted && e.Proposals[i].Commands[j].Kind() == commands.KindPack:
				fmt.Fprintf(&b, " segment %d", r.Segment)
			}
			b.WriteByte('\n')
			for _, a := range r.Appends {
				fmt.Fprintf(&b, "  %s\n", printAnswer(a))
			}
		}
	}
	if len(out.Changed) > 0 {
		fmt.Fprintf(&b, "changed %d\n", out.Changed)
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}

func printAnswer(a AppendResult) string {
	text := a.Verdict.String()
	if a.ID != 0 {
		text += fmt.Sprintf(" stream %d [%d,%d)", a.ID, a.Start, a.Tail)
	}
	if a.Closed {
		text += " closed"
	}
	if a.FirstKnown {
		text += fmt.Sprintf(" first %d", a.First)
	}
	switch a.Verdict {
	case Duplicate, FencedProducer, EpochStart:
		text += fmt.Sprintf(" producer %d/%d", a.ProducerEpoch, a.ProducerSeq)
	case SequenceGap:
		text += fmt.Sprintf(" expected %d", a.ExpectedSeq)
	default:
	}
	return text
}
