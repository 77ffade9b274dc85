package wire

import "github.com/picomq/picomq/stream"

// Reserve asks for memory before a decoder of appended batches takes it for
// what it decodes: bytes is what it will hold beside its input and what it has
// asked for before. Its error ends the decoding and is returned as it is. A nil
// Reserve grants everything.
type Reserve func(bytes int64) error

// Records reserves for records without headers whose bodies lie in the input.
func (r Reserve) Records(n int) error { return r.batch(n, 0, 0) }

// batch reserves for records, their headers and the bytes that are copied out
// of the input.
func (r Reserve) batch(records, headers, copied int) error {
	if r == nil {
		return nil
	}
	return r(stream.RecordMemory*int64(records) + stream.HeaderMemory*int64(headers) + int64(copied))
}

// checkCount refuses a batch of too few or too many records.
func checkCount(records int) error {
	switch {
	case records == 0:
		return stream.Errorf(stream.CodeBadRequest, "the batch has no records; send at least one")
	case records > stream.MaxRecords:
		return stream.Errorf(stream.CodeTooLarge,
			"the batch has more than %d records; send them in several requests", stream.MaxRecords)
	}
	return nil
}
