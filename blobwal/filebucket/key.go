package filebucket

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

const (
	// MaxKeyLen is the longest key in bytes; object stores have the same bound.
	MaxKeyLen = 1024

	// maxNameLen is the longest file name in bytes on the usual filesystems.
	maxNameLen = 255

	// stagingName is the directory below the root that holds no objects.
	stagingName = ".filebucket"

	// emptyName stands for an empty segment. No other segment escapes to it,
	// since a '%' in a segment becomes "%25".
	emptyName = "%"

	hexDigits = "0123456789ABCDEF"
)

// keyPath returns the path of key below root. It never leaves root: no escaped
// segment is empty, ".", ".." or the staging directory, or has a separator.
func keyPath(root, key string) (string, error) {
	switch {
	case key == "":
		return "", fmt.Errorf("%w: the key is empty", errKey)
	case len(key) > MaxKeyLen:
		return "", fmt.Errorf("%w: the key has %d bytes, the limit is %d", errKey, len(key), MaxKeyLen)
	case !utf8.ValidString(key):
		return "", fmt.Errorf("%w: the key is not UTF-8", errKey)
	}
	return joinKey(root, key)
}

// joinKey appends the escaped segments of key to root.
func joinKey(root, key string) (string, error) {
	var path strings.Builder
	path.WriteString(root)
	for segment := range strings.SplitSeq(key, "/") {
		name := escapeSegment(segment)
		if len(name) > maxNameLen {
			return "", fmt.Errorf("%w: a part between slashes has %d bytes when escaped, the limit is %d",
				errKey, len(name), maxNameLen)
		}
		path.WriteByte(filepath.Separator)
		path.WriteString(name)
	}
	return path.String(), nil
}

// escapeSegment returns the file name of one key segment.
func escapeSegment(segment string) string {
	switch {
	case segment == "":
		return emptyName
	case segment == "." || segment == "..":
		return strings.ReplaceAll(segment, ".", "%2E")
	case isStagingName(segment):
		return "%2E" + segment[1:] // it holds nothing else to escape
	case strings.IndexFunc(segment, mustEscape) < 0:
		return segment
	}
	var name strings.Builder
	for i := range len(segment) {
		if c := segment[i]; mustEscape(rune(c)) {
			name.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		} else {
			name.WriteByte(c)
		}
	}
	return name.String()
}

// mustEscape holds for ASCII only, so it may be asked about bytes and runes alike.
func mustEscape(c rune) bool {
	return c < 0x20 || c == 0x7f || c == '%' || c == '\\'
}

// isStagingName folds case because some filesystems do.
func isStagingName(name string) bool { return strings.EqualFold(name, stagingName) }

// unescapeSegment reverses escapeSegment. It reports false for a name that is
// not the escape of any segment, which therefore is not ours. Only the one spelling
// that escapeSegment makes counts: two names for one key would list it twice.
func unescapeSegment(name string) (string, bool) {
	if name == emptyName {
		return "", true
	}
	segment, ok := unescapeBytes(name)
	return segment, ok && utf8.ValidString(segment) && escapeSegment(segment) == name
}

// unescapeBytes replaces each "%XX" by the byte it stands for.
func unescapeBytes(name string) (string, bool) {
	if !strings.Contains(name, "%") {
		return name, true
	}
	out := make([]byte, 0, len(name))
	for i := 0; i < len(name); i++ {
		if name[i] != '%' {
			out = append(out, name[i])
			continue
		}
		if i+2 >= len(name) {
			return "", false
		}
		high, low := strings.IndexByte(hexDigits, name[i+1]), strings.IndexByte(hexDigits, name[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		out = append(out, byte(high<<4|low))
		i += 2
	}
	return string(out), true
}
