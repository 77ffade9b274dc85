package wire

import (
	"bytes"
)

// BeginEvent appends the first lines of an event: its name, and its id unless
// that is empty. Neither may hold a line break.
func BeginEvent(dst []byte, name, id string) []byte {
	dst = append(dst, "event: "...)
	dst = append(dst, name...)
	dst = append(dst, '\n')
	if id != "" {
		dst = append(dst, "id: "...)
		dst = append(dst, id...)
		dst = append(dst, '\n')
	}
	return dst
}

// AppendEventData appends data as data lines, split at CRLF, CR and LF. A
// reader puts them together again with LF. Empty data is one empty line.
func AppendEventData(dst, data []byte) []byte {
	for {
		end := bytes.IndexAny(data, "\r\n")
		line := data
		if end >= 0 {
			line = data[:end]
		}
		dst = append(dst, "data:"...)
		if len(line) > 0 && line[0] == ' ' {
			dst = append(dst, ' ') // the one that readers drop
		}
		dst = append(dst, line...)
		dst = append(dst, '\n')
		if end < 0 {
			return dst
		}
		if data[end] == '\r' && end+1 < len(data) && data[end+1] == '\n' {
			end++
		}
		data = data[end+1:]
	}
}

// EndEvent appends the empty line that sends an event.
func EndEvent(dst []byte) []byte { return append(dst, '\n') }

// AppendComment appends a comment, which readers ignore: it shows that the
// connection is alive. The text may not hold a line break.
func AppendComment(dst []byte, text string) []byte {
	dst = append(dst, ": "...)
	dst = append(dst, text...)
	return append(dst, "\n\n"...)
}
