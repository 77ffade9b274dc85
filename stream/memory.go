package stream

// MaxRecords is the most records that one request brings. Each costs memory and
// work beside its bytes, however few those are, so that a bound on bytes alone
// would not bound either.
const MaxRecords = 1 << 16

// What a record and a header take in memory beside their text, in bytes, while a
// request is under way: the values themselves, and where their ends are noted on
// the way to the bucket.
const (
	RecordMemory = 64
	HeaderMemory = 48
)

// MemoryOf is about how many bytes the records take in memory.
func MemoryOf(records []Record) int64 {
	size := RecordMemory * int64(len(records))
	for i := range records {
		size += int64(len(records[i].Body))
		for _, h := range records[i].Headers {
			size += HeaderMemory + int64(len(h.Name)+len(h.Value))
		}
	}
	return size
}
