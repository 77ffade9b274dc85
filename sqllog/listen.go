package sqllog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
)

const (
	// quietLimit is how long the listener hears nothing before it asks whether
	// the server is still there.
	quietLimit = 10 * time.Second
	// Waits between attempts to connect again.
	firstRetry, lastRetry = 20 * time.Millisecond, 2 * time.Second
)

// listen turns the channel's notifications into wakeups until Close. The first
// connection is made here, so that Open fails when LISTEN does not work.
func (l *Log) listen(ctx context.Context, config *pgx.ConnConfig, channel string) error {
	conn, err := l.connectListener(ctx, config, channel)
	if err != nil {
		return err
	}
	if err := l.hearOwn(ctx, conn, channel); err != nil {
		return errors.Join(err, l.hangUp(conn))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.listenForever(ctx, conn, config, channel)
	}()
	l.onClose(func() error {
		cancel()
		<-done
		return nil
	})
	return nil
}

// hearOwn makes sure that what is sent on the channel arrives.
func (l *Log) hearOwn(ctx context.Context, conn *pgx.Conn, channel string) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	if _, err := l.writer.DB.ExecContext(ctx, "SELECT pg_notify('"+channel+"', '')"); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	if _, err := conn.WaitForNotification(ctx); err != nil {
		return fmt.Errorf("a notification that was sent did not arrive (%w): %w", err, errShared)
	}
	return nil
}

func (l *Log) connectListener(ctx context.Context, config *pgx.ConnConfig, channel string) (*pgx.Conn, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, connectError{err}
	}
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return nil, errors.Join(fmt.Errorf("listen for appends: %w", err), l.hangUp(conn))
	}
	return conn, nil
}

// listenForever owns conn. Whenever a connection was lost it wakes the reader
// once there is a new one, because what was appended in between was not heard.
func (l *Log) listenForever(ctx context.Context, conn *pgx.Conn, config *pgx.ConnConfig, channel string) {
	for {
		err := l.hear(ctx, conn)
		_ = l.hangUp(conn) // it is broken, or we are closing
		if ctx.Err() != nil {
			return
		}
		l.logger.Warn("lost the connection that listens for appends; connecting again", "error", err)
		conn, err = backoff.Retry(ctx, func() (*pgx.Conn, error) {
			return l.connectListener(ctx, config, channel)
		}, backoff.WithBackOff(listenerBackOff()), backoff.WithMaxElapsedTime(0))
		if err != nil {
			return // ctx is done: nothing else ends the attempts
		}
		l.logger.Info("listening for appends again")
		l.wake()
	}
}

func listenerBackOff() backoff.BackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval = firstRetry, lastRetry
	return b
}

// hear wakes the reader for each notification until the connection breaks or
// ctx is done.
func (l *Log) hear(ctx context.Context, conn *pgx.Conn) error {
	for {
		wait, cancel := context.WithTimeout(ctx, quietLimit)
		_, err := conn.WaitForNotification(wait)
		quiet := wait.Err() != nil
		cancel()
		switch {
		case err == nil:
			l.wake()
		case ctx.Err() != nil || !quiet:
			return err
		default:
			if err := l.ping(ctx, conn); err != nil {
				return err
			}
		}
	}
}

func (l *Log) ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	return errors.Join(stillPrimary(conn.PgConn()), conn.Ping(ctx))
}

// hangUp closes a connection without waiting for a server that may be gone.
func (l *Log) hangUp(conn *pgx.Conn) error {
	ctx, cancel := l.bounded(context.Background())
	defer cancel()
	return conn.Close(ctx)
}
