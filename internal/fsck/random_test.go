package fsck_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/stream"
)

// TestWhateverServersDoIsClean: streams of any kind that are written, trimmed,
// forked at any depth, deleted and expired while everything is compacted, at
// several levels, over several starts.
func TestWhateverServersDoIsClean(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t)
			x := &life{w: w, s: w.serve(t, 0), dice: rand.New(rand.NewPCG(seed, 2)), json: map[stream.Name]bool{}}
			for round := range 8 {
				for range 50 {
					x.step()
				}
				w.pass(t, x.s, time.Duration(1+x.dice.IntN(3))*time.Minute)
				w.check(t, w.besideACluster).requireOnly(t)
				if round%3 == 2 {
					x.s.stop()
					w.sweepSnapshots(t)
					w.check(t).requireOnly(t)
					x.s = w.serve(t, 1)
				}
			}
			x.s.stop()
			w.sweepSnapshots(t)
			w.check(t).requireOnly(t)
			w.check(t, deep).requireOnly(t)
			w.check(t, quick).requireOnly(t)
		})
	}
}

// life does random things to streams.
type life struct {
	w    *world
	s    *server
	dice *rand.Rand
	made int
	json map[stream.Name]bool
	live []stream.Name
}

func (x *life) records() (list []string) {
	for range 1 + x.dice.IntN(4) {
		list = append(list, fmt.Sprintf("%q", fmt.Sprint(x.dice.Uint64())))
	}
	return list
}

func (x *life) step() {
	t := x.s.t
	if len(x.live) < 3 || x.dice.IntN(12) == 0 {
		name := x.name()
		x.json[name] = x.dice.IntN(3) == 0
		config := stream.Config{ContentType: "text/plain"}
		if x.json[name] {
			config.ContentType = "application/json"
		}
		if x.dice.IntN(4) == 0 {
			config.Expiry = stream.Expiry{Kind: stream.ExpiresIdle, TTL: uint64(30 + x.dice.IntN(200))}
		}
		_, err := x.s.Create(t.Context(), name, &stream.CreateRequest{Config: config, Records: bodies(x.records())})
		require.NoError(t, err)
		return
	}
	at := x.dice.IntN(len(x.live))
	name := x.live[at]
	info, err := x.s.Head(t.Context(), name)
	if stream.CodeOf(err) == stream.CodeNotFound { // it expired
		x.live = append(x.live[:at], x.live[at+1:]...)
		return
	}
	require.NoError(t, err)
	offset := info.Start + stream.Offset(x.dice.IntN(int(info.Tail-info.Start)+1))
	switch x.dice.IntN(16) {
	case 0:
		_, err := x.s.Trim(t.Context(), name, offset)
		require.NoError(t, err)
	case 1:
		require.NoError(t, x.s.Delete(t.Context(), name))
		x.live = append(x.live[:at], x.live[at+1:]...)
	case 2, 3, 4:
		sub := uint64(0)
		if offset < info.Tail && !x.json[name] {
			sub = 1
		}
		child := x.name()
		x.json[child] = x.json[name]
		x.s.fork(name, child, offset, sub)
	default:
		x.s.append(name, x.records()...)
	}
}

func (x *life) name() stream.Name {
	x.made++
	name := stream.Name(fmt.Sprint("s", x.made))
	x.live = append(x.live, name)
	return name
}
