package cli

import (
	"bufio"
	"bytes"
	"io"

	"github.com/picomq/picomq/client"
	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// formatNames are the values of --format.
var formatNames = []string{"lines", "json", "raw"}

// recordPrinter writes records in one format and sends them on after every
// chunk.
type recordPrinter struct {
	out   *bufio.Writer
	write func(out *bufio.Writer, chunk *client.Chunk, r *client.Record) error
}

func newRecordPrinter(w io.Writer, format string) (*recordPrinter, error) {
	p := &recordPrinter{out: bufio.NewWriterSize(w, 64<<10)}
	switch format {
	case "lines":
		p.write = writeLine
	case "json":
		p.write = writeJSON
	case "raw":
		p.write = writeRaw
	default:
		return nil, usagef("--format is %q; use lines, json or raw", format)
	}
	return p, nil
}

// print writes a chunk's records; data is with the reader when it returns.
func (p *recordPrinter) print(chunk *client.Chunk) error {
	for i := range chunk.Records {
		if err := p.write(p.out, chunk, &chunk.Records[i]); err != nil {
			return err
		}
	}
	return p.out.Flush()
}

func writeRaw(out *bufio.Writer, _ *client.Chunk, r *client.Record) error {
	_, err := out.Write(r.Body)
	return err
}

// writeLine ends every record with a newline, unless it has one, or is many
// records whose bounds Durable Streams does not show.
func writeLine(out *bufio.Writer, chunk *client.Chunk, r *client.Record) error {
	if err := writeRaw(out, chunk, r); err != nil {
		return err
	}
	bounded := r.Known || stream.IsJSON(chunk.ContentType)
	if !bounded || bytes.HasSuffix(r.Body, []byte{'\n'}) {
		return nil
	}
	return out.WriteByte('\n')
}

// writeJSON is the record as the Pico protocol prints it, one a line. Durable
// Streams tells neither sequence nor time.
func writeJSON(out *bufio.Writer, _ *client.Chunk, r *client.Record) error {
	var object []byte
	if r.Known {
		run := stream.Run{First: r.Offset, Time: r.Time, Bodies: r.Body, Ends: []uint32{uint32(len(r.Body))}}
		if len(r.Headers) > 0 {
			run.Headers = [][]stream.Header{r.Headers}
		}
		array := wire.EncodeJSONRead(nil, []stream.Run{run})
		object = array[1 : len(array)-1]
	} else {
		const before, after = `{"records":[`, `]}`
		batch := wire.EncodeJSONAppend(nil, []stream.Record{r.Record})
		object = batch[len(before) : len(batch)-len(after)]
	}
	_, err := out.Write(append(object, '\n'))
	return err
}
