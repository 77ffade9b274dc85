package sqllog

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
)

// advise adds to an error of opening what to do about it, where the server's own
// text does not say.
func advise(err error) error {
	if advice := adviceFor(err); advice != "" {
		return fmt.Errorf("%w: %s", err, advice)
	}
	return err
}

func adviceFor(err error) string {
	var failure *pgconn.PgError
	if errors.As(err, &failure) {
		switch failure.Code {
		case "28P01", "28000":
			return "check the user and the password in the URL, and the server's pg_hba.conf"
		case "3D000":
			return "create the database, or name another in the URL"
		case "3F000":
			return "create the schema that search_path names, or name another in the URL"
		case "42501":
			return "grant the role CREATE on the schema for the first start, or start once with its owner's URL; where the tables are there, " +
				"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA"
		case "53300":
			return fmt.Sprintf("raise the server's max_connections: each node takes up to %d", PoolSize+1)
		case "57P03":
			return "start again when it accepts connections"
		}
		return ""
	}
	var network *net.OpError
	var name *net.DNSError
	if errors.As(err, &network) || errors.As(err, &name) {
		return "check host and port in the URL, and that the server runs and may be reached from here"
	}
	return ""
}

// tables are all that a log uses.
const tables = "'log_head', 'command_log', 'origins', 'snapshots', 'log_archive', 'leases', 'nodes'"

// migrationError is the error of migrating. Where the role may not, that is because
// it may not use the tables, if they are there.
func migrationError(ctx context.Context, db *bun.DB, err error) error {
	var failure *pgconn.PgError
	if errors.As(err, &failure) && failure.Code == "42501" {
		if rights := checkRights(ctx, db); rights != nil {
			return rights
		}
	}
	return err
}

// checkRights refuses a role that cannot use the tables that are there, before a
// request finds out.
func checkRights(ctx context.Context, db *bun.DB) error {
	var denied, role, schema string
	err := db.DB.QueryRowContext(ctx, `SELECT coalesce(string_agg(name, ', '), ''), current_user, current_schema() FROM unnest(ARRAY[`+tables+`]) AS name
WHERE to_regclass(name) IS NOT NULL AND NOT (has_table_privilege(name, 'SELECT') AND has_table_privilege(name, 'INSERT')
    AND has_table_privilege(name, 'UPDATE') AND has_table_privilege(name, 'DELETE'))`).Scan(&denied, &role, &schema)
	switch {
	case err != nil:
		return fmt.Errorf("ask for the role's rights: %w", err)
	case denied != "":
		return fmt.Errorf("the role %s may not read and write %s: GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %s TO %s", role, denied, schema, role)
	}
	return nil
}
