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
// texts name it where there is one; a variable that is empty is not set. An error is one line that
// begins with "picomq:".
//
// The exit code is 0, or
//
//	1    when a request failed, or standard output could not be written
//	2    when the command line was not understood
//	3    when "picomq fsck" could not complete its check
//	130  when SIGINT ended the command
//	141  when its output was read no more, as if SIGPIPE had ended it; nothing
//	     is printed then
//	143  when SIGTERM ended it
//
// Every verb works through both protocols where the protocol can; where it
// cannot, the error says which one can.
package cli
