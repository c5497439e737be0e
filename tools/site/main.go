// Command site writes the manual as a static web site: a folder for each language with a page of
// HTML for each page of the manual, and a search that needs no server.
//
//	go run ./tools/site [-out DIR]
package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path/filepath"

	"patchbay/docs"
	"patchbay/internal/i18n"
	_ "patchbay/internal/i18n/translations" // registers them
	"patchbay/internal/manual"
)

//go:embed page.html style.css search.js
var files embed.FS

// languages are those that the manual is written in.
var languages = []i18n.Lang{i18n.English, i18n.Chinese}

func main() {
	out := flag.String("out", "site", "the folder to write; it is made if missing")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tools/site [-out DIR]")
		os.Exit(2)
	}
	n, err := write(*out)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d files in %s\n", n, *out)
}

// site is what is being written.
type site struct {
	folder string
	manual *manual.Manual
	page   *template.Template
	files  int
}

// write writes the site to a folder, and returns the number of files.
func write(folder string) (int, error) {
	m, err := manual.New(docs.Files)
	if err != nil {
		return 0, err
	}
	page, err := template.ParseFS(files, "page.html")
	if err != nil {
		return 0, err
	}
	s := &site{folder: folder, manual: m, page: page}
	steps := []func() error{s.assets, s.pictures, s.start}
	for _, l := range languages {
		steps = append(steps, func() error { return s.language(l) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return s.files, err
		}
	}
	return s.files, nil
}

// put writes a file.
func (s *site) put(name string, data []byte) error {
	path := filepath.Join(s.folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	s.files++
	return os.WriteFile(path, data, 0o644)
}

func (s *site) assets() error {
	for _, name := range []string{"style.css", "search.js"} {
		data, err := files.ReadFile(name)
		if err == nil {
			err = s.put(name, data)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pictures copies what is no page.
func (s *site) pictures() error {
	return fs.WalkDir(docs.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) == ".md" {
			return err
		}
		data, err := fs.ReadFile(docs.Files, name)
		if err != nil {
			return err
		}
		return s.put("picture/"+name, data)
	})
}

// start writes the first page, which leads to the contents in the reader's language.
func (s *site) start() error {
	return s.put("index.html", []byte(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Patchbay</title>
<meta http-equiv="refresh" content="0; url=en/index.html">
<script>if (/^zh\b/.test(navigator.language)) location.replace("zh/index.html");</script></head>
<body><a href="en/index.html">English</a> <a href="zh/index.html" lang="zh-CN">简体中文</a></body></html>
`))
}

// entry is a link to a page.
type entry struct{ Address, Title string }

// group is a part of the contents.
type group struct {
	Title   string
	Entries []entry
}

// view is what a page shows.
type view struct {
	Lang, Title string
	Groups      []group
	Current     string // address
	Body        template.HTML
	Others      []entry // the same page in other languages
	Search      string
	Nothing     string
}

const (
	msgSearch  = i18n.Message("Search the manual")
	msgNothing = i18n.Message("Nothing was found")
	msgManual  = i18n.Message("Manual")
)

// place is where the pages of a language are shown, from a page of it.
var place = manual.Place{
	Page:    func(name string) string { return name + ".html" },
	Picture: func(file string) string { return "../picture/" + file },
}

func (s *site) language(l i18n.Lang) error {
	base := view{Lang: l.Tag(), Search: msgSearch.In(l), Nothing: msgNothing.In(l)}
	for _, g := range s.manual.Contents() {
		part := group{Title: g.Title.In(l)}
		for _, name := range g.Pages {
			p, ok := s.manual.Page(name, l)
			if !ok {
				return fmt.Errorf("no page %s", name)
			}
			part.Entries = append(part.Entries, entry{place.Page(name), p.Title})
		}
		base.Groups = append(base.Groups, part)
	}
	for _, name := range s.manual.Names() {
		if err := s.one(base, l, name); err != nil {
			return fmt.Errorf("page %s: %w", name, err)
		}
	}
	first := base
	first.Title, first.Current = msgManual.In(l), "index.html"
	return errors.Join(s.render(l, first), s.index(l))
}

// one writes a page in a language.
func (s *site) one(base view, l i18n.Lang, name string) error {
	p, ok := s.manual.Page(name, l)
	if !ok {
		return errors.New("it is missing")
	}
	text, err := s.manual.HTML(p, place)
	if err != nil {
		return err
	}
	base.Title, base.Current, base.Body = p.Title, place.Page(name), template.HTML(text) //nolint:gosec // our own
	return s.render(l, base)
}

func (s *site) render(l i18n.Lang, v view) error {
	for _, other := range languages {
		if other != l {
			v.Others = append(v.Others, entry{"../" + string(other) + "/" + v.Current, other.Name()})
		}
	}
	var out bytes.Buffer
	if err := s.page.Execute(&out, v); err != nil {
		return err
	}
	return s.put(string(l)+"/"+v.Current, out.Bytes())
}

// index writes what the search looks in: address, title and words of each section.
func (s *site) index(l i18n.Lang) error {
	var rows [][3]string
	for _, sec := range s.manual.Sections(l) {
		rows = append(rows, [3]string{place.Page(sec.Page.Name) + "#" + sec.Heading.Anchor, sec.Name(), sec.Text})
	}
	data, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	return s.put(string(l)+"/search.json", data)
}
