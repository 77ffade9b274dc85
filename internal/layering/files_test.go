package layering

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goFile is what the tests of this package know about one source file.
type goFile struct {
	path    string // from the module's root, with slashes
	pkg     string // its folder from the module's root, with slashes: "httpapi/wire"
	name    string // of its package clause, without "_test"
	isTest  bool
	hasDoc  bool // it carries a package comment
	imports []string
}

// goFiles reads every Go file of the module, and fails the test when there is none.
func goFiles(t *testing.T) []goFile {
	t.Helper()
	root := moduleRoot(t)
	var files []goFile
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != root && outsideModule(name) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		relative, err := filepath.Rel(root, name)
		require.NoError(t, err)
		files = append(files, readGoFile(t, name, filepath.ToSlash(relative)))
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// outsideModule reports whether the go command would not look into a folder, or takes it for another module.
func outsideModule(dir string) bool {
	base := filepath.Base(dir)
	if base == "testdata" || base == "node_modules" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func readGoFile(t *testing.T, name, relative string) goFile {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments)
	require.NoError(t, err)
	return goFile{
		path:    relative,
		pkg:     filepath.ToSlash(filepath.Dir(relative)),
		name:    strings.TrimSuffix(parsed.Name.Name, "_test"),
		isTest:  strings.HasSuffix(name, "_test.go"),
		hasDoc:  parsed.Doc != nil,
		imports: importPaths(t, parsed),
	}
}

func importPaths(t *testing.T, file *ast.File) []string {
	t.Helper()
	paths := make([]string, len(file.Imports))
	for i, spec := range file.Imports {
		unquoted, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		paths[i] = unquoted
	}
	return paths
}

// moduleRoot is the folder of go.mod above this package.
func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		require.NotEqual(t, dir, parent, "no go.mod above the test")
		dir = parent
	}
}
