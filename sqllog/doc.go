// Package sqllog keeps the command log in a SQL database: SQLite for a node on
// its own, Postgres for several. It puts rows in order and hands them out; it
// does not look inside their payloads.
//
//	l, err := sqllog.Open(ctx, "sqlite://picomq-data/log.db", sqllog.Options{})
//	at, err := l.Append(ctx, commands.Insert{Origin: o, Payload: p, Applied: last})
//	rows, err := l.Read(ctx, last.Index, 1000, 1<<20)
//
// # Appending
//
// Indexes are dense: row n+1 is written when row n is committed, never before,
// and nothing is ever inserted between them. An append is one message, which
// takes the lock of appends, gives the next index, inserts the row and its
// origins, notifies, and commits. On Postgres it travels by the simple protocol,
// so nothing from the client is awaited while the lock is held, at whatever byte
// it stops sending. The server also ends a statement, an idle transaction and a
// silent connection after less than a second ([ServerTimeout]), but for those of
// a migration, which has minutes. So a node that freezes anywhere cannot stop the
// appends of the others. The database's clock is
// read after the lock is taken: times follow the order of indexes as far as that
// clock does.
//
// The isolation is READ COMMITTED, set for each connection: the statement behind
// the lock sees all that was committed under the lock before.
//
// The lock is an advisory one, of the schema, which waits in order. On Postgres
// no row is changed by an append: the head is what the last row says. A row that
// each append changed would leave a version behind each time, all of which are
// read again while anybody keeps an old snapshot: after 20,000 appends beside an
// open transaction, appends were five times slower, and slower with each.
//
// A row may hold what several nodes asked for ([commands.Part]): each has its
// origin, each one's last applied row is checked, and either all of it is
// inserted or nothing.
//
// # What a failed append means
//
// A failed append means "unknown", not "failed", unless the database said
// otherwise:
//
//	error                when                                            then
//	ErrNotSent           no connection; the server refused or rolled      repeat
//	                     back the statement and said so (table below)
//	ErrDuplicateOrigin   the origin is in the log                        FindOrigin, compare digests
//	ErrLostTail          the proposer's last applied row is not there    stop serving
//	ErrTruncated         that row and others after it were truncated     start again
//	ErrUnknown           the answer was lost: a broken connection, a     FindOrigin, then repeat under
//	                     cancelled context, a passed deadline, a         the same origin
//	                     terminated backend, anything not listed
//	none of these        the insert itself is wrong (its size, a         give up
//	                     constraint or permission)
//
// A repeated insert waits behind a first one still under way, and only one of
// them can succeed, because origins are unique.
//
// No call asks the server to cancel what it does, whose answer is not waited for any
// more: a commit that waits for a synchronous standby would then stand on the
// primary alone, and be found.
//
// An error of severity ERROR was sent by Postgres instead of the commit, so
// these are certain to have written nothing: 25006 read-only transaction (the
// primary became a standby), 26000 prepared statement gone, 40001 serialization failure, 40P01 deadlock,
// 53xxx resources (disk full, memory, connections), 55P03 lock not available,
// 57014 statement timeout: all ErrNotSent; 22xxx data, 23xxx constraint, 42xxx
// syntax, name or permission: refused for good. FATAL errors (57P01 terminated
// by an administrator) and 08xxx arrive on connections that break, possibly
// between the commit and its answer: unknown. On SQLite: BUSY, LOCKED, FULL,
// READONLY and CANTOPEN are ErrNotSent, CONSTRAINT is refused for good, the
// rest is unknown, I/O errors included.
//
// # The chain
//
// Every row has a random id and carries its predecessor's. [Log.Read] verifies
// the chain and each payload's digest within what it returns; the caller
// compares the first row's Previous with what it applied last. An append names
// the row that its proposer applied last, and is refused when it is not there.
// A database that was restored from an older copy, or failed over to a replica
// that lacked commits, so shows at the first append, poll or read, also when
// it has grown again meanwhile.
//
// # Archive and truncation
//
// The log does not grow for ever: rows that were written to the bucket may
// leave it, from the front. One row of log_archive says how far either went.
// An archive object is first announced, which decides once where it ends, then
// put by whoever does it, then recorded ([Log.AnnounceArchive],
// [Log.AdvanceArchive]). [Log.Truncate] moves the boundary and deletes the rows
// with their origins in one statement, which itself makes sure that they are
// archived; on Postgres it does not take the lock of appends, which do not wait for
// it.
//
// The last truncated row stays known by its id. The first kept row is checked
// against it, and a proposer that applied exactly that row may append; one that
// is further behind is told ErrTruncated, and so is whoever reads what is gone.
// An origin that is not found may have been truncated with its row:
// [Log.FindOrigin] says "not found" only if that cannot be.
//
// Space: on Postgres autovacuum makes the pages of deleted rows usable again.
// On SQLite they are used again by the next rows, and a file of which more than
// half is free is given back in part by each Truncate.
//
// # Which databases are accepted
//
// [Open] refuses a Postgres that is a standby, or has fsync,
// synchronous_commit or full_page_writes off: what it acknowledges may be gone
// after a crash. Appends wait for their commit also where synchronous_commit is
// turned off later.
// A pooler between must keep
// sessions (PgBouncer: pool_mode=session), because settings, prepared statements
// and LISTEN belong to one: Open looks whether two connections have a session
// each, and whether a notification arrives, and refuses otherwise. Settings are
// made by a statement, since poolers take few in a connection's first message. A
// database migrated by a newer release is refused, and so is a role that may not
// use the tables. The right to make tables is needed by the first start only.
//
// SQLite runs in WAL mode with synchronous=FULL, so a commit is on disk when
// it is acknowledged. One process owns the file: a lock on PATH.lock is held
// as long as the Log is open, which the kernel releases when the process dies.
//
// # Which server
//
// A URL may name several hosts, primary and standbys, in any order. Every new
// connection is checked to be to a primary; the host that was it a moment ago is
// tried first, and each gets an equal part of the time of a call, so that one that
// never answers keeps nobody from the next. A promoted standby begins a new
// timeline: once a log met it, it takes no connection to a server on an older one,
// and uses none that it has, until it is closed. So a primary that was replaced and
// comes back, or lives on, is left alone. What a promoted standby lacks is noticed
// by the chain.
//
// # Bounds
//
// A payload is 1 to commands.MaxPayload bytes. A call takes at most
// Options.Timeout, connecting included; an append to SQLite takes two thirds of
// that, behind the calls before it, and as long as the disk does. Postgres: at most [PoolSize]
// connections and one that listens. SQLite: one that writes and
// [ReaderPoolSize] that read. Wakeups coalesce in a channel of capacity 1. One
// goroutine runs as long as a Postgres log is open.
package sqllog
