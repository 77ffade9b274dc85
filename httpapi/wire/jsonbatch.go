package wire

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/picomq/picomq/stream"
)

// EncodeJSONAppend appends a JSON batch of records. Bodies that are not UTF-8
// go as body_b64. Header names and values must be UTF-8.
func EncodeJSONAppend(dst []byte, records []stream.Record) []byte {
	dst = append(dst, `{"records":[`...)
	for i := range records {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = appendJSONRecord(dst, records[i].Headers, records[i].Body)
	}
	return append(dst, `]}`...)
}

// EncodeJSONRead appends the JSON array of the runs' records, on one line.
func EncodeJSONRead(dst []byte, runs []stream.Run) []byte {
	dst = append(dst, '[')
	first := true
	for r := range runs {
		run := &runs[r]
		for i := range run.Len() {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(dst, `{"seq":`...)
			dst = strconv.AppendUint(dst, uint64(run.First)+uint64(i), 10)
			dst = append(dst, `,"timestamp":`...)
			dst = strconv.AppendInt(dst, int64(run.Time), 10)
			dst = append(dst, ',')
			dst = appendJSONRecord(dst, run.HeadersOf(i), run.Body(i))
		}
	}
	return append(dst, ']')
}

// appendJSONRecord appends the members that both formats share and the
// closing brace.
func appendJSONRecord(dst []byte, headers []stream.Header, body []byte) []byte {
	if len(headers) > 0 {
		dst = append(dst, `"headers":{`...)
		for i, h := range headers {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSONString(dst, h.Name)
			dst = append(dst, ':')
			dst = appendJSONString(dst, h.Value)
		}
		dst = append(dst, `},`...)
	}
	if utf8.Valid(body) {
		dst = append(dst, `"body":`...)
		dst = appendJSONString(dst, body)
	} else {
		dst = append(dst, `"body_b64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, body)
		dst = append(dst, '"')
	}
	return append(dst, '}')
}

// DecodeJSONAppend reads a JSON batch of 1 to [stream.MaxRecords] records.
// Bodies written without escapes share the memory of data. It asks reserve before
// it takes memory.
func DecodeJSONAppend(data []byte, reserve Reserve) ([]stream.Record, error) {
	s, err := newJSONScanner(data)
	if err != nil {
		return nil, err
	}
	found, count, headers := s.measureBatch()
	if s.err != nil {
		return nil, s.err
	}
	if !found {
		return nil, stream.Errorf(stream.CodeBadRequest, `the JSON batch has no "records"; send {"records":[…]}`)
	}
	if err := checkCount(count); err != nil {
		return nil, err
	}
	// No copy of what is escaped, or of a header, is longer than its text.
	if err := reserve.batch(count, headers, len(data)); err != nil {
		return nil, err
	}
	records, free := make([]stream.Record, 0, count), make([]stream.Header, 0, headers)
	s.batch(func() {
		f := jsonFields{free: free}
		f.read(s)
		free = f.free
		records = append(records, f.record)
	})
	if s.err != nil {
		return nil, s.err
	}
	return records, nil
}

// batch calls record at each record of a batch, and tells whether the batch
// names any list of them.
func (s *jsonScanner) batch(record func()) (found bool) {
	s.object("the batch", func(key []byte) {
		if string(key) != "records" || s.null() {
			s.skip()
			return
		}
		s.once(&found, "records")
		s.array("records", record)
	})
	return found
}

// measureBatch counts the records of a batch and their headers, up to one record
// more than are allowed. It returns to where it began.
func (s *jsonScanner) measureBatch() (found bool, records, headers int) {
	begin := s.pos
	header := func([]byte) {
		headers++
		s.skip()
	}
	member := func(key []byte) {
		if string(key) != "headers" || s.null() {
			s.skip()
			return
		}
		s.object("headers", header)
	}
	found = s.batch(func() {
		if records > stream.MaxRecords {
			s.skip()
			return
		}
		records++
		s.object("a record", member)
	})
	s.pos = begin
	return found, records, headers
}

// DecodeJSONRead reads the JSON array of a read. Bodies written without
// escapes share the memory of data.
func DecodeJSONRead(data []byte) ([]ReadRecord, error) {
	s, err := newJSONScanner(data)
	if err != nil {
		return nil, err
	}
	records := []ReadRecord{}
	s.array("a read", func() {
		f := jsonFields{positioned: true}
		f.read(s)
		records = append(records, ReadRecord{Seq: f.seq, Time: f.time, Record: f.record})
	})
	if s.err != nil {
		return nil, s.err
	}
	return records, nil
}

// jsonFields is one record while its members are read.
type jsonFields struct {
	record     stream.Record
	seq        stream.Offset
	time       stream.Time
	free       []stream.Header // capacity for the headers of this record and those after it
	positioned bool            // of a read: seq and timestamp are required

	hasHeaders, hasText, hasBase64, hasSeq, hasTime bool
}

func (f *jsonFields) read(s *jsonScanner) {
	s.object("a record", func(key []byte) { f.member(s, key) })
	switch {
	case s.err != nil:
	case f.hasText == f.hasBase64:
		s.fail(`a record needs exactly one of "body" and "body_b64"`)
	case f.positioned && (!f.hasSeq || !f.hasTime):
		s.fail(`a record of a read needs "seq" and "timestamp"`)
	}
}

func (f *jsonFields) member(s *jsonScanner, key []byte) {
	if s.null() {
		s.skip()
		return
	}
	switch key := string(key); {
	case key == "headers":
		s.once(&f.hasHeaders, key)
		s.object(key, func(name []byte) {
			value := s.text("a header value")
			f.free = append(f.free, stream.Header{Name: string(name), Value: string(value)})
		})
		if n := len(f.free); n > 0 {
			f.record.Headers, f.free = f.free[:n:n], f.free[n:]
		}
	case key == "body":
		s.once(&f.hasText, key)
		f.record.Body = s.text(key)
	case key == "body_b64":
		s.once(&f.hasBase64, key)
		f.record.Body = s.base64(key)
	case key == "seq" && f.positioned:
		s.once(&f.hasSeq, key)
		n, err := strconv.ParseUint(s.number(key), 10, 64)
		s.check(err, key)
		f.seq = stream.Offset(n)
	case key == "timestamp" && f.positioned:
		s.once(&f.hasTime, key)
		n, err := strconv.ParseInt(s.number(key), 10, 64)
		s.check(err, key)
		f.time = stream.Time(n)
	default:
		s.skip()
	}
}
