package httpapi

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// adminStreams is the root of the streams on the admin listener. Below it a
// stream has the name that it has below the root of Pico, escapes included.
const adminStreams = "/streams/"

// stream answers with one stream in detail, as JSON. Refusals have the shape of
// Pico's; internal errors are told as they are, because who can ask here may read
// the log.
func (c AdminConfig) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", cacheNever)
	detail, err := c.inspect(r)
	if err != nil {
		refuseAdmin(w, err)
		return
	}
	writeAdminJSON(w, http.StatusOK, streamDetail(&detail, c.Retention))
}

func (c AdminConfig) inspect(r *http.Request) (stream.Detail, error) {
	name, err := nameBelow(adminStreams, r)
	if err != nil {
		return stream.Detail{}, err
	}
	return c.Inspect(r.Context(), name)
}

func refuseAdmin(w http.ResponseWriter, err error) {
	known := refusalOf(stream.CodeOf(err))
	if known.status == http.StatusServiceUnavailable {
		var refused *stream.Error
		errors.As(err, &refused)
		w.Header().Set("Retry-After", retryAfter(refused.RetryAfter))
	}
	writeAdminJSON(w, known.status, wire.ErrorBody{Error: known.name, Message: err.Error()})
}

// writeAdminJSON answers with JSON and an end of line, for those who look from a shell.
func writeAdminJSON(w http.ResponseWriter, status int, value any) {
	writeJSONBody(w, status, value)
	_, _ = io.WriteString(w, "\n") // a client that has gone needs no answer
}

func streamDetail(d *stream.Detail, byDefault stream.Retention) wire.StreamDetail {
	listed := listedStream(&d.Info)
	shown := wire.StreamDetail{
		Name:        listed.Name,
		ID:          d.ID,
		ContentType: listed.ContentType,
		Created:     time.UnixMilli(int64(d.Created)).UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		StartSeq:    listed.StartSeq,
		NextSeq:     listed.NextSeq,
		Closed:      listed.Closed,
		Deleted:     d.Deleted,
		TTL:         listed.TTL,
		ExpiresAt:   listed.ExpiresAt,
		Extents:     d.Extents,
		LiveForks:   d.Forks,
	}
	own := d.Config.Retention
	shown.RetentionAge, shown.RetentionBytes = own.Age, own.Bytes
	if own.Age == 0 {
		shown.DefaultRetentionAge = byDefault.Age
	}
	if own.Bytes == 0 {
		shown.DefaultRetentionBytes = byDefault.Bytes
	}
	if f := d.Fork; f != nil {
		shown.Fork = &wire.ForkDetail{From: "/" + string(f.From), ParentID: f.Parent, Seq: f.At, SubOffset: f.Sub}
	}
	return shown
}
