package memstreams

import (
	"context"

	"github.com/picomq/picomq/stream"
)

// checkFork applies the rules of a fork that depend on no stream.
func checkFork(name stream.Name, f *stream.ForkRequest) error {
	switch {
	case f == nil:
		return nil
	case f.From == name:
		return stream.Errorf(stream.CodeBadRequest, "the stream %q cannot be a fork of itself; name another source", name)
	case f.Sub > 0 && f.At == nil:
		return stream.Errorf(stream.CodeBadRequest, "a sub-offset needs the fork offset that it counts from")
	default:
		return nil
	}
}

// begin is a new stream with what it inherits, under no name yet. Nothing else
// is changed.
func (s *Streams) begin(q *stream.CreateRequest) (*row, error) {
	r := &row{touched: s.now, producers: make(map[string]*producer)}
	r.info = stream.Info{Config: q.Config, Created: s.now, Closed: q.Closed}
	if q.Fork == nil {
		return r, nil
	}
	parent, err := s.find(q.Fork.From)
	switch {
	case stream.CodeOf(err) == stream.CodeDeleted:
		return nil, stream.Errorf(stream.CodeConflict, "the stream %q was deleted and takes no new forks; fork one of its forks", q.Fork.From)
	case err != nil:
		return nil, err
	}
	return r, r.inherit(parent, q.Fork)
}

// inherit copies what a fork has of its parent.
func (r *row) inherit(parent *row, q *stream.ForkRequest) error {
	config, p := &r.info.Config, &parent.info
	if config.ContentType == "" {
		config.ContentType = p.Config.ContentType
	}
	if config.Expiry.Kind == stream.ExpiresNever {
		config.Expiry = p.Config.Expiry
	}
	config.Retention = config.Retention.Or(p.Config.Retention)
	if stream.MediaType(config.ContentType) != stream.MediaType(p.Config.ContentType) {
		return stream.Errorf(stream.CodeConflict, "the source's content type is %s; a fork has the same", p.Config.ContentType)
	}
	at := p.Tail
	if q.At != nil {
		at = *q.At
	}
	switch {
	case at < p.Start:
		return &stream.Error{Code: stream.CodeTrimmed, Message: "the fork offset was trimmed away", Start: p.Start}
	case at > p.Tail:
		err := stream.Errorf(stream.CodeBeyondTail, "the fork offset %d lies beyond the source's tail, %d", at, p.Tail)
		err.Tail = p.Tail
		return err
	}
	r.first, r.info.Start = p.Start, p.Start
	r.records = append(r.records, parent.records[:at-p.Start]...)
	if err := r.inheritBeyond(parent.records[at-p.Start:], q.Sub); err != nil {
		return err
	}
	r.info.Tail = p.Start + stream.Offset(len(r.records))
	r.info.Fork = &stream.Fork{Parent: p.ID, From: q.From, At: at, Sub: q.Sub, End: r.info.Tail}
	return nil
}

// inheritBeyond copies what the sub-offset adds: messages of a JSON stream, else
// the first bytes of one record.
func (r *row) inheritBeyond(rest []timed, sub uint64) error {
	if sub == 0 {
		return nil
	}
	if stream.IsJSON(r.info.Config.ContentType) {
		if sub > uint64(len(rest)) {
			return stream.Errorf(stream.CodeBadRequest, "the sub-offset %d lies beyond the source's tail: %d messages follow the fork offset", sub, len(rest))
		}
		r.records = append(r.records, rest[:sub]...)
		return nil
	}
	if len(rest) == 0 || sub > uint64(len(rest[0].Body)) {
		return stream.Errorf(stream.CodeBadRequest, "the sub-offset %d lies beyond the record at the fork offset", sub)
	}
	cut := rest[0]
	cut.Body = cut.Body[:sub:sub]
	r.records = append(r.records, cut)
	return nil
}

// sameOrigin tells whether a stream began as the fork that a create asks for, by
// what was asked: the source may have been replaced, or gone, or grown since.
func sameOrigin(have *stream.Fork, q *stream.ForkRequest) bool {
	if have == nil || q == nil {
		return have == nil && q == nil
	}
	return have.From == q.From && have.Sub == q.Sub && (q.At == nil || *q.At == have.At)
}

// bury makes a stream a deleted one: it keeps its name and its parent, and
// nothing else.
func (r *row) bury() {
	r.deleted = true
	r.records = nil
	r.first, r.info.Start = r.info.Tail, r.info.Tail
	r.info.Closed, r.info.Config.Expiry, r.info.Config.Retention = false, stream.Expiry{}, stream.Retention{}
}

// remove takes a stream away for good, and every deleted stream that it was the
// last fork of. The caller holds mu.
func (s *Streams) remove(r *row) {
	delete(s.names, r.info.Name)
	if r.info.Fork == nil {
		return
	}
	parent := s.byID(r.info.Fork.Parent)
	if parent == nil {
		return // it expired before
	}
	parent.info.Forks--
	if parent.deleted && parent.info.Forks == 0 {
		s.remove(parent)
	}
}

// Inspect describes a stream as httpapi.AdminConfig wants it. A piece is what
// one moment wrote.
func (s *Streams) Inspect(_ context.Context, name stream.Name) (stream.Detail, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.lookup(name)
	if err != nil {
		return stream.Detail{}, err
	}
	detail := stream.Detail{Info: r.info, Deleted: r.deleted}
	for i := range r.records {
		if i == 0 || r.records[i].at != r.records[i-1].at {
			detail.Extents++
		}
	}
	return detail, nil
}
