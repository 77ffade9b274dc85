// Package migrations holds the SQL schema of the command log, one folder per
// dialect, and brings a database up to it.
//
// # Tables
//
//	log_head     one row per log: the last index, its row id and its predecessor's. On
//	             Postgres it is a view of the last row of command_log.
//	command_log  the log. Key (log, idx). Each row has a random row_id and carries
//	             its predecessor's, the database's clock when it was inserted
//	             (db_time_ms, Unix milliseconds), its origin (node, epoch,
//	             origin_seq), columns for people (kinds, commands, appends), and the
//	             payload with its XXH64 (digest, as a signed integer).
//	origins      (log, node, epoch, seq) -> idx, unique: a proposal is in the log once.
//	             On Postgres with the XXH64 of what its node asked to insert (digest).
//	snapshots    (log, idx) -> digest, object key, bytes, taken_ms, confirmed.
//	log_archive  one row per log: the last archived row (idx, row_id), the key and digest
//	             of the object that holds it, the last row of the object being written
//	             (announced_idx, 0 when none is), and the last row that was deleted after
//	             it was archived (truncated_idx, truncated_row_id), never past idx. On
//	             SQLite moving truncated_idx deletes the rows, by a trigger.
//	leases       (log, name) -> node, epoch, expires_ms in database time.
//	nodes        (log, node) -> the last heartbeat.
//
// The column log is the number of a log within its cluster, today always 0.
// Names are never quoted by a schema: a cluster is whatever the connection's
// search_path (Postgres) or file (SQLite) holds.
//
// # Rules for a migration
//
// A file is named VERSION_name.tx.up.sql, VERSION being fourteen digits that
// sort after every released one, and has a .tx.down.sql beside it. A released
// file is never edited. It runs in one transaction, and is marked applied
// after that transaction: a process that dies between the two runs it again,
// so every statement must be harmless when repeated (IF NOT EXISTS, ON
// CONFLICT DO NOTHING). A question mark must not appear, it is bun's
// placeholder. On Postgres a file lifts the connection's statement timeout
// with SET LOCAL when it may run long.
//
// A database that holds a migration this binary does not know was written by a
// newer release, and is refused with a [*NewerSchemaError] before anything is
// changed.
package migrations
