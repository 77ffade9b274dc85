// Package sqllogtest holds what a command log must do, as tests: [Run] is one
// suite that SQLite, Postgres and the in-memory log all pass, so that tests of
// other packages may use [Memory] and mean any of them.
//
// [Postgres] gives a test an empty schema of its own on a real server, which
// scripts/with-postgres starts. Without it those tests fail, they are not
// skipped.
package sqllogtest
