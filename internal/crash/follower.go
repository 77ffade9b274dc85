package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// eventDecoder reads the events of one protocol's live reads.
type eventDecoder interface {
	data(data []byte) (bodies [][]byte, err error)
	control(data []byte) (next stream.Offset, closed bool, err error)
}

// follower tails one stream as server-sent events, and goes on after every
// kill where the last control event left it.
type follower struct {
	stream   *ledger
	protocol protocol

	content []recordID
	closed  bool
}

// maxEvent bounds one event, in bytes.
const maxEvent = 16 << 20

// errEnded says that a live read ended with a whole event, as it may.
var errEnded = errors.New("the live read ended")

// live follows until an answer is lost, or until enough says that this many
// records are.
func (f *follower) live(ctx context.Context, s *server, enough func(int) bool) error {
	for {
		err := f.connect(ctx, s, enough)
		if !errors.Is(err, errEnded) {
			return err
		}
		if f.closed || enough(len(f.content)) {
			return nil
		}
	}
}

// connect follows through one connection.
func (f *follower) connect(ctx context.Context, s *server, enough func(int) bool) error {
	query := f.protocol.position(offset(len(f.content)))
	query.Del("format")
	query.Set("live", "sse")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+f.protocol.path(f.stream.name)+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("following %s: status %d", f.stream.name, response.StatusCode)
	}
	events := wire.NewEventReader(response.Body, maxEvent)
	decoder := f.protocol.events(f.stream)
	var arrived []recordID // since the last control event
	for !enough(len(f.content)) {
		event, err := events.Next()
		if errors.Is(err, wire.ErrEventTooLarge) {
			return err
		}
		if err != nil { // a crash and a clean end look alike until the next request
			return errEnded
		}
		switch event.Name {
		case wire.EventData:
			arrived, err = f.data(decoder, arrived, event.Data)
		case wire.EventControl:
			err = f.control(decoder, arrived, event.Data)
			arrived = arrived[:0]
		}
		if err != nil {
			return fmt.Errorf("following %s from %d: %w", f.stream.name, len(f.content), err)
		}
	}
	return errEnded
}

func (f *follower) data(decoder eventDecoder, arrived []recordID, data []byte) ([]recordID, error) {
	bodies, err := decoder.data(data)
	if err != nil {
		return arrived, err
	}
	for _, b := range bodies {
		id, err := decodeBody(b)
		if err != nil {
			return arrived, err
		}
		arrived = append(arrived, id)
	}
	return arrived, nil
}

// control keeps what arrived, if it is all that lies before the offset to
// resume at.
func (f *follower) control(decoder eventDecoder, arrived []recordID, data []byte) error {
	next, closed, err := decoder.control(data)
	if err != nil {
		return err
	}
	if want := offset(len(f.content) + len(arrived)); next != want {
		return fmt.Errorf("a gap or a repeat: the next offset is %d after %d records", next, want)
	}
	f.content = append(f.content, arrived...)
	f.closed = f.closed || closed
	return nil
}

// verify compares what was followed with the stream as last read back, of
// which it must be the beginning: nothing that was shown to a reader is lost.
func (f *follower) verify() error {
	if len(f.content) > len(f.stream.content) {
		return fmt.Errorf("%s: a reader saw %d records, %d are left", f.stream.name, len(f.content), len(f.stream.content))
	}
	for i, id := range f.content {
		if kept := f.stream.content[i].id; kept != id {
			return fmt.Errorf("%s: a reader saw %v at %d, it is %v", f.stream.name, id, i, kept)
		}
	}
	return nil
}
