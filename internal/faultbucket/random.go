package faultbucket

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"
)

// Random describes plans that depend on a seed and the operation alone.
type Random struct {
	Seed uint64

	// Every operation takes Latency and up to Jitter more, a put and a get also Put
	// and Get.
	Latency, Jitter, Put, Get time.Duration

	// This share of the operations, 0 to 1, takes Straggler instead.
	Straggle  float64
	Straggler time.Duration

	// Probabilities that an operation fails without happening, or happens and
	// fails.
	PutBefore, PutAfter, GetBefore float64

	// While there is a file of this name, every operation fails without happening.
	Down string
}

// Plan is the plan described.
func (r Random) Plan() Plan {
	return func(op Op) Decision {
		dice := r.dice(op)
		d := Decision{Delay: r.Latency + time.Duration(dice.Float64()*float64(r.Jitter))}
		switch op.Kind {
		case Put:
			d.Delay += r.Put
		case Get:
			d.Delay += r.Get
		default:
		}
		if dice.Float64() < r.Straggle {
			d.Delay = r.Straggler
		}
		chance := dice.Float64()
		switch {
		case r.isDown():
			d.Before = Fail(op)
		case op.Kind == Put && chance < r.PutBefore, op.Kind == Get && chance < r.GetBefore:
			d.Before = Fail(op)
		case op.Kind == Put && chance < r.PutBefore+r.PutAfter:
			d.After = Lose(op)
		}
		return d
	}
}

func (r Random) isDown() bool {
	if r.Down == "" {
		return false
	}
	_, err := os.Stat(r.Down)
	return err == nil
}

func (r Random) dice(op Op) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %d %s", op.Kind, op.Nth, op.Key)
	return rand.New(rand.NewPCG(r.Seed, h.Sum64()))
}

// ParseRandom reads what to do to a bucket from a list such as
//
//	put=20ms,get=20ms,straggle=0.01:500ms,seed=1
//
// Its words are latency, jitter, put and get with a duration; straggle with a
// share and a duration; put-fails, put-lost and get-fails with a probability; seed
// with a number; and down with the name of a file. The error names the word that is wrong.
func ParseRandom(text string) (Random, error) {
	var r Random
	for item := range strings.SplitSeq(text, ",") {
		word, value, _ := strings.Cut(item, "=")
		if err := r.set(word, value); err != nil {
			return Random{}, fmt.Errorf("%q: %w", item, err)
		}
	}
	return r, nil
}

func (r *Random) set(word, value string) (err error) {
	durations := map[string]*time.Duration{"latency": &r.Latency, "jitter": &r.Jitter, "put": &r.Put, "get": &r.Get}
	shares := map[string]*float64{"put-fails": &r.PutBefore, "put-lost": &r.PutAfter, "get-fails": &r.GetBefore}
	switch {
	case durations[word] != nil:
		*durations[word], err = parseDuration(value)
	case shares[word] != nil:
		*shares[word], err = parseShare(value)
	case word == "straggle":
		share, delay, _ := strings.Cut(value, ":")
		if r.Straggle, err = parseShare(share); err == nil {
			r.Straggler, err = parseDuration(delay)
		}
	case word == "down":
		r.Down = value
	case word == "seed":
		r.Seed, err = strconv.ParseUint(value, 10, 64)
	default:
		err = fmt.Errorf("there is no such word")
	}
	return err
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("%v is negative", d)
	}
	return d, err
}

func parseShare(text string) (float64, error) {
	share, err := strconv.ParseFloat(text, 64)
	if err == nil && !(share >= 0 && share <= 1) { // nor NaN
		err = fmt.Errorf("%v is not between 0 and 1", share)
	}
	return share, err
}
