package lint

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	root           = "../.."
	maxFileLines   = 800
	maxFuncLines   = 100
	maxLineColumns = 160
)

// layers tells how low a package is; imports go down only, or to one of the
// pairs in sideways.
var layers = map[string]int{
	"telemetry": 0,
	"cqltype":   1, "cqlwire": 1, "cql": 1,
	"cqlfunc": 2, "schema": 2, "store": 2,
	"backup": 3, "upstream": 3, "vtest": 3,
	"exec": 4, "bulk": 4, "shell": 4, "bench": 4, "move": 4,
	"server": 5, "config": 5,
	"console": 6, "servertest": 6,
	"cli":  7,
	"lint": 8,
}

var sideways = map[string]bool{
	"cqlwire -> cqltype": true, "cql -> cqltype": true, "store -> schema": true,
}

// only lists packages (by import path prefix) that only these may import.
var only = map[string][]string{
	"github.com/cockroachdb/pebble/v2":         {"store", "vtest", "backup", "cli"},
	"net/http":                                 {"console", "cli"},
	"github.com/apache/cassandra-gocql-driver": {"move"},
	"github.com/jackc":                         {"move"},
	"github.com/spf13/cobra":                   {"cli"},
	"github.com/prometheus":                    {"console", "store", "cli"},
	"go.yaml.in/yaml":                          {"config", "move"},
	"golang.org/x/crypto/bcrypt":               {"schema", "exec", "cli"},
	"github.com/pierrec/lz4":                   {"cqlwire"},
	"github.com/golang/snappy":                 {"cqlwire"},
}

type source struct {
	path string // from the root
	pkg  string // first element under internal, "" elsewhere
	text []byte
	ast  *ast.File
	fset *token.FileSet
}

func (s *source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

func sources(t *testing.T) []*source {
	t.Helper()
	var out []*source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "node_modules" || d.Name() == "tools") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		s := &source{path: rel, text: text, fset: token.NewFileSet()}
		if rest, ok := strings.CutPrefix(rel, "internal/"); ok {
			s.pkg, _, _ = strings.Cut(rest, "/")
		}
		s.ast, err = parser.ParseFile(s.fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		out = append(out, s)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d files found", len(out))
	}
	return out
}

func TestImportsGoDown(t *testing.T) {
	for _, s := range sources(t) {
		if s.pkg == "" {
			continue
		}
		layer, known := layers[s.pkg]
		if !known {
			t.Errorf("%s: package %s has no layer; give it one in %s", s.path, s.pkg, "internal/lint")
		}
		for _, imp := range s.ast.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			checkOnly(t, s, path)
			rest, ours := strings.CutPrefix(path, "varve/internal/")
			if !ours || s.test() {
				continue
			}
			to, _, _ := strings.Cut(rest, "/")
			if to != s.pkg && layers[to] >= layer && !sideways[s.pkg+" -> "+to] {
				t.Errorf("%s imports %s, which is not below it", s.path, to)
			}
		}
	}
}

func checkOnly(t *testing.T, s *source, path string) {
	t.Helper()
	if s.test() || strings.HasPrefix(path, "github.com/cockroachdb/pebble/v2/vfs") {
		return
	}
	for prefix, allowed := range only {
		if path != prefix && !strings.HasPrefix(path, prefix+"/") {
			continue
		}
		ok := false
		for _, a := range allowed {
			ok = ok || a == s.pkg
		}
		if !ok {
			t.Errorf("%s imports %s, which only %v may", s.path, path, allowed)
		}
	}
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		sc := bufio.NewScanner(bytes.NewReader(s.text))
		sc.Buffer(nil, 1<<20)
		n := 0
		for sc.Scan() {
			n++
			if len(sc.Text()) > maxLineColumns && !s.test() {
				t.Errorf("%s:%d: %d columns", s.path, n, len(sc.Text()))
			}
		}
		if n > maxFileLines {
			t.Errorf("%s: %d lines, at most %d", s.path, n, maxFileLines)
		}
		if s.test() {
			continue
		}
		ast.Inspect(s.ast, func(node ast.Node) bool {
			f, ok := node.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				return true
			}
			if lines := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1; lines > maxFuncLines && !isTable(f) {
				t.Errorf("%s: %s is %d lines, at most %d", s.path, f.Name.Name, lines, maxFuncLines)
			}
			return true
		})
	}
}

// isTable reports a function that is one exhaustive switch or one literal,
// which reads better whole.
func isTable(f *ast.FuncDecl) bool {
	if len(f.Body.List) > 3 {
		return false
	}
	for _, st := range f.Body.List {
		switch st := st.(type) {
		case *ast.SwitchStmt, *ast.TypeSwitchStmt:
			return true
		case *ast.ReturnStmt:
			for _, r := range st.Results {
				if _, ok := r.(*ast.CompositeLit); ok {
					return true
				}
			}
		}
	}
	return false
}

func TestPackagesAreDocumentedAndWellNamed(t *testing.T) {
	documented, seen := map[string]bool{}, map[string]string{}
	for _, s := range sources(t) {
		if s.test() {
			continue
		}
		dir := filepath.Dir(s.path)
		seen[dir] = s.ast.Name.Name
		documented[dir] = documented[dir] || s.ast.Doc != nil
	}
	for dir, name := range seen {
		if !documented[dir] {
			t.Errorf("%s: package %s has no comment", dir, name)
		}
		switch name {
		case "util", "utils", "common", "helpers", "types", "misc":
			t.Errorf("%s: package name %s says nothing", dir, name)
		}
	}
}

func TestTestsDoNotSleep(t *testing.T) {
	for _, s := range sources(t) {
		if !s.test() {
			continue
		}
		ast.Inspect(s.ast, func(node ast.Node) bool {
			call, ok := node.(*ast.SelectorExpr)
			if !ok || call.Sel.Name != "Sleep" {
				return true
			}
			if x, ok := call.X.(*ast.Ident); ok && x.Name == "time" {
				t.Errorf("%s: time.Sleep in a test", s.fset.Position(node.Pos()))
			}
			return true
		})
	}
}
