package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"time"
)

// Bounds of what is read ahead of the server.
const (
	maxLine       = 8 << 20 // bytes of one line
	maxBatchBytes = 1 << 20 // of a batch, unless one line is longer
	linesAhead    = 4096    // lines waiting to be batched
)

// batch is lines to append together. A last batch may carry only the error
// that ended the input.
type batch struct {
	lines [][]byte
	err   error // nil, or why no batch follows; io.EOF at the end
}

// batcher groups lines: a batch goes out when it has size lines or about a
// megabyte, when its first line is older than linger, or at the end. So a full
// pipe makes full batches and a slow one is not delayed.
type batcher struct {
	size        int
	linger      time.Duration
	keepNewline bool

	lines chan line
	held  *line // came, and did not fit the batch before
}

type line struct {
	text []byte
	err  error
}

// start reads lines from r until it ends, or until stop is closed; a read that
// blocks then is left behind.
func (b *batcher) start(r io.Reader, stop <-chan struct{}) {
	b.lines = make(chan line, min(linesAhead, 2*b.size))
	go func() {
		defer close(b.lines)
		reader := bufio.NewReaderSize(r, 64<<10)
		for n := 1; ; n++ {
			text, err := readLine(reader, b.keepNewline)
			if err != nil && !errors.Is(err, io.EOF) {
				err = fmt.Errorf("line %d: %w", n, err)
			}
			if len(text) > 0 || err == nil {
				select {
				case b.lines <- line{text: text}:
				case <-stop:
					return
				}
			}
			if err != nil {
				select {
				case b.lines <- line{err: err}:
				case <-stop:
				}
				return
			}
		}
	}()
}

// readLine is the next line as memory of its own, without its LF or CRLF
// unless it keeps them. A last line may lack them; then err is io.EOF.
func readLine(r *bufio.Reader, keepNewline bool) ([]byte, error) {
	var text []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(text)+len(part) > maxLine {
			return nil, fmt.Errorf("it is longer than %d bytes; append the input as one record with --whole, or in smaller pieces", maxLine)
		}
		text = append(text, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil && !keepNewline {
			text = text[:len(text)-1]
			if n := len(text); n > 0 && text[n-1] == '\r' {
				text = text[:n-1]
			}
		}
		return text, err
	}
}

// next is the next batch, waiting for its first line. It is empty with a nil
// error only when stop was closed.
func (b *batcher) next(stop <-chan struct{}) batch {
	var out batch
	bytes := 0
	var linger <-chan time.Time
	for {
		l, ok := b.receive(stop, linger)
		switch {
		case !ok:
			return out
		case l.err != nil:
			out.err = l.err
			return out
		case len(out.lines) > 0 && bytes+len(l.text) > maxBatchBytes:
			b.held = &l
			return out
		}
		out.lines = append(out.lines, l.text)
		bytes += len(l.text)
		if len(out.lines) == b.size {
			return out
		}
		if linger == nil {
			timer := time.NewTimer(b.linger)
			defer timer.Stop()
			linger = timer.C
		}
	}
}

func (b *batcher) receive(stop <-chan struct{}, linger <-chan time.Time) (l line, ok bool) {
	if b.held != nil {
		l, b.held = *b.held, nil
		return l, true
	}
	select {
	case l, ok = <-b.lines:
		return l, ok
	default:
	}
	select {
	case l, ok = <-b.lines:
		return l, ok
	case <-linger:
		return line{}, false
	case <-stop:
		return line{}, false
	}
}
