package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

// TestForkTour: a chat is edited and resent, and looked at afterwards.
func TestForkTour(t *testing.T) {
	s := newShell(t)
	s.ok("", "create", "chats/42", "--content-type", "text/plain", "--ttl", "1h")
	s.ok("hello\nhi\nhow old is it?\nfour\n", "append", "chats/42")

	require.Equal(t, result{err: "picomq: forked chats/42-b from chats/42, next is 2\n"}, s.run("", "fork", "chats/42", "/chats/42-b", "--at", "2"))
	s.ok("how large is it?\n", "append", "chats/42-b")
	require.Equal(t, "hello\nhi\nhow large is it?\n", s.ok("", "read", "chats/42-b"))
	require.Equal(t, "hello\nhi\nhow old is it?\nfour\n", s.ok("", "read", "chats/42"))
	require.Equal(t, result{err: "picomq: chats/42-b exists as this fork of chats/42, next is 3\n"}, s.run("", "fork", "chats/42", "chats/42-b", "--at", "2"))

	require.Equal(t, ""+
		"name     chats/42-b\n"+
		"type     text/plain\n"+
		"start    0\n"+
		"next     3\n"+
		"state    open\n"+
		"expires  1h0m0s idle\n"+
		"forked   from chats/42 at 2\n", s.ok("", "head", "chats/42-b"))
	require.JSONEq(t, `{"name":"chats/42-b","content_type":"text/plain","start_seq":0,"next_seq":3,"closed":false,"ttl":3600,
		"fork":{"from":"chats/42","seq":2}}`, s.ok("", "head", "--json", "chats/42-b"))
	require.Contains(t, s.ok("", "head", "chats/42"), "\nforks    1\n")
	require.JSONEq(t, `{"name":"chats/42","content_type":"text/plain","start_seq":0,"next_seq":4,"closed":false,"ttl":3600,"live_forks":1}`,
		s.ok("", "head", "--json", "chats/42"))

	s.ok("", "delete", "chats/42")
	for _, verb := range []string{"read", "tail", "head", "close", "delete", "append"} {
		s.fails(1, `"chats/42" was deleted`, verb, "chats/42")
	}
	s.fails(1, `"chats/42" was deleted`, "create", "chats/42")
	s.fails(1, `"chats/42" was deleted`, "fork", "chats/42", "other")
	require.Equal(t, "chats/42-b\n", s.ok("", "ls"))
	require.Equal(t, "hello\nhi\nhow large is it?\n", s.ok("", "read", "chats/42-b"))
	s.ok("", "delete", "chats/42-b")
	s.ok("", "create", "chats/42")
}

// TestForkPositions: the end unless --at says otherwise.
func TestForkPositions(t *testing.T) {
	for _, protocol := range []string{"pico", "ds"} {
		s := newShell(t, "--protocol", protocol)
		s.ok("1\n2\n3\n", "append", "--create", "--content-type", "application/json", "a")
		for at, want := range map[string]string{"now": "1\n2\n3\n", "-1": "1\n2\n", "2": "1\n2\n", "0": "", "-7": "", "0000000000000000_0000000000000001": "1\n"} {
			name := "at" + at
			s.ok("", "fork", "a", name, "--at", at)
			require.Equal(t, want, s.ok("", "read", name), "%s %s", protocol, at)
		}
		s.ok("", "fork", "a", "whole")
		require.Equal(t, "1\n2\n3\n", s.ok("", "read", "whole"))
		s.ok("4\n", "append", "a")
		require.Contains(t, s.run("", "fork", "a", "whole").err, "whole exists as this fork of a", "also when the parent has grown")
	}
	s := newShell(t)
	s.ok("1\n2\n3\n", "append", "--create", "a")
	s.ok("", "trim", "a", "2")
	s.ok("", "fork", "a", "b", "--at", "start")
	require.Contains(t, s.ok("", "head", "b"), "start   2\nnext    2\n")
}

