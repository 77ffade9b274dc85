package memstreams

import "github.com/picomq/picomq/stream"

// Retain trims every stream to its own retention, or to defaults where it states
// no bound, as of now. A record goes when it is older than the age, or when those
// after it fill the bytes without it. To be trimmed does not keep a stream from
// being idle.
func (s *Streams) Retain(defaults stream.Retention) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	for _, r := range s.names {
		if !r.deleted {
			r.trim(r.retainedFrom(r.info.Config.Retention.Or(defaults), s.now))
		}
	}
	s.wake()
}

// retainedFrom is the first record that a retention keeps. Times never fall from
// record to record.
func (r *row) retainedFrom(keep stream.Retention, now stream.Time) stream.Offset {
	from, after := len(r.records), uint64(0)
	for from > 0 {
		record := &r.records[from-1]
		if keep.Age > 0 && record.at < now-stream.Time(keep.Age*1000) || keep.Bytes > 0 && after >= keep.Bytes {
			break
		}
		after += uint64(record.size())
		from--
	}
	return r.first + stream.Offset(from)
}
