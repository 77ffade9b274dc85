package memstreams

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/picomq/picomq/stream"
)

// Epoch is the time at which every clock of this package starts.
const Epoch stream.Time = 1_700_000_000_000

// Streams holds streams. Make one with [New]; it is safe for concurrent use.
type Streams struct {
	mu      sync.Mutex
	now     stream.Time
	last    uint64 // dense number given last
	names   map[stream.Name]*row
	changed chan struct{} // closed and replaced at every change
	failure error
	waiting atomic.Int64
}

// row is one stream.
type row struct {
	info      stream.Info
	first     stream.Offset // of records[0]: what trimming left
	records   []timed
	touched   stream.Time
	attached  int // readers that wait: with one it is not idle
	streamSeq string
	producers map[string]*producer
	closedBy  stream.Producer // the request that closed it; ID is empty if none
	deleted   bool            // while forks of it live
}

type timed struct {
	stream.Record
	at stream.Time
}

type producer struct {
	epoch, seq uint64
	firsts     map[uint64]stream.Offset // of the requests of this epoch
}

// New makes a service without streams.
func New() *Streams {
	return &Streams{now: Epoch, names: make(map[stream.Name]*row), changed: make(chan struct{})}
}

// Advance moves the clock.
func (s *Streams) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now += stream.Time(d.Milliseconds())
	s.wake()
}

// FailWith makes every call fail with err until it is called with nil.
func (s *Streams) FailWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	s.wake()
}

func (s *Streams) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// find is a stream that exists now. The caller holds mu.
func (s *Streams) find(name stream.Name) (*row, error) {
	r, err := s.lookup(name)
	if err == nil && r.deleted {
		return nil, errDeleted(name)
	}
	return r, err
}

func errDeleted(name stream.Name) error {
	return stream.Errorf(stream.CodeDeleted, "the stream %q was deleted; its name is free again when the last of its forks is gone", name)
}

// lookup is a stream that exists now, or was deleted while forks of it live. The
// caller holds mu.
func (s *Streams) lookup(name stream.Name) (*row, error) {
	if s.failure != nil {
		return nil, s.failure
	}
	s.expire()
	r := s.names[name]
	if r == nil {
		return nil, stream.Errorf(stream.CodeNotFound, "there is no stream %q; create it with PUT", name)
	}
	return r, nil
}

// expire removes every stream that is due, whatever forks it has.
func (s *Streams) expire() {
	for _, r := range s.names {
		if r.expired(s.now) {
			s.remove(r)
		}
	}
}

func (r *row) expired(now stream.Time) bool {
	switch e := r.info.Config.Expiry; e.Kind {
	case stream.ExpiresIdle:
		return r.attached == 0 && now >= r.touched+stream.Time(e.TTL*1000)
	case stream.ExpiresAt:
		return now >= e.At
	default:
		return false
	}
}

// Create implements httpapi.Streams.
func (s *Streams) Create(_ context.Context, name stream.Name, q *stream.CreateRequest) (stream.Created, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := checkFork(name, q.Fork); err != nil {
		return stream.Created{}, err
	}
	if err := checkJSON(q.Config.ContentType, q.Records, q.JSONChecked); err != nil {
		return stream.Created{}, err
	}
	r, err := s.find(name)
	switch {
	case err == nil && sameConfig(r.info, q):
		return stream.Created{Info: r.info}, nil
	case err == nil:
		return stream.Created{}, stream.Errorf(stream.CodeConflict, "the stream %q exists with another configuration", name)
	case stream.CodeOf(err) == stream.CodeDeleted:
		return stream.Created{}, stream.Errorf(stream.CodeConflict, "%w; create another", err)
	case stream.CodeOf(err) != stream.CodeNotFound:
		return stream.Created{}, err
	}
	return s.create(name, q)
}

