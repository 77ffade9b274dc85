// Package layering holds no code, only the tests that keep the architecture of this module true: which package may
// import which, which packages stay free of clocks and I/O, and which names a package may not have.
//
// The tests read the import clauses of every Go file of the module, whatever its build constraints say, so that a
// forbidden import is found on every platform. A new package must be given its row in the table first.
package layering
