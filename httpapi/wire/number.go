package wire

import (
	"math"

	"github.com/picomq/picomq/stream"
)

// ParseDecimal reads a plain decimal number: one or more ASCII digits and
// nothing else. Leading zeros are allowed. The error does not name the header
// or parameter; its caller does.
func ParseDecimal(s string) (uint64, error) {
	if s == "" {
		return 0, stream.Errorf(stream.CodeBadRequest, "an empty value is not a plain decimal number")
	}
	var n uint64
	for i := range len(s) {
		c := s[i] - '0'
		if c > 9 {
			return 0, stream.Errorf(stream.CodeBadRequest, "%q is not a plain decimal number (digits only, no sign or space)", clip(s))
		}
		if n > (math.MaxUint64-uint64(c))/10 {
			return 0, stream.Errorf(stream.CodeBadRequest, "%q is too large a number", clip(s))
		}
		n = n*10 + uint64(c)
	}
	return n, nil
}

// ParseCanonicalDecimal is [ParseDecimal] without leading zeros: a number has
// one spelling.
func ParseCanonicalDecimal(s string) (uint64, error) {
	n, err := ParseDecimal(s)
	if err == nil && len(s) > 1 && s[0] == '0' {
		return 0, stream.Errorf(stream.CodeBadRequest, "%q has a leading zero; write the number without it", clip(s))
	}
	return n, err
}

// clip shortens a client's value for a message that quotes it.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
