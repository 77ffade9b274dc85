package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/stream"
)

const (
	// setupConnections create and delete streams at the same time: so many that
	// a server which decides in groups has a group to decide.
	setupConnections = 256
	// deleteTimeout bounds cleaning up.
	deleteTimeout = 2 * time.Minute
)

// Session is streams that a load can be put on, once or several times. Its
// methods must not run at the same time.
type Session struct {
	config *Config
	target *target
	client *client.Client
}

// Open creates the streams of a load. An error means that a setting is out of
// range or that the server cannot be used; nothing is left then but what could
// not be deleted.
func Open(ctx context.Context, c Config) (*Session, error) {
	config := c.withDefaults()
	u, err := config.validate()
	if err != nil {
		return nil, err
	}
	server, err := client.New(config.Endpoint, client.Options{Protocol: config.Protocol})
	if err != nil {
		return nil, err
	}
	s := &Session{config: config, target: newTarget(config, u), client: server}
	if err := s.create(ctx); err != nil {
		s.Delete(ctx)
		return nil, err
	}
	return s, nil
}

func (s *Session) create(ctx context.Context) error {
	err := s.eachStream(ctx, http.MethodPut, func(ctx context.Context, name stream.Name) error {
		_, err := s.client.Create(ctx, name, client.CreateRequest{Config: stream.Config{ContentType: s.target.contentType}})
		return err
	})
	if err != nil {
		return fmt.Errorf("create the streams of the load: %w", err)
	}
	return ctx.Err()
}

// Delete removes what Open made, whether ctx has ended or not. What cannot be
// removed stays: the measurement is worth more than the error.
func (s *Session) Delete(ctx context.Context) {
	defer s.client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	_ = s.eachStream(ctx, http.MethodDelete, func(ctx context.Context, name stream.Name) error {
		err := s.client.Delete(ctx, name)
		if stream.CodeOf(err) == stream.CodeUnavailable {
			return err // no use in asking for the others
		}
		return nil
	})
}

// eachStream sends a request for every stream over connections of its own. What
// is not answered with success goes to slow, which is the client: it tries again
// where that helps, and says what is wrong where it does not.
func (s *Session) eachStream(ctx context.Context, method string, slow func(ctx context.Context, name stream.Name) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(setupConnections, s.config.Streams) {
		group.Go(func() error {
			c := &redialed{target: s.target}
			defer c.close()
			var request []byte
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= s.config.Streams {
					return nil
				}
				request = s.target.bareRequest(request[:0], method, i)
				if status, err := c.exchange(ctx, request); err == nil && status/100 == 2 {
					continue
				}
				if err := slow(ctx, s.target.name(i)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
