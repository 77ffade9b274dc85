package sqllogtest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/picomq/picomq/commands"
)

type lease struct {
	by      commands.Holder
	expires int64 // Unix ms
}

// AddSnapshot records a snapshot.
func (m *Memory) AddSnapshot(ctx context.Context, snapshot commands.Snapshot) error {
	end, err := m.begin(ctx, "add snapshot")
	if err != nil {
		return err
	}
	defer end()
	old, ok := m.shared.snapshots[snapshot.Index]
	if ok && old.Digest != snapshot.Digest {
		return errors.New("another snapshot with another digest is recorded there")
	}
	snapshot.Confirmed = snapshot.Confirmed || old.Confirmed
	m.shared.snapshots[snapshot.Index] = snapshot
	return nil
}

// ConfirmSnapshot marks a snapshot as confirmed.
func (m *Memory) ConfirmSnapshot(ctx context.Context, at commands.Index) error {
	end, err := m.begin(ctx, "confirm snapshot")
	if err != nil {
		return err
	}
	defer end()
	snapshot, ok := m.shared.snapshots[at]
	if !ok {
		return errors.New("there is no such snapshot")
	}
	snapshot.Confirmed = true
	m.shared.snapshots[at] = snapshot
	return nil
}

// Snapshots lists the snapshots, newest first.
func (m *Memory) Snapshots(ctx context.Context) ([]commands.Snapshot, error) {
	end, err := m.begin(ctx, "snapshots")
	if err != nil {
		return nil, err
	}
	defer end()
	return slices.SortedFunc(maps.Values(m.shared.snapshots), func(a, b commands.Snapshot) int {
		return cmp.Compare(b.Index, a.Index)
	}), nil
}

// DeleteSnapshot forgets a snapshot.
func (m *Memory) DeleteSnapshot(ctx context.Context, at commands.Index) error {
	end, err := m.begin(ctx, "delete snapshot")
	if err != nil {
		return err
	}
	defer end()
	delete(m.shared.snapshots, at)
	return nil
}

// AcquireLease takes or renews a lease.
func (m *Memory) AcquireLease(ctx context.Context, name string, by commands.Holder, ttl time.Duration) (bool, error) {
	if ttl < time.Millisecond {
		return false, errors.New("a lease must last at least 1ms")
	}
	end, err := m.begin(ctx, "acquire lease")
	if err != nil {
		return false, err
	}
	defer end()
	now := m.now()
	old, ok := m.shared.leases[name]
	if ok && old.expires > now && (old.by.Node != by.Node || old.by.Epoch > by.Epoch) {
		return false, nil
	}
	m.shared.leases[name] = lease{by: by, expires: now + ttl.Milliseconds()}
	return true, nil
}

// Leases lists who holds what, by name.
func (m *Memory) Leases(ctx context.Context) (held []commands.Lease, err error) {
	end, err := m.begin(ctx, "leases")
	if err != nil {
		return nil, err
	}
	defer end()
	for _, name := range slices.Sorted(maps.Keys(m.shared.leases)) {
		l := m.shared.leases[name]
		held = append(held, commands.Lease{Name: name, Holder: l.by, LeftMs: l.expires - m.now()})
	}
	return held, nil
}

// LeaseHolder is who has a lease that has not run out.
func (m *Memory) LeaseHolder(ctx context.Context, name string) (by commands.Holder, held bool, err error) {
	end, err := m.begin(ctx, "lease holder")
	if err != nil {
		return by, false, err
	}
	defer end()
	l, ok := m.shared.leases[name]
	if !ok || l.expires <= m.now() {
		return by, false, nil
	}
	return l.by, true, nil
}

// ReleaseLease gives a lease up.
func (m *Memory) ReleaseLease(ctx context.Context, name string, by commands.Holder) error {
	end, err := m.begin(ctx, "release lease")
	if err != nil {
		return err
	}
	defer end()
	if m.shared.leases[name].by == by {
		delete(m.shared.leases, name)
	}
	return nil
}

// Beat records a heartbeat.
func (m *Memory) Beat(ctx context.Context, h commands.Heartbeat) error {
	end, err := m.begin(ctx, "beat")
	if err != nil {
		return err
	}
	defer end()
	if m.shared.heartbeats[h.Node].Epoch > h.Epoch {
		return nil
	}
	setTime(&h.At, m.now())
	m.shared.heartbeats[h.Node] = h
	return nil
}

// Forget removes a node's beat, unless a later epoch of the node has beaten.
func (m *Memory) Forget(ctx context.Context, node commands.NodeID, epoch commands.Epoch) error {
	end, err := m.begin(ctx, "forget")
	if err != nil {
		return err
	}
	defer end()
	if m.shared.heartbeats[node].Epoch <= epoch {
		delete(m.shared.heartbeats, node)
	}
	return nil
}

// Heartbeats lists the last beat of every node, by node.
func (m *Memory) Heartbeats(ctx context.Context) ([]commands.Heartbeat, error) {
	end, err := m.begin(ctx, "heartbeats")
	if err != nil {
		return nil, err
	}
	defer end()
	list := slices.SortedFunc(maps.Values(m.shared.heartbeats), func(a, b commands.Heartbeat) int {
		return cmp.Compare(a.Node, b.Node)
	})
	for i := range list {
		list[i].AgeMs = m.now() - int64(list[i].At)
	}
	return list, nil
}
