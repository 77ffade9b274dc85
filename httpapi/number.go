package httpapi

import (
	"strconv"

	"github.com/picomq/picomq/stream"
)

// parseDecimal reads a plain decimal number of at most max: digits only, no
// sign, no space. Leading zeros are allowed. What names the number in the
// error, an *[stream.Error] of code [stream.CodeBadRequest].
func parseDecimal(what, text string, max uint64) (uint64, error) {
	if !isDigits(text) {
		return 0, stream.Errorf(stream.CodeBadRequest, "%s is %q; it must be a plain decimal number", what, clip(text))
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n > max {
		return 0, stream.Errorf(stream.CodeBadRequest, "%s is %s; it must be at most %d", what, clip(text), max)
	}
	return n, nil
}

// parseCanonical is parseDecimal without leading zeros: one number, one text.
func parseCanonical(what, text string, max uint64) (uint64, error) {
	if len(text) > 1 && text[0] == '0' {
		return 0, stream.Errorf(stream.CodeBadRequest, "%s is %q; it must have no leading zero", what, clip(text))
	}
	return parseDecimal(what, text, max)
}

func isDigits(text string) bool {
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return text != ""
}

// clip shortens what a client sent before it is quoted to them.
func clip(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
