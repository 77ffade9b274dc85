package sqllog

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// openPool is a pool of connections whose errors say once what they say.
func openPool(config *pgx.ConnConfig, options ...stdlib.OptionOpenDB) *sql.DB {
	return sql.OpenDB(connector{stdlib.GetConnector(*config, options...)})
}

type connector struct{ driver.Connector }

// Connect implements [driver.Connector].
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, connectError{err}
	}
	return conn, nil
}

// connectError is why there is no connection. pgx tries a server with TLS and
// without, and says of each, on a line of its own, what is mostly the same.
type connectError struct{ error }

// hooks are the driver's names for what is done on a new connection.
var hooks = strings.NewReplacer("ValidateConnect failed: ", "", "AfterConnect error: ", "")

// Error is the text on one line, without lines that others hold already.
func (e connectError) Error() string {
	var text string
	for line := range strings.Lines(e.error.Error()) {
		line = hooks.Replace(strings.Join(strings.Fields(line), " "))
		switch {
		case text == "":
			text = line
		case strings.Contains(text, line):
		case strings.HasSuffix(text, ":"):
			text += " " + line
		default:
			text += "; " + line
		}
	}
	return text
}

// Unwrap is the error as it was.
func (e connectError) Unwrap() error { return e.error }
