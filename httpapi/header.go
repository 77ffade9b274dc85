package httpapi

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/picomq/picomq/httpapi/wire"
	"github.com/picomq/picomq/stream"
)

// oneHeader is the value of a request header that may come once. A header that
// is there but empty is present.
func oneHeader(h http.Header, name string) (value string, present bool, err error) {
	values := h.Values(name)
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	default:
		return "", true, stream.Errorf(stream.CodeBadRequest, "%s is there %d times; send it once", name, len(values))
	}
}

// queryOf is the query of a request, which must be well formed.
func queryOf(r *http.Request) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, stream.Errorf(stream.CodeBadRequest, "the query is malformed: %w", err)
	}
	return query, nil
}

// oneParameter is the value of a query parameter that may come once.
func oneParameter(query url.Values, name string) (value string, present bool, err error) {
	switch values := query[name]; len(values) {
	case 0:
		return "", false, nil
	case 1:
		return values[0], true, nil
	default:
		return "", true, stream.Errorf(stream.CodeBadRequest, "the parameter %s is there %d times; send it once", name, len(values))
	}
}

// isTrue reads a flag: only "true", in any case, sets it.
func isTrue(value string) bool { return strings.EqualFold(value, "true") }

// contentTypeOf is the content type that a request names, as it was sent; empty
// when it names none.
func contentTypeOf(h http.Header) (string, error) {
	contentType, _, err := oneHeader(h, "Content-Type")
	if err != nil {
		return "", err
	}
	return contentType, checkContentType(contentType)
}

func checkContentType(contentType string) error {
	if len(contentType) > stream.MaxContentType {
		return stream.Errorf(stream.CodeBadRequest, "Content-Type has %d bytes; at most %d are allowed",
			len(contentType), stream.MaxContentType)
	}
	for i := range len(contentType) {
		if contentType[i] < ' ' || contentType[i] > '~' {
			return stream.Errorf(stream.CodeBadRequest, "Content-Type %q has characters outside printable ASCII", contentType)
		}
	}
	return nil
}

// instant is how RFC 3339 writes a time. Package time alone is too lenient: it
// takes one digit for an hour, a comma for the point, and offsets of a day.
var instant = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// parseInstant reads an RFC 3339 time, with Z or a numeric offset. It must have
// a form in UTC, too: an offset can lead out of the years 0 to 9999.
func parseInstant(header, text string) (stream.Time, error) {
	at, err := time.Parse(time.RFC3339, text)
	if year := at.UTC().Year(); err != nil || !instant.MatchString(text) || year < 0 || year > 9999 {
		return 0, stream.Errorf(stream.CodeBadRequest, "%s is not an RFC 3339 time such as 2030-01-31T12:00:00Z", header)
	}
	return stream.Time(at.UnixMilli()), nil
}

// formatInstant is a time as RFC 3339 in UTC, with milliseconds if it has any.
func formatInstant(t stream.Time) string {
	return time.UnixMilli(int64(t)).UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// location is the absolute URL of the stream that a request is about, as the
// client spelled it. A proxy in front says by X-Forwarded-Proto which scheme
// its client used.
func location(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	if forwarded := r.Header.Get("X-Forwarded-Proto"); forwarded == "http" || forwarded == "https" {
		scheme = forwarded
	}
	return scheme + "://" + r.Host + r.URL.EscapedPath()
}

// The Cache-Control values of reads.
const (
	cacheNever    = "no-store"
	cacheChecks   = "no-cache"                                       // with an entity tag
	cacheShared   = "public, max-age=60, stale-while-revalidate=300" // for bytes that cannot change any more
	cacheInterval = "public, max-age=20"                             // as long as a cursor
)

// setStale says how old the view is that an answer comes from, where the log
// could not be asked.
func setStale(h http.Header, info stream.Info) {
	if info.StaleMillis > 0 {
		h.Set(wire.PicoStaleMs, strconv.FormatInt(info.StaleMillis, 10))
	}
}
