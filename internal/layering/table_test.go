package layering

// module is the import path of this module; paths in this package are relative to it.
const module = "github.com/picomq/picomq"

// mayImport says for every package which others of this module its production code may import. The package that
// needs something declares the interface for it; only cmd/picomq sees both sides.
//
// A row ending in "/..." covers every package below it that has no row of its own.
var mayImport = map[string][]string{
	"stream":     {},
	"migrations": {},
	"web":        {},

	"commands":     {"stream"},
	"statemachine": {"stream", "commands"},

	"blobwal":            {"stream"},
	"blobwal/filebucket": {"stream"},
	"blockcache":         {"stream", "blobwal"},

	"sqllog":            {"commands", "migrations"},
	"sqllog/sqllogtest": {"commands", "migrations", "sqllog", "internal/postgres"},
	"replica":           {"stream", "commands", "statemachine", "replica/archive"},
	"replica/archive":   {"stream", "commands"},
	"replica/combine":   {"stream", "commands"},

	"engine": {"stream", "commands", "statemachine", "replica", "blobwal", "blockcache"},
	"upkeep": {"stream", "commands", "statemachine", "replica", "blobwal", "blockcache", "engine"},

	"httpapi":      {"stream", "httpapi/wire"},
	"httpapi/wire": {"stream"},
	"client":       {"stream", "httpapi/wire"},

	"cmd/picomq":        {"..."},
	"internal/clock":    {},
	"internal/jsontext": {},
	"internal/peer":     {"blobwal", "commands"},
	"internal/postgres": {},
	"internal/seldom":   {},
	"internal/...":      {"..."},
}

// everyoneMayImport are the parts of internal that production code outside cmd and internal may use.
var everyoneMayImport = []string{"internal/clock", "internal/jsontext", "internal/seldom"}

// testsMayImport are what tests may import beyond their package's row: fault injection and shared suites.
var testsMayImport = []string{"internal/...", "sqllog/sqllogtest", "replica/combine"}

// pure are the packages that replay history: given the same log they must do the same on every node, for ever.
var pure = []string{"commands", "statemachine"}

// impure are packages, and everything below them, that tell the time, guess, or reach outside the process.
var impure = []string{
	"crypto/rand", "database/sql", "io/fs", "io/ioutil", "log", "math/rand", "net", "os", "syscall", "testing",
	"time", "unique", "golang.org/x/sys", "golang.org/x/time",
}

// meaningless are names that say nothing about what a package holds.
var meaningless = []string{"util", "utils", "common", "helper", "helpers", "model", "models", "type", "types", "pkg", "misc", "shared", "base"}
