package stream_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"

	"github.com/picomq/picomq/stream"
)

func TestMemoryOfRecords(t *testing.T) {
	records := []stream.Record{
		{Body: []byte("abc")},
		{},
		{Body: []byte("d"), Headers: []stream.Header{{Name: "k", Value: "value"}, {Name: "k"}}},
	}
	assert.EqualValues(t, 3*stream.RecordMemory+2*stream.HeaderMemory+3+1+6+1, stream.MemoryOf(records))
	assert.Zero(t, stream.MemoryOf(nil))
	assert.GreaterOrEqual(t, stream.RecordMemory, int(unsafe.Sizeof(stream.Record{})))
	assert.GreaterOrEqual(t, stream.HeaderMemory, int(unsafe.Sizeof(stream.Header{})))
}
