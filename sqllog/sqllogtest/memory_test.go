package sqllogtest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/picomq/picomq/commands"
	"github.com/picomq/picomq/sqllog/sqllogtest"
)

func TestMemory(t *testing.T) {
	sqllogtest.Run(t, func(*testing.T) sqllogtest.Backend {
		m := sqllogtest.NewMemory()
		return sqllogtest.Backend{
			Log:    m,
			Peer:   func(testing.TB) sqllogtest.Log { return m.Peer() },
			Rewind: func(_ testing.TB, to commands.Index) { m.Rewind(to) },
		}
	})
}

func TestExclusiveMemory(t *testing.T) {
	sqllogtest.Run(t, func(*testing.T) sqllogtest.Backend {
		m := sqllogtest.NewExclusiveMemory()
		return sqllogtest.Backend{Log: m, Rewind: func(_ testing.TB, to commands.Index) { m.Rewind(to) }}
	})
}

func TestMemoryFaults(t *testing.T) {
	var before, lost error
	m := sqllogtest.NewMemory()
	m.Before = func(context.Context, string) error { return before }
	m.Lost = func(commands.Insert, commands.Inserted) error { return lost }
	in := commands.Insert{Origin: commands.Origin{Node: 1, Epoch: 1, Seq: 1}, Payload: []byte("p")}

	before = commands.ErrNotSent
	_, err := m.Append(t.Context(), in)
	require.ErrorIs(t, err, commands.ErrNotSent)
	require.NotErrorIs(t, err, commands.ErrUnknown)

	before = errors.New("cable cut")
	_, err = m.Append(t.Context(), in)
	require.ErrorIs(t, err, commands.ErrUnknown)
	_, err = m.Head(t.Context())
	require.ErrorIs(t, err, before)

	before, lost = nil, errors.New("answer lost")
	_, err = m.Append(t.Context(), in)
	require.ErrorIs(t, err, commands.ErrUnknown)
	at, digest, found, err := m.FindOrigin(t.Context(), in.Origin, in.Applied.Index)
	require.NoError(t, err)
	require.True(t, found, "the row was written all the same")
	assert.EqualValues(t, 1, at.Index)
	assert.Equal(t, commands.PayloadDigest(in.Payload), digest)
}
