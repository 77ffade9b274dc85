package filebucket

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"

	"gocloud.dev/blob/driver"
)

const (
	defaultContentType = "application/octet-stream"

	magic     = "\x89filebucket-1\r\n\x1a"
	footerLen = 4 + 4 + len(magic)

	// maxAttributes bounds the attributes of one object as JSON, in bytes.
	maxAttributes = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// attributes are what an object has besides its bytes. The zero value is an
// object with the default content type.
type attributes struct {
	ContentType        string            `json:"content_type,omitempty"`
	CacheControl       string            `json:"cache_control,omitempty"`
	ContentDisposition string            `json:"content_disposition,omitempty"`
	ContentEncoding    string            `json:"content_encoding,omitempty"`
	ContentLanguage    string            `json:"content_language,omitempty"`
	Metadata           map[string]string `json:"metadata,omitempty"`
}

func newAttributes(contentType string, opts *driver.WriterOptions) attributes {
	if contentType == defaultContentType {
		contentType = ""
	}
	return attributes{
		ContentType:        contentType,
		CacheControl:       opts.CacheControl,
		ContentDisposition: opts.ContentDisposition,
		ContentEncoding:    opts.ContentEncoding,
		ContentLanguage:    opts.ContentLanguage,
		Metadata:           opts.Metadata,
	}
}

func (a *attributes) contentType() string {
	if a.ContentType == "" {
		return defaultContentType
	}
	return a.ContentType
}

func (a *attributes) empty() bool {
	return a.ContentType == "" && a.CacheControl == "" && a.ContentDisposition == "" &&
		a.ContentEncoding == "" && a.ContentLanguage == "" && len(a.Metadata) == 0
}

// encode returns the trailer.
func (a *attributes) encode() ([]byte, error) {
	trailer, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("%w: attributes: %w", errKey, err)
	}
	if len(trailer) > maxAttributes {
		return nil, fmt.Errorf("%w: the attributes have %d bytes, the limit is %d", errKey, len(trailer), maxAttributes)
	}
	trailer = binary.LittleEndian.AppendUint32(trailer, uint32(len(trailer)))
	trailer = binary.LittleEndian.AppendUint32(trailer, crc32.Checksum(trailer, castagnoli))
	return append(trailer, magic...), nil
}

// readTrailer returns the attributes in a file of fileSize bytes and how many of
// its bytes are the object's.
func readTrailer(f io.ReaderAt, fileSize int64) (attributes, int64, error) {
	var attrs attributes
	if fileSize < int64(footerLen) {
		return attrs, fileSize, nil
	}
	var footer [footerLen]byte
	if _, err := f.ReadAt(footer[:], fileSize-int64(footerLen)); err != nil {
		return attrs, 0, err
	}
	if string(footer[8:]) != magic {
		return attrs, fileSize, nil
	}
	n := int64(binary.LittleEndian.Uint32(footer[:4]))
	size := fileSize - int64(footerLen) - n
	if n > maxAttributes || size < 0 {
		return attrs, 0, fmt.Errorf("%w: it claims %d bytes of attributes in a file of %d", errDamaged, n, fileSize)
	}
	body := make([]byte, n+4)
	if _, err := f.ReadAt(body, size); err != nil {
		return attrs, 0, err
	}
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(footer[4:8]) {
		return attrs, 0, fmt.Errorf("%w: its checksum does not match", errDamaged)
	}
	if err := json.Unmarshal(body[:n], &attrs); err != nil {
		return attrs, 0, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return attrs, size, nil
}

// tail remembers the last bytes of what was written, to know whether an object
// without attributes needs a trailer all the same: its bytes end in the magic.
type tail struct {
	bytes [len(magic)]byte
	n     int
}

func (t *tail) add(p []byte) {
	if len(p) >= len(t.bytes) {
		t.n = copy(t.bytes[:], p[len(p)-len(t.bytes):])
		return
	}
	if drop := t.n + len(p) - len(t.bytes); drop > 0 {
		t.n = copy(t.bytes[:], t.bytes[drop:t.n])
	}
	t.n += copy(t.bytes[t.n:], p)
}

func (t *tail) isMagic() bool { return bytes.Equal(t.bytes[:t.n], []byte(magic)) }
