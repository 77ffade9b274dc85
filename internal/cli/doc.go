// Package cli is the command line of picomq: the client verbs, and what every
// command shares (environment variables, errors, exit codes, signals).
//
//	root := cli.Root(version)
//	root.AddCommand(serveCommand())
//	os.Exit(cli.Execute(root))
//
// # Rules that every command keeps
//
// Data goes to standard output, everything else to standard error, so that any
// verb can stand in a pipe. A flag wins over its environment variable, and that
// over the default; the variable of --some-flag is PICOMQ_SOME_FLAG, and help
// texts name it. An error is one line that begins with "picomq:". The exit code
// is 0, or 1 when a request failed, 2 when the command was not understood, and
// 130 when a signal ended it.
//
// Every verb works through both protocols where the protocol can; where it
// cannot, the error says which one can.
package cli
