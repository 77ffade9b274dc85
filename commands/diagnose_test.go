package commands_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// diagnose prints CBOR in the diagnostic notation of RFC 8949, section 8, with
// one line per command. It shares nothing with the decoder under test, so it
// also shows that a reader which knows only CBOR reads a log row.
func diagnose(t *testing.T, data []byte) string {
	d := diagnosis{t: t, rest: data}
	d.item(0)
	require.Empty(t, d.rest, "bytes after the end")
	return d.out.String() + "\n"
}

type diagnosis struct {
	t    *testing.T
	rest []byte
	out  strings.Builder
}

func (d *diagnosis) take(n int) []byte {
	require.LessOrEqual(d.t, n, len(d.rest), "ends early")
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

func (d *diagnosis) argument(low byte) uint64 {
	switch low {
	case 24:
		return uint64(d.take(1)[0])
	case 25:
		return uint64(binary.BigEndian.Uint16(d.take(2)))
	case 26:
		return uint64(binary.BigEndian.Uint32(d.take(4)))
	case 27:
		return binary.BigEndian.Uint64(d.take(8))
	default:
		require.Less(d.t, low, byte(24), "an argument that RFC 8949 reserves")
		return uint64(low)
	}
}

func (d *diagnosis) item(depth int) {
	first := d.take(1)[0]
	if first == 0xbf {
		d.pairs(depth)
		return
	}
	if first == 0xf5 {
		d.out.WriteString("true")
		return
	}
	n := d.argument(first & 0x1f)
	switch first >> 5 {
	case 0:
		fmt.Fprintf(&d.out, "%d", n)
	case 1:
		fmt.Fprintf(&d.out, "%d", -1-int64(n))
	case 2:
		fmt.Fprintf(&d.out, "h'%x'", d.take(int(n)))
	case 3:
		fmt.Fprintf(&d.out, "%q", d.take(int(n)))
	case 4:
		d.items(int(n), depth)
	default:
		require.Failf(d.t, "unexpected item", "first byte %#02x", first)
	}
}

func (d *diagnosis) items(n, depth int) {
	d.out.WriteString("[")
	for i := range n {
		if i > 0 {
			d.out.WriteString(", ")
		}
		d.item(depth + 1)
	}
	d.out.WriteString("]")
}

func (d *diagnosis) pairs(depth int) {
	d.out.WriteString("{")
	for i := 0; d.rest[0] != 0xff; i++ {
		if i > 0 {
			d.out.WriteString(",")
		}
		if depth < 3 { // payload and proposals over several lines
			fmt.Fprintf(&d.out, "\n%s", strings.Repeat(" ", depth+2))
		} else if i > 0 {
			d.out.WriteString(" ")
		}
		d.item(depth + 1)
		d.out.WriteString(": ")
		d.item(depth + 1)
	}
	d.take(1)
	d.out.WriteString("}")
}
