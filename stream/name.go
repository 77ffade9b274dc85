package stream

import (
	"strings"
	"unicode/utf8"
)

// MaxNameBytes is the longest name, in bytes after percent-decoding.
const MaxNameBytes = 1024

// ReservedSegment is the first path segment that names no stream: control
// interfaces live under it.
const ReservedSegment = "__ds"

// Name is the path of a stream without its leading slash, kept byte for byte:
// "logs/api/prod". Both protocols spell the same name, each below its own root.
type Name string

// ParseName checks a decoded path, without its leading slash, and returns it
// as a Name. A name is 1 to [MaxNameBytes] bytes of valid UTF-8 without NUL;
// none of its segments is empty, "." or "..", and the first is not
// [ReservedSegment]. The error is an [*Error] of code [CodeBadRequest].
func ParseName(path string) (Name, error) {
	switch {
	case path == "":
		return "", Errorf(CodeBadRequest, "the stream name is empty; name a stream after the slash")
	case len(path) > MaxNameBytes:
		return "", Errorf(CodeBadRequest, "the stream name has %d bytes; at most %d are allowed", len(path), MaxNameBytes)
	case strings.IndexByte(path, 0) >= 0:
		return "", Errorf(CodeBadRequest, "the stream name contains a NUL byte")
	case !utf8.ValidString(path):
		return "", Errorf(CodeBadRequest, "the stream name is not valid UTF-8")
	}
	first := true
	for segment := range strings.SplitSeq(path, "/") {
		switch {
		case segment == "":
			return "", Errorf(CodeBadRequest, "the stream name %q has an empty segment (a doubled or trailing slash)", path)
		case segment == "." || segment == "..":
			return "", Errorf(CodeBadRequest, "the stream name %q has a segment %q", path, segment)
		case first && segment == ReservedSegment:
			return "", Errorf(CodeBadRequest, "the stream name %q begins with the reserved segment %s", path, ReservedSegment)
		}
		first = false
	}
	return Name(path), nil
}
