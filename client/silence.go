package client

import (
	"context"
	"errors"
	"io"
	"time"
)

// liveSilence is after how long without a byte a live connection counts as
// dead. Servers write at least a comment every 15 to 20 s, and answer a poll in
// about 30 s.
const liveSilence = 90 * time.Second

var errSilent = errors.New("nothing came for " + liveSilence.String())

// silenceWatch ends a connection that has gone silent: a server that lost power
// never says goodbye.
type silenceWatch struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

// watchSilence starts the watch; what is sent under the context it returns ends
// with it. The caller stops it.
func watchSilence(ctx context.Context) (context.Context, *silenceWatch) {
	ctx, cancel := context.WithCancelCause(ctx)
	w := &silenceWatch{cancel: cancel}
	w.timer = time.AfterFunc(liveSilence, func() { cancel(errSilent) })
	return ctx, w
}

func (w *silenceWatch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// reader reads r and starts the watch over with every byte.
func (w *silenceWatch) reader(ctx context.Context, r io.Reader) io.Reader {
	return watchedReader{r: r, watch: w, ctx: ctx}
}

type watchedReader struct {
	r     io.Reader
	watch *silenceWatch
	ctx   context.Context // only for its cause
}

// Read implements io.Reader.
func (r watchedReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if n > 0 {
		r.watch.timer.Reset(liveSilence)
	}
	if err != nil {
		err = whySilent(r.ctx, err)
	}
	return n, err
}

// whySilent is errSilent where that is behind an error.
func whySilent(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}
