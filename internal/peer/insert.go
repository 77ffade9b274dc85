package peer

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/picomq/picomq/commands"
)

const (
	insertPrefix = "/insert/"
	// maxInsert bounds a request to insert and its answer, in bytes: the payload in
	// base64, and what stands beside it.
	maxInsert = commands.MaxPayload*4/3 + 1<<20
)

// Inserter inserts into the log for whoever asks.
type Inserter func(ctx context.Context, in commands.Insert) (commands.Row, error)

// insertion is a request to insert. The digest is that of the payload: a row that
// was spoiled on the way could not be read by anybody, and would stop all nodes.
type insertion struct {
	commands.Insert
	Digest uint64 `json:"digest"`
}

// inserted is the answer to a request to insert: a row, with its payload's digest,
// or one of the log's errors.
type inserted struct {
	Row       *commands.Row            `json:"row,omitempty"`
	Digest    uint64                   `json:"digest,omitempty"`
	Class     string                   `json:"class,omitempty"`
	Message   string                   `json:"message,omitempty"`
	Lost      *commands.LostTailError  `json:"lost,omitempty"`
	Truncated *commands.TruncatedError `json:"truncated,omitempty"`
}

// classes are the errors that an answer names by a word.
var classes = map[string]error{
	"not-sent": commands.ErrNotSent, "unknown": commands.ErrUnknown, "duplicate": commands.ErrDuplicateOrigin, "damaged": commands.ErrDamaged,
}

func answerOf(row commands.Row, err error) inserted {
	if err == nil {
		return inserted{Row: &row, Digest: commands.PayloadDigest(row.Payload)}
	}
	a := inserted{Class: "refused", Message: err.Error()}
	switch {
	case errors.As(err, &a.Lost):
		a.Class = "lost"
	case errors.As(err, &a.Truncated):
		a.Class = "truncated"
	default:
		for class, known := range classes {
			if errors.Is(err, known) {
				a.Class = class
			}
		}
	}
	return a
}

// result is what an answer says.
func (a *inserted) result() (commands.Row, error) {
	switch {
	case a.Row != nil && commands.PayloadDigest(a.Row.Payload) != a.Digest:
		return commands.Row{}, fmt.Errorf("%w: another node's answer was spoiled on the way", commands.ErrUnknown)
	case a.Row != nil:
		return *a.Row, nil
	case a.Lost != nil:
		return commands.Row{}, a.Lost
	case a.Truncated != nil:
		return commands.Row{}, a.Truncated
	case classes[a.Class] != nil:
		return commands.Row{}, fmt.Errorf("%w: another node says: %s", classes[a.Class], a.Message)
	case a.Class == "refused":
		return commands.Row{}, fmt.Errorf("another node says: %s", a.Message)
	default:
		return commands.Row{}, fmt.Errorf("%w: another node answered with neither a row nor an error", commands.ErrUnknown)
	}
}

// InsertHandler serves requests to insert into a cluster's log of nodes that know
// the secret, which must not be empty. Its path is /insert/.
func InsertHandler(cluster [16]byte, secret string, insert Inserter) http.Handler {
	return guarded(secret, http.MethodPost, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != insertPath(cluster) {
			http.Error(w, "this is a node of another cluster", http.StatusNotFound)
			return
		}
		var in insertion
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxInsert)).Decode(&in); err != nil {
			http.Error(w, "not a request to insert: "+err.Error(), http.StatusBadRequest)
			return
		}
		if commands.PayloadDigest(in.Payload) != in.Digest {
			http.Error(w, "the payload was spoiled on the way", http.StatusBadRequest)
			return
		}
		answer := answerOf(insert(r.Context(), in.Insert))
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // who is gone looks in the log
	})
}

// insertPath names the cluster: where two use one secret, an address may by now be
// that of a node of the other.
func insertPath(cluster [16]byte) string { return insertPrefix + hex.EncodeToString(cluster[:]) }

// Insert asks the node at an address to insert. Its errors are those of the log,
// [commands.ErrNotSent] among them when the request did not reach the node or was
// turned away, which is [ErrRefused] too where the secrets differ, and
// [commands.ErrUnknown] when its answer did not come.
func (c *Client) Insert(ctx context.Context, address string, in commands.Insert) (commands.Row, error) {
	body, err := json.Marshal(insertion{Insert: in, Digest: commands.PayloadDigest(in.Payload)})
	if err != nil {
		return commands.Row{}, fmt.Errorf("%w: %w", commands.ErrNotSent, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(address, "/")+insertPath(c.config.Cluster), bytes.NewReader(body))
	if err != nil {
		return commands.Row{}, fmt.Errorf("%w: %w", commands.ErrNotSent, err)
	}
	request.Header.Set("Authorization", bearer+c.config.Secret)
	response, err := c.http.Do(request)
	if err != nil {
		var network *net.OpError
		if errors.As(err, &network) && network.Op == "dial" {
			return commands.Row{}, fmt.Errorf("%w: %w", commands.ErrNotSent, err)
		}
		return commands.Row{}, fmt.Errorf("%w: %w", commands.ErrUnknown, err)
	}
	defer func() { _ = response.Body.Close() }() // whole, or unknown
	if response.StatusCode >= 400 && response.StatusCode < 500 {
		return commands.Row{}, fmt.Errorf("%w: %s: %w", commands.ErrNotSent, address, refusal(response))
	}
	var answer inserted
	if err := json.NewDecoder(io.LimitReader(response.Body, maxInsert)).Decode(&answer); err != nil || response.StatusCode != http.StatusOK {
		return commands.Row{}, fmt.Errorf("%w: %s answered %s (%w)", commands.ErrUnknown, address, response.Status, err)
	}
	return answer.result()
}
