package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// goPackage is a package as listed by the go command.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// On 32-bit ARM an int has 32 bits. Compiling for it takes minutes; that constants fit is checked
// here with what is compiled for this machine.
func TestIntsOf32Bits(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export",
		"patchbay/cmd/patchbay")
	out, err := output(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var ours []goPackage
	exports := map[string]string{}
	for dec := json.NewDecoder(strings.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if strings.HasPrefix(p.ImportPath, "patchbay/") {
			ours = append(ours, p)
		}
	}
	files := token.NewFileSet()
	config := types.Config{Sizes: types.SizesFor("gc", "arm"), Error: func(err error) { t.Error(err) }}
	config.Importer = importer.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	for _, p := range ours {
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		config.Check(p.ImportPath, files, parsed, nil) //nolint:errcheck // reported by config.Error
	}
}
