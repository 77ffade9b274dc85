// Package postgres runs PostgreSQL servers for tests: each is a throw-away one,
// on a port of 127.0.0.1, with its data in a temporary folder, whose address and
// URL stay the same while it is stopped, crashed and started again.
//
//	primary, err := postgres.New(ctx)                // running
//	standby, err := primary.Standby(ctx, "standby")  // streaming from it
//	err = primary.Synchronize(ctx, standby)          // commits wait for it
//	err = primary.Kill()                             // kill -9
//	err = standby.Promote(ctx)                       // takes writes
//
// Whoever makes a server calls [Server.Remove] in the end. Everyone may connect,
// from this machine, as the superuser postgres without a password. PostgreSQL
// refuses to run as root: a test that does starts it as the user postgres.
//
// Nothing waits by the clock alone: every wait ends with the server's answer or
// its end, and with the context.
package postgres