// create makes a stream under a free name. The caller holds mu.
func (s *Streams) create(name stream.Name, q *stream.CreateRequest) (stream.Created, error) {
	r, err := s.begin(q)
	if err != nil {
		return stream.Created{}, err
	}
	records := q.Records
	if q.Parse != nil {
		if records, err = q.Parse(r.info.Config.ContentType); err != nil {
			return stream.Created{}, err
		}
	}
	if err := checkJSON(r.info.Config.ContentType, records, q.JSONChecked); err != nil {
		return stream.Created{}, err
	}
	s.last++
	r.info.ID, r.info.Name = stream.MakeID(0, s.last), name
	r.add(records, s.now)
	s.names[name] = r
	if r.info.Fork != nil {
		s.byID(r.info.Fork.Parent).info.Forks++
	}
	s.wake()
	return stream.Created{Info: r.info, New: true}, nil
}

// sameConfig tells whether a stream is what a create asks for. What a fork leaves
// out is whatever it was, and so is a bound of retention that is left out.
func sameConfig(have stream.Info, q *stream.CreateRequest) bool {
	sameType := stream.MediaType(have.Config.ContentType) == stream.MediaType(q.Config.ContentType) ||
		q.Fork != nil && q.Config.ContentType == ""
	sameExpiry := have.Config.Expiry == q.Config.Expiry ||
		q.Fork != nil && q.Config.Expiry.Kind == stream.ExpiresNever
	sameRetention := q.Config.Retention.Or(have.Config.Retention) == have.Config.Retention
	return sameType && sameExpiry && sameRetention && have.Closed == q.Closed && sameOrigin(have.Fork, q.Fork)
}

func (r *row) add(records []stream.Record, now stream.Time) {
	for _, record := range records {
		record.Body = bytes.Clone(record.Body) // it is the caller's
		r.records = append(r.records, timed{record, now})
	}
	r.info.Tail += stream.Offset(len(records))
}

// Append implements httpapi.Streams.
func (s *Streams) Append(_ context.Context, name stream.Name, q *stream.AppendRequest) (stream.Appended, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(name)
	if err != nil {
		return stream.Appended{}, err
	}
	duplicate, err := r.check(q)
	if err != nil || duplicate != nil {
		return valueOf(duplicate), err
	}
	if err := checkJSON(r.info.Config.ContentType, q.Records, q.JSONChecked); err != nil {
		return stream.Appended{}, err
	}
	first := r.info.Tail
	r.add(q.Records, s.now)
	r.touched = s.now
	if q.StreamSeq != nil {
		r.streamSeq = *q.StreamSeq
	}
	r.info.Closed = q.Close
	answer := stream.Appended{First: first, FirstKnown: true, Next: r.info.Tail, Time: s.now, Closed: q.Close}
	if q.Producer != nil {
		r.accept(*q.Producer, first, q.Close)
		answer.Producer = *q.Producer
	}
	s.wake()
	return answer, nil
}

func valueOf(a *stream.Appended) stream.Appended {
	if a == nil {
		return stream.Appended{}
	}
	return *a
}

// check applies the rules of an append in their order. It answers a duplicate.
func (r *row) check(q *stream.AppendRequest) (*stream.Appended, error) {
	if q.Producer != nil {
		if answer := r.duplicateOf(*q.Producer); answer != nil {
			return answer, nil
		}
		if p := r.producers[q.Producer.ID]; p != nil && q.Producer.Epoch < p.epoch {
			return nil, &stream.Error{Code: stream.CodeFenced, Message: "a newer epoch of this producer has written", Epoch: p.epoch}
		}
	}
	if r.info.Closed {
		if q.Producer == nil && q.Close && len(q.Records) == 0 {
			return &stream.Appended{Next: r.info.Tail, Closed: true}, nil
		}
		return nil, &stream.Error{Code: stream.CodeClosed, Message: "the stream is closed", Tail: r.info.Tail, Closed: true}
	}
	if len(q.Records) > 0 && q.ContentType != "" && stream.MediaType(q.ContentType) != stream.MediaType(r.info.Config.ContentType) {
		return nil, stream.Errorf(stream.CodeTypeMismatch, "the stream's content type is %s", r.info.Config.ContentType)
	}
	if err := r.checkProducer(q.Producer); err != nil {
		return nil, err
	}
	if q.Match != nil && *q.Match != r.info.Tail {
		return nil, &stream.Error{Code: stream.CodeMatchFailed, Message: "the tail is elsewhere", Tail: r.info.Tail}
	}
	if q.StreamSeq != nil && *q.StreamSeq <= r.streamSeq {
		return nil, &stream.Error{Code: stream.CodeStreamSeq, Message: "Stream-Seq must grow", Tail: r.info.Tail}
	}
	return nil, nil
}

