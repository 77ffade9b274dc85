package peer

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/picomq/picomq/blobwal"
)

const (
	pathPrefix = "/segments/"
	bearer     = "Bearer "
)

// Recent is a segment's whole object, if it is in this node's memory.
type Recent func(id blobwal.SegmentID) (object []byte, ok bool)

// Handler serves what is in this node's memory of a cluster's segments to nodes
// that know the secret, which must not be empty.
func Handler(cluster [16]byte, secret string, recent Recent) http.Handler {
	return guarded(secret, http.MethodGet, func(w http.ResponseWriter, r *http.Request) {
		object, ok := find(cluster, strings.TrimPrefix(r.URL.Path, pathPrefix), recent)
		if !ok {
			http.Error(w, "not in memory", http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.Itoa(len(object)))
		_, _ = w.Write(object) // who is gone does not care
	})
}

// guarded lets requests of one method through that carry the secret.
func guarded(secret, method string, serve http.HandlerFunc) http.Handler {
	want := sha256.Sum256([]byte(secret)) // of one length, whatever is sent
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), bearer)
		got := sha256.Sum256([]byte(sent))
		if same := subtle.ConstantTimeCompare(got[:], want[:]) == 1; !same || !isBearer || secret == "" {
			// Its body is not waited for, which need not come.
			w.Header().Set("Connection", "close")
			_ = http.NewResponseController(w).SetReadDeadline(time.Now())
			http.Error(w, "the cluster's secret is wrong: give all nodes the same --cluster-secret", http.StatusUnauthorized)
			return
		}
		if r.Method != method {
			http.Error(w, "only "+method, http.StatusMethodNotAllowed)
			return
		}
		serve(w, r)
	})
}

func find(cluster [16]byte, key string, recent Recent) ([]byte, bool) {
	of, id, err := blobwal.ParseKey(key)
	if err != nil || of != cluster {
		return nil, false
	}
	return recent(id)
}
