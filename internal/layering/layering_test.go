package layering

import (
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryImportIsInTheTable(t *testing.T) {
	for _, file := range goFiles(t) {
		_, known := row(file.pkg)
		require.Truef(t, known, "%s: package %s has no row in the table of imports: decide what it may import first", file.path, file.pkg)
		for _, imported := range againstTheTable(file) {
			assert.Failf(t, "forbidden import", "%s: package %s may not import %s", file.path, file.pkg, imported)
		}
	}
}

func TestReplayedCodeHasNoClockAndNoIO(t *testing.T) {
	for _, file := range goFiles(t) {
		for _, imported := range againstPurity(file) {
			assert.Failf(t, "impure import", "%s: package %s replays history and may not import %s", file.path, file.pkg, imported)
		}
	}
}

// TestTheTableForbids shows that the tests above can fail.
func TestTheTableForbids(t *testing.T) {
	tests := []struct {
		name      string
		file      goFile
		forbidden []string
	}{
		{"an import of its row", goFile{pkg: "engine", imports: []string{"fmt", module + "/replica"}}, nil},
		{"an import outside its row", goFile{pkg: "engine", imports: []string{module + "/httpapi"}}, []string{"httpapi"}},
		{"the package below an allowed one", goFile{pkg: "engine", imports: []string{module + "/blobwal/filebucket"}}, []string{"blobwal/filebucket"}},
		{"the clock", goFile{pkg: "replica", imports: []string{module + "/internal/clock"}}, nil},
		{"another internal package", goFile{pkg: "replica", imports: []string{module + "/internal/loadgen"}}, []string{"internal/loadgen"}},
		{"another internal package in a test", goFile{pkg: "replica", isTest: true, imports: []string{module + "/internal/loadgen"}}, nil},
		{"its own package in a test", goFile{pkg: "replica", isTest: true, imports: []string{module + "/replica"}}, nil},
		{"anything in the binary", goFile{pkg: "cmd/picomq", imports: []string{module + "/sqllog", module + "/internal/cli"}}, nil},
		{"a binary", goFile{pkg: "internal/cli", imports: []string{module + "/cmd/picomq"}}, []string{"cmd/picomq"}},
	}
	for _, test := range tests {
		assert.Equal(t, test.forbidden, againstTheTable(test.file), test.name)
	}
	assert.Equal(t, []string{"time", "math/rand/v2"},
		againstPurity(goFile{pkg: "statemachine", imports: []string{"fmt", "time", "math/rand/v2", "network"}}))
	assert.Empty(t, againstPurity(goFile{pkg: "sqllog", imports: []string{"time"}}))
}

func TestPackageNamesSayWhatTheyHold(t *testing.T) {
	for _, file := range goFiles(t) {
		assert.NotContainsf(t, meaningless, file.name, "%s: give package %s a name that says what it holds", file.path, file.pkg)
		for segment := range strings.SplitSeq(file.pkg, "/") {
			assert.NotContainsf(t, meaningless, segment, "%s: give the folder a name that says what it holds", file.path)
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	documented := map[string]bool{}
	for _, file := range goFiles(t) {
		if !file.isTest {
			documented[file.pkg] = documented[file.pkg] || file.hasDoc
		}
	}
	require.NotEmpty(t, documented)
	for pkg, ok := range documented {
		assert.Truef(t, ok, "package %s has no package comment", pkg)
	}
}

// againstTheTable returns the packages of this module that the file imports and may not.
func againstTheTable(file goFile) (forbidden []string) {
	allowed, _ := row(file.pkg)
	allowed = append(slices.Clone(allowed), everyoneMayImport...)
	if file.isTest {
		allowed = append(allowed, file.pkg) // an external test imports what it tests
		allowed = append(allowed, testsMayImport...)
	}
	for _, imported := range file.imports {
		ours, isOurs := strings.CutPrefix(imported, module+"/")
		if isOurs && !covered(allowed, ours) {
			forbidden = append(forbidden, ours)
		}
	}
	return forbidden
}

// againstPurity returns what the production code of a pure package imports and may not.
func againstPurity(file goFile) (forbidden []string) {
	if file.isTest || !slices.Contains(pure, file.pkg) {
		return nil
	}
	for _, imported := range file.imports {
		if slices.ContainsFunc(impure, func(root string) bool { return within(root, imported) }) {
			forbidden = append(forbidden, imported)
		}
	}
	return forbidden
}

// row returns what a package may import: its own row, or that of the nearest folder above it.
func row(pkg string) (allowed []string, known bool) {
	if allowed, known = mayImport[pkg]; known {
		return allowed, true
	}
	for dir := path.Dir(pkg); dir != "."; dir = path.Dir(dir) {
		if allowed, known = mayImport[dir+"/..."]; known {
			return allowed, true
		}
	}
	return nil, false
}

// covered reports whether one of the patterns allows the package; "internal/..." allows all below internal and "..."
// everything but the commands, which nothing imports.
func covered(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		root, wild := strings.CutSuffix(pattern, "...")
		if root == "" {
			return wild && !within("cmd", pkg)
		}
		return pattern == pkg || wild && strings.HasPrefix(pkg, root)
	})
}

// within reports whether the import path is root or lies below it.
func within(root, importPath string) bool {
	return importPath == root || strings.HasPrefix(importPath, root+"/")
}
