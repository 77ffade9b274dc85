package httpapi

import (
	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// parseDecimal reads a plain decimal number of at most limit: digits only, no
// sign, no space. Leading zeros are allowed. The error, an *[stream.Error] of
// code [stream.CodeBadRequest], says what the number was for.
func parseDecimal(what, text string, limit uint64) (uint64, error) {
	n, err := wire.ParseDecimal(text)
	return checkNumber(what, n, err, limit)
}

// parseCanonical is parseDecimal without leading zeros: one number, one text.
func parseCanonical(what, text string, limit uint64) (uint64, error) {
	n, err := wire.ParseCanonicalDecimal(text)
	return checkNumber(what, n, err, limit)
}

func checkNumber(what string, n uint64, err error, limit uint64) (uint64, error) {
	if err != nil {
		return 0, stream.Errorf(stream.CodeBadRequest, "%s: %w", what, err)
	}
	if n > limit {
		return 0, stream.Errorf(stream.CodeBadRequest, "%s: %d is too large; at most %d is allowed", what, n, limit)
	}
	return n, nil
}
