package wire

import (
	"github.com/picomq/picomq/stream"
)

// An offset token of Durable Streams is two decimals of tokenDigits digits
// joined by '_'. The second is the offset. The first is reserved and always
// zero in tokens that are given out, so that tokens compare bytewise in the
// order of their offsets.
const (
	tokenDigits = 16
	tokenLength = 2*tokenDigits + 1
)

// BeyondEveryTail is what [ParseToken] makes of a well-formed token that no
// stream ever gives out. It is above [stream.MaxOffset].
const BeyondEveryTail = stream.MaxOffset + 1

// AppendToken appends the token of an offset, at most [stream.MaxOffset].
func AppendToken(dst []byte, o stream.Offset) []byte {
	start := len(dst)
	dst = append(dst, "0000000000000000_0000000000000000"...)
	for i := len(dst) - 1; o > 0 && i > start+tokenDigits; i-- {
		dst[i] = byte('0' + o%10)
		o /= 10
	}
	return dst
}

// FormatToken is the token of an offset, at most [stream.MaxOffset].
func FormatToken(o stream.Offset) string {
	return string(AppendToken(make([]byte, 0, tokenLength), o))
}

// ParseToken reads a token back. A token whose reserved half is not zero is
// well formed and lies beyond every tail ([BeyondEveryTail]). "-1" and "now"
// are words of the protocol, not tokens.
func ParseToken(s string) (stream.Offset, error) {
	if len(s) != tokenLength || s[tokenDigits] != '_' {
		return 0, badToken(s)
	}
	reserved, err := ParseDecimal(s[:tokenDigits])
	if err != nil {
		return 0, badToken(s)
	}
	offset, err := ParseDecimal(s[tokenDigits+1:])
	if err != nil {
		return 0, badToken(s)
	}
	if reserved != 0 {
		return BeyondEveryTail, nil
	}
	return stream.Offset(offset), nil
}

func badToken(s string) error {
	return stream.Errorf(stream.CodeBadRequest,
		"%q is not an offset of this server; send one it gave in %s, or -1 for the beginning, or now", clip(s), StreamNextOffset)
}
