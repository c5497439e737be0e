package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// pagesFolder is the folder of the pages from which templ generates Go.
const pagesFolder = "internal/console"

// checkPages generates the Go files of all pages again, in another folder, and lists the files that
// differ.
func checkPages(ctx context.Context, pages string) result {
	folder, err := os.MkdirTemp("", "patchbay-pages-")
	if err != nil {
		return result{state: failed, note: err.Error()}
	}
	defer os.RemoveAll(folder)
	elsewhere := func(path string) (string, error) {
		rel, err := filepath.Rel(pages, path)
		return filepath.Join(folder, rel), err
	}
	var made []string // generated files, by their path here
	err = filepath.WalkDir(pages, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".templ") {
			return err
		}
		made = append(made, strings.TrimSuffix(path, ".templ")+"_templ.go")
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		copied, err := elsewhere(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
			return err
		}
		return os.WriteFile(copied, source, 0o644)
	})
	if err != nil {
		return result{state: failed, note: err.Error()}
	}
	if res := command(ctx, "", nil, "go", "tool", "-modfile=tools/tools.mod", "templ", "generate",
		"-path", folder); res.state != passed {
		return res
	}
	var stale []string
	for _, path := range made {
		here, err := os.ReadFile(path)
		if err != nil {
			stale = append(stale, path)
			continue
		}
		copied, err := elsewhere(path)
		if err != nil {
			return result{state: failed, note: err.Error()}
		}
		if fresh, err := os.ReadFile(copied); err != nil || !bytes.Equal(here, fresh) {
			stale = append(stale, path)
		}
	}
	if len(stale) > 0 {
		return result{state: failed, note: "run: go tool -modfile=tools/tools.mod templ generate -path " + pages,
			more: strings.Join(stale, "\n")}
	}
	return result{state: passed}
}
