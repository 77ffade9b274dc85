package sqllog

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// MayPass tells whether what [Open] or a call that only reads failed with may pass by
// itself: a server that is not reached, starts, stops, or is overloaded. Settings,
// rights, credentials, a standby, and a SQLite file that another process has are
// somebody's to change.
func MayPass(err error) bool {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		switch code := refusal.Code; {
		case strings.HasPrefix(code, "57P"): // the server stops or starts
			return code != "57P04" // the database was dropped
		case strings.HasPrefix(code, "08"), strings.HasPrefix(code, "40"), strings.HasPrefix(code, "53"):
			return true // connections, conflicts, resources
		default:
			return code == "55P03" || code == "57014" // a lock, or a statement, took too long
		}
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return false
	}
	var network *net.OpError
	var name *net.DNSError
	return errors.As(err, &network) || errors.As(err, &name) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded)
}