// TestForkOptions: what create has, a fork can have too; the rest is its
// parent's.
func TestForkOptions(t *testing.T) {
	s := newShell(t)
	s.ok("1\n2\n", "append", "--create", "a")
	require.JSONEq(t, `{"name":"b","new":true,"next_seq":1,"closed":true}`,
		s.ok("", "fork", "a", "b", "--at", "1", "--closed", "--ttl", "10s", "--json"))
	require.JSONEq(t, `{"name":"b","new":false,"next_seq":1,"closed":true}`,
		s.ok("", "fork", "a", "b", "--at", "1", "--closed", "--ttl", "10s", "--json"))
	require.Contains(t, s.ok("", "head", "b"), "type     text/plain\nstart    0\nnext     1\nstate    closed\nexpires  10s idle\n")
	s.ok("", "fork", "a", "c", "--expires-at", "2031-01-01T00:00:00Z")
	require.Contains(t, s.ok("", "head", "c"), "expires  2031-01-01T00:00:00Z\n")
	require.JSONEq(t, `{"name":"d","new":true,"next_seq":0,"closed":false}`, s.ok("", "create", "--json", "d"))
	require.JSONEq(t, `{"name":"e","new":true,"next_seq":2,"next_offset":"0000000000000000_0000000000000002","closed":false}`,
		s.with("--protocol", "ds").ok("", "fork", "--json", "a", "e"))
}

// TestSubOffsets are shown, whichever protocol made them.
func TestSubOffsets(t *testing.T) {
	s := newShell(t)
	s.ok("hello\nworld\n", "append", "--create", "a")
	s.ok("1\n2\n3\n", "append", "--create", "--content-type", "application/json", "j")
	c, err := client.New(s.server.URL, client.Options{Protocol: client.DurableStreams})
	require.NoError(t, err)
	defer c.CloseIdleConnections()
	for name, f := range map[stream.Name]client.ForkRequest{"cut": {From: "a", Sub: 3}, "few": {From: "j", Sub: 2}} {
		f.At = new(client.At(1))
		_, err := c.Create(t.Context(), name, client.CreateRequest{Fork: &f})
		require.NoError(t, err)
	}
	require.Equal(t, "hello\nwor\n", s.ok("", "read", "cut"))
	require.Contains(t, s.ok("", "head", "cut"), "forked  from a at 1, and 3 bytes of the next\n")
	require.Contains(t, s.ok("", "head", "few"), "forked  from j at 1, and the next 2\n")
	require.Contains(t, s.ok("", "head", "--json", "few"), `"fork":{"from":"j","seq":1,"sub_offset":2}`)
}

func TestForkRefusals(t *testing.T) {
	s := newShell(t)
	s.ok("1\n2\n", "append", "--create", "a")
	s.ok("", "create", "b")
	s.ok("", "trim", "a", "1")
	s.fails(1, "SRC DST", "fork", "new", "a2")
	s.fails(1, `there is no stream "new" to fork; the one to begin with comes first`, "fork", "new", "a2")
	s.fails(1, "trimmed", "fork", "a", "c", "--at", "0")
	s.fails(1, "tail", "fork", "a", "c", "--at", "3")
	s.fails(1, `"b"`, "fork", "a", "b")
	for message, args := range map[string]string{
		"SRC is missing":                            "fork",
		"DST is missing":                            "fork a",
		`too many arguments: "c"`:                   "fork a b c",
		`SRC and DST are both "a"`:                  "fork a /a",
		"has an empty segment":                      "fork a b//c",
		"the reserved segment":                      "fork a __ds/c",
		`--at is "x y"; give a sequence`:            "fork a c --at=x§y",
		"--ttl and --expires-at exclude each other": "fork a c --ttl 1s --expires-at 2031-01-01T00:00:00Z",
		"unknown flag: --content-type":              "fork a c --content-type x",
	} {
		words := strings.Fields(args)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "§", " ")
		}
		s.fails(2, message, words...)
	}
	require.Equal(t, "a\nb\n", s.ok("", "ls"), "what was refused made nothing")
	require.NotContains(t, s.ok("", "head", "a"), "forks")
}

// TestForkCompletion: both names, and nothing behind them.
func TestForkCompletion(t *testing.T) {
	s := newShell(t)
	s.ok("", "create", "chats/1")
	require.True(t, strings.HasPrefix(s.ok("", "__complete", "fork", "cha"), "chats/1\n"))
	require.True(t, strings.HasPrefix(s.ok("", "__complete", "fork", "chats/1", "/cha"), "/chats/1\n"))
	require.True(t, strings.HasPrefix(s.ok("", "__complete", "fork", "chats/1", "chats/2", ""), ":"))
}