// duplicateOf answers a request that was accepted before, or is nil. On a
// closed stream only the request that closed it counts.
func (r *row) duplicateOf(q stream.Producer) *stream.Appended {
	p := r.producers[q.ID]
	if p == nil || p.epoch != q.Epoch || q.Seq > p.seq || r.info.Closed && r.closedBy != q {
		return nil
	}
	first, known := p.firsts[q.Seq]
	return &stream.Appended{
		First: first, FirstKnown: known, Next: r.info.Tail, Closed: r.info.Closed, Duplicate: true,
		Producer: stream.Producer{ID: q.ID, Epoch: p.epoch, Seq: p.seq},
	}
}

func (r *row) checkProducer(q *stream.Producer) error {
	if q == nil {
		return nil
	}
	p, expected := r.producers[q.ID], uint64(0)
	if p != nil && p.epoch == q.Epoch {
		expected = p.seq + 1
	}
	switch {
	case q.Seq == expected:
		return nil
	case p != nil && p.epoch != q.Epoch:
		return &stream.Error{Code: stream.CodeEpochStart, Message: "a new epoch begins at sequence 0", Epoch: p.epoch}
	default:
		return &stream.Error{Code: stream.CodeSequenceGap, Message: "a sequence was left out", Expected: expected, Received: q.Seq}
	}
}

func (r *row) accept(q stream.Producer, first stream.Offset, closing bool) {
	p := r.producers[q.ID]
	if p == nil || p.epoch != q.Epoch {
		p = &producer{epoch: q.Epoch, firsts: make(map[uint64]stream.Offset)}
		r.producers[q.ID] = p
	}
	p.seq = q.Seq
	p.firsts[q.Seq] = first
	if closing {
		r.closedBy = q
	}
}

func checkJSON(contentType string, records []stream.Record, checked bool) error {
	if checked || !stream.IsJSON(contentType) {
		return nil
	}
	for _, record := range records {
		if !json.Valid(record.Body) || !utf8.Valid(record.Body) {
			return stream.Errorf(stream.CodeBadRequest, "a record of a JSON stream is not valid JSON")
		}
	}
	return nil
}

// Trim implements httpapi.Streams.
func (s *Streams) Trim(_ context.Context, name stream.Name, to stream.Offset) (stream.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(name)
	if err != nil {
		return stream.Info{}, err
	}
	r.trim(min(to, r.info.Tail))
	r.touched = s.now
	return r.info, nil
}

// trim drops the records below an offset, which is not beyond the tail.
func (r *row) trim(to stream.Offset) {
	to = max(to, r.info.Start)
	r.records = r.records[to-r.info.Start:]
	r.first, r.info.Start = to, to
}

// Delete implements httpapi.Streams.
func (s *Streams) Delete(_ context.Context, name stream.Name) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(name)
	if err != nil {
		return err
	}
	if r.info.Forks > 0 {
		r.bury()
	} else {
		s.remove(r)
	}
	s.wake()
	return nil
}

// Head implements httpapi.Streams.
func (s *Streams) Head(_ context.Context, name stream.Name) (stream.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.find(name)
	if err != nil {
		return stream.Info{}, err
	}
	return r.info, nil
}

// List implements httpapi.Streams.
func (s *Streams) List(_ context.Context, q stream.ListRequest) (stream.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != nil {
		return stream.Page{}, s.failure
	}
	s.expire()
	var found []stream.Info
	for name, r := range s.names {
		if strings.HasPrefix(string(name), q.Prefix) && name > q.StartAfter && !r.deleted {
			found = append(found, r.info)
		}
	}
	slices.SortFunc(found, func(a, b stream.Info) int { return strings.Compare(string(a.Name), string(b.Name)) })
	page := stream.Page{Streams: found[:min(len(found), q.Limit)], More: len(found) > q.Limit}
	return page, nil
}
