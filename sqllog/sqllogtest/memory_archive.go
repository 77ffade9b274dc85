package sqllogtest

import (
	"context"
	"fmt"
	"maps"

	"github.com/picomq/picomq/commands"
)

// truncateBytes is the most payload that one Truncate drops, unless one row has
// more.
const truncateBytes = 4 << 20

// Archive is what of the log is archived.
func (m *Memory) Archive(ctx context.Context) (commands.Archive, error) {
	end, err := m.begin(ctx, "archive")
	if err != nil {
		return commands.Archive{}, err
	}
	defer end()
	return m.shared.archive, nil
}

// AnnounceArchive decides where the next archive object ends.
func (m *Memory) AnnounceArchive(ctx context.Context, after, last commands.Index) (commands.Archive, error) {
	return m.changeArchive(ctx, "announce archive", func(s *tables) {
		if a := &s.archive; a.Head.Index == after && a.Announced == 0 && last > after && s.at(last).Index != 0 {
			a.Announced = last
		}
	})
}

// AdvanceArchive records that the announced object is written.
func (m *Memory) AdvanceArchive(ctx context.Context, to commands.Position, key string, digest commands.ArchiveDigest) (commands.Archive, error) {
	return m.changeArchive(ctx, "advance archive", func(s *tables) {
		if a := &s.archive; a.Announced != 0 && a.Announced == to.Index && s.at(to.Index).ID == to.Row {
			a.Head, a.Key, a.Digest, a.Announced = to, key, digest, 0
		}
	})
}

// Truncate drops archived rows.
func (m *Memory) Truncate(ctx context.Context, upTo commands.Index, limit int) (commands.Archive, error) {
	return m.changeArchive(ctx, "truncate", func(s *tables) {
		bytes := 0
		for n := 0; n < max(limit, 1) && s.archive.Truncated.Index < min(upTo, s.archive.Head.Index); n++ {
			row := s.rows[0]
			if bytes += len(row.Payload); n > 0 && bytes > truncateBytes {
				return
			}
			s.rows = s.rows[1:]
			maps.DeleteFunc(s.origins, func(_ commands.Origin, at origin) bool { return at.index == row.Index })
			s.archive.Truncated = row.Position()
		}
	})
}

// changeArchive is a call that changes the archive's record.
func (m *Memory) changeArchive(ctx context.Context, call string, change func(*tables)) (commands.Archive, error) {
	end, err := m.begin(ctx, call)
	if err != nil {
		return commands.Archive{}, err
	}
	change(m.shared)
	now := m.shared.archive
	end()
	if m.After != nil {
		if err := m.After(call); err != nil {
			return commands.Archive{}, fmt.Errorf("%s: %w", call, err)
		}
	}
	return now, nil
}
