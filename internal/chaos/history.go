package chaos

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/picomq/picomq/stream"
)

// history is every call that was made to one stream. Its methods are safe for
// concurrent use.
type history struct {
	name  stream.Name
	began time.Time // of the run: calls are dated from here

	mu    sync.Mutex
	calls []porcupine.Operation
}

// call is one call under way.
type call struct {
	history *history
	client  int
	input   *input
	began   time.Duration
}

// begin dates a call. It is in the history once it is ended.
func (h *history) begin(client int, in *input) call {
	return call{history: h, client: client, input: in, began: time.Since(h.began)}
}

// end enters a call with its answer. One whose outcome is unknown never
// returned: it may take effect at any time, or never.
func (c call) end(out *output) {
	returned := int64(time.Since(c.history.began))
	if out.verdict == unknown {
		if c.input.kind == reading {
			return // it says nothing
		}
		returned = math.MaxInt64
	}
	c.history.mu.Lock()
	defer c.history.mu.Unlock()
	c.history.calls = append(c.history.calls, porcupine.Operation{
		ClientId: c.client, Input: c.input, Call: int64(c.began), Output: out, Return: returned,
	})
}

// checkTimeout bounds the check of one stream, which takes milliseconds on a machine
// that has time for it.
const checkTimeout = 2 * time.Minute

// linearizable checks calls of the stream against the model. decided is false when
// it took too long.
func (h *history) linearizable(calls []porcupine.Operation) (decided bool, err error) {
	result, info := porcupine.CheckOperationsVerbose(model, calls, checkTimeout)
	if result != porcupine.Illegal {
		return result == porcupine.Ok, nil
	}
	return true, fmt.Errorf("%s: no order of these calls explains their answers; the longest that does has %d of %d:\n%s",
		h.name, longest(info), len(calls), h.describe())
}

// longest is how many calls the best attempt put in order.
func longest(info porcupine.LinearizationInfo) int {
	most := 0
	for _, partition := range info.PartialLinearizations() {
		for _, order := range partition {
			most = max(most, len(order))
		}
	}
	return most
}

func (h *history) describe() string {
	var text []byte
	for _, c := range h.calls {
		returned := "never"
		if c.Return != math.MaxInt64 {
			returned = time.Duration(c.Return).String()
		}
		text = fmt.Appendf(text, "  %2d  %v to %s  %s\n", c.ClientId, time.Duration(c.Call), returned,
			describe(c.Input.(*input), c.Output.(*output)))
	}
	return string(text)
}

// verifyContent checks one by one what the model checks as a whole, so that the
// error names the record: each acknowledged record is at its offset, and none is
// there twice or was never sent, refused or made up.
func (h *history) verifyContent(content []uint64) error {
	at := make(map[uint64]int, len(content))
	for i, id := range content {
		if before, twice := at[id]; twice {
			return fmt.Errorf("%s: record %d is there twice, at %d and %d\n%s", h.name, id, before, i, h.describe())
		}
		at[id] = i
	}
	allowed := map[uint64]bool{}
	for _, c := range h.calls {
		in, out := c.Input.(*input), c.Output.(*output)
		if in.kind != appending {
			continue
		}
		for i := range in.count {
			id := in.id + i
			allowed[id] = allowed[id] || out.verdict == done || out.verdict == unknown || out.verdict == existed
			place, there := at[id]
			if out.verdict == done && !there {
				return fmt.Errorf("%s: record %d was acknowledged and is not there\n%s", h.name, id, h.describe())
			}
			if out.firstKnown && there && uint64(place) != out.first+i {
				return fmt.Errorf("%s: record %d was acknowledged at %d and is at %d\n%s", h.name, id, out.first+i, place, h.describe())
			}
		}
	}
	for i, id := range content {
		if !allowed[id] {
			return fmt.Errorf("%s: record %d at %d was never sent, or refused\n%s", h.name, id, i, h.describe())
		}
	}
	return nil
}
