package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// readerCheck is how often a command that waits looks whether anybody still
// reads what it prints.
const readerCheck = time.Second

// output is standard output. It marks its failures, so that they are not taken
// for those of a connection.
type output struct{ w io.Writer }

// Write implements io.Writer. Its error is an outputError.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if err != nil {
		err = outputError{err}
	}
	return n, err
}

// outputError is why standard output could not be written.
type outputError struct{ error }

// Unwrap is the error itself.
func (e outputError) Unwrap() error { return e.error }

// isReaderGone tells whether a command ended because its output is read no
// more, as in "picomq read a | head". That is nobody's fault.
func isReaderGone(err error) bool {
	var failed outputError
	return errors.As(err, &failed) && errors.Is(failed, syscall.EPIPE)
}

// whileRead is a context that also ends when nobody reads what is written to w
// any more; its cause is then an error of isReaderGone. It is for commands that
// wait: others learn it from writing. Where w is no file it is just a child of
// ctx. The caller stops it.
func whileRead(ctx context.Context, w io.Writer) (context.Context, context.CancelFunc) {
	file, isFile := outputFile(w)
	if !isFile {
		return context.WithCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(readerCheck)
		defer ticks.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
				if hungUp(file) {
					cancel(outputError{syscall.EPIPE})
					return
				}
			}
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-done
	}
}

func outputFile(w io.Writer) (file *os.File, isFile bool) {
	if o, wrapped := w.(*output); wrapped {
		w = o.w
	}
	file, isFile = w.(*os.File)
	return file, isFile
}

// hungUp asks the system whether the other end of a pipe or terminal is gone.
// Other files have none.
func hungUp(file *os.File) bool {
	raw, err := file.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd)}} // errors and hang-ups are always told
		n, err := unix.Poll(poll, 0)
		gone = err == nil && n == 1 && poll[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return err == nil && gone
}
