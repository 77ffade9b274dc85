package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/picomq/picomq/stream"
)

// chunkETag is the entity tag of a catch-up response. It differs whenever the
// bytes or the meaning of the response differ: by stream (the ID, which is never
// used again in a cluster, and the time of its creation, for clusters that begin
// anew behind the same address), by what was asked for and given, by the end of
// the stream, and by variant, the format where a protocol has several.
func chunkETag(c *stream.Chunk, variant string) string {
	tag := make([]byte, 0, 64)
	tag = append(tag, '"')
	tag = strconv.AppendUint(tag, uint64(c.ID), 36)
	tag = append(tag, '-')
	tag = strconv.AppendInt(tag, int64(c.Created), 36)
	tag = append(tag, ':')
	tag = strconv.AppendUint(tag, uint64(c.First), 10)
	tag = append(tag, ':')
	tag = strconv.AppendUint(tag, uint64(c.Next), 10)
	if c.UpToDate {
		tag = append(tag, ":t"...)
	}
	if c.AtEnd() {
		tag = append(tag, ":c"...)
	}
	if variant != "" {
		tag = append(tag, ':')
		tag = append(tag, variant...)
	}
	return string(append(tag, '"'))
}

// noneMatches tells whether If-None-Match of a request names the tag, so that
// 304 is the answer. Lists, weak tags and "*" count as HTTP says: the comparison
// is the weak one.
func noneMatches(r *http.Request, tag string) bool {
	for _, field := range r.Header.Values("If-None-Match") {
		if listHasTag(field, tag) {
			return true
		}
	}
	return false
}

func listHasTag(list, tag string) bool {
	for {
		list = strings.TrimLeft(list, " \t,")
		if list == "" {
			return false
		}
		if list[0] == '*' {
			return true
		}
		list = strings.TrimPrefix(list, "W/")
		if list == "" || list[0] != '"' {
			return false // not a tag: the rest cannot be read
		}
		end := strings.IndexByte(list[1:], '"')
		if end < 0 {
			return false
		}
		if list[:end+2] == tag {
			return true
		}
		list = list[end+2:]
	}
}
