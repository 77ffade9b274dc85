package stream

// Run is consecutive records of one stream that carry one timestamp and whose
// bodies lie end to end in one slice, as they lie in a segment. In a JSON
// stream one comma separates neighbours, so that '[' + Bodies + ']' is an array.
// The slices are shared with caches and must not be written to.
type Run struct {
	First  Offset
	Time   Time
	JSON   bool
	Bodies []byte
	// Ends[i] - Base is the end of body i within Bodies.
	Ends []uint32
	Base uint32
	// Headers[i] belongs to record i; nil when no record of the run has any.
	Headers [][]Header
}

// Len is the number of records.
func (r *Run) Len() int { return len(r.Ends) }

// Body is the body of record i, 0 ≤ i < Len.
func (r *Run) Body(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = r.Ends[i-1] - r.Base
		if r.JSON {
			start++ // the comma
		}
	}
	end := r.Ends[i] - r.Base
	return r.Bodies[start:end:end]
}

// HeadersOf is the headers of record i, 0 ≤ i < Len.
func (r *Run) HeadersOf(i int) []Header {
	if r.Headers == nil {
		return nil
	}
	return r.Headers[i]
}

// Slice is the records from up to but excluding to, 0 ≤ from < to ≤ Len. It
// copies no bodies.
func (r *Run) Slice(from, to int) Run {
	out := *r
	out.First += Offset(from)
	start := uint32(0)
	if from > 0 {
		start = r.Ends[from-1] - r.Base
		if r.JSON {
			start++
		}
	}
	end := r.Ends[to-1] - r.Base
	out.Bodies = r.Bodies[start:end:end]
	out.Ends = r.Ends[from:to:to]
	out.Base = r.Base + start
	if r.Headers != nil {
		out.Headers = r.Headers[from:to:to]
	}
	return out
}

// Cut is the first record with at most the first n bytes of its body. It copies no
// body.
func (r *Run) Cut(n uint32) Run {
	out := r.Slice(0, 1)
	n = min(n, uint32(len(out.Bodies)))
	out.Bodies = out.Bodies[:n:n]
	out.Ends = []uint32{out.Base + n}
	return out
}
