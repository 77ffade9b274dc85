package stream

import "strings"

// DefaultContentType is the type of a stream created without one.
const DefaultContentType = "application/octet-stream"

// MediaType is a content type reduced to what is compared: lower case, without
// parameters or space around it.
func MediaType(contentType string) string {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

// IsJSON tells whether a stream of this content type keeps JSON messages: its
// media type is exactly application/json. Types ending in +json are bytes.
func IsJSON(contentType string) bool { return MediaType(contentType) == "application/json" }

// IsText tells whether a stream of this content type is text for an event
// stream: text/* or JSON. Others travel there as base64.
func IsText(contentType string) bool {
	media := MediaType(contentType)
	return strings.HasPrefix(media, "text/") || media == "application/json"
}
