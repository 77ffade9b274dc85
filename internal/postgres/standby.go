package postgres

import (
	"context"
	"fmt"
)

// Standby makes a server that holds what this one does and receives what it
// commits from then on, over a slot: nothing that it lacks is thrown away. It is
// asynchronous, see [Server.Synchronize]. name, of lower-case letters, is what
// this server calls it.
func (s *Server) Standby(ctx context.Context, name string) (*Server, error) {
	standby, err := prepare(name)
	if err != nil {
		return nil, err
	}
	err = standby.run(ctx, "pg_basebackup", "-d", s.URL, "-D", standby.data(), "-R", "-C", "-S", name, "-c", "fast", "--no-sync")
	if standby, err = standby.begin(ctx, err); err != nil {
		return nil, err
	}
	if err := s.await(ctx, "streaming", "SELECT state FROM pg_stat_replication WHERE application_name = $1", name); err != nil {
		return nil, fmt.Errorf("%w (%w)", err, standby.Remove())
	}
	return standby, nil
}

// Synchronize makes commits wait for a standby from when it returns: what this
// server acknowledges the standby has on its disk.
func (s *Server) Synchronize(ctx context.Context, standby *Server) error {
	if err := s.Configure(ctx, "synchronous_standby_names", standby.name); err != nil {
		return err
	}
	return s.await(ctx, "sync", "SELECT sync_state FROM pg_stat_replication WHERE application_name = $1", standby.name)
}

// Detach ends a standby's connection to its primary for good: it receives nothing
// any more.
func (s *Server) Detach(ctx context.Context) error {
	if err := s.Configure(ctx, "primary_conninfo", ""); err != nil {
		return err
	}
	return s.await(ctx, "0", "SELECT count(*) FROM pg_stat_wal_receiver")
}

// Promote makes a standby a primary of its own, and returns when it takes writes.
func (s *Server) Promote(ctx context.Context) error {
	return s.run(ctx, "pg_ctl", "-D", s.data(), "-w", "promote")
}
