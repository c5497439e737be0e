package main

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`(?:href|src)="([^"#]*)(#[^"]*)?"`)

// TestSite writes the site, and follows every link of every page of it.
func TestSite(t *testing.T) {
	folder := t.TempDir()
	n, err := write(folder)
	if err != nil {
		t.Fatal(err)
	}
	site, pages, links := os.DirFS(folder), 0, 0
	err = fs.WalkDir(site, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n--
		if filepath.Ext(name) != ".html" {
			return nil
		}
		pages++
		text, err := fs.ReadFile(site, name)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], ":") {
				continue
			}
			links++
			to := name
			if m[1] != "" {
				to = path.Join(path.Dir(name), m[1])
			}
			if _, err := fs.Stat(site, to); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if n != 0 || pages < 40 || links < 1000 {
		t.Errorf("%d files more than counted, %d pages, %d links", -n, pages, links)
	}
}
