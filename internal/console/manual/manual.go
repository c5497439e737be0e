// Package manual serves the pages of the manual, in the language of the reader, with a search.
// Nobody has to sign in for them.
package manual

import (
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"sync"

	"patchbay/docs"
	"patchbay/internal/console/page"
	"patchbay/internal/i18n"
	"patchbay/internal/manual"
)

// Routes returns the pages.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /docs", Access: page.Anybody, Serve: contents},
		{Pattern: "GET /docs/{section}", Access: page.Anybody, Serve: show},
		{Pattern: "GET /docs/picture/{picture...}", Access: page.Anybody, Serve: picture},
	}
}

// pages returns the manual, which is embedded.
var pages = sync.OnceValues(func() (*manual.Manual, error) { return manual.New(docs.Files) })

const (
	msgManual      = i18n.Message("Manual")
	msgSearch      = i18n.Message("Search the manual")
	msgFind        = i18n.Message("Search")
	msgNothing     = i18n.Message("Nothing was found")
	msgNothingTold = i18n.Message("Each section with all of your words is listed. Try fewer, or other ones.")
	msgFound       = i18n.Message("Found")
	msgNotInYours  = i18n.Message("This page is not there in your language yet.")
	msgOnThisPage  = i18n.Message("On this page")
	msgAllPages    = i18n.Message("All pages")
)

// maxHits limits the sections that a search lists.
const maxHits = 30

// place is where the pages are shown.
var place = manual.Place{
	Page:    func(name string) string { return "/docs/" + name },
	Picture: func(file string) string { return "/docs/picture/" + file },
}

// Found is a section of the manual that was searched for.
type Found struct{ Name, Path string }

// Search finds sections of the manual, the best first.
func Search(lang i18n.Lang, query string, most int) (out []Found, err error) {
	m, err := pages()
	if err != nil {
		return nil, err
	}
	for _, h := range m.Search(lang, query, most) {
		path := place.Page(h.Page.Name)
		if h.Heading.Anchor != "" {
			path += "#" + h.Heading.Anchor
		}
		out = append(out, Found{h.Section.Name(), path})
	}
	return out, nil
}

func contents(v *page.Visit) {
	m, err := pages()
	if err != nil {
		v.Fail(err)
		return
	}
	q := v.URL.Query().Get("q")
	if q == "" {
		v.Render(http.StatusOK, contentsPage(v, m))
		return
	}
	v.Render(http.StatusOK, hitsPage(v, q, m.Search(v.Lang, q, maxHits)))
}

// show shows a page. The parameter "at" is the anchor in English of a section to go to.
func show(v *page.Visit) {
	m, err := pages()
	if err != nil {
		v.Fail(err)
		return
	}
	p, ok := m.Page(v.PathValue("section"), v.Lang)
	if !ok {
		v.NotFound()
		return
	}
	if at := v.URL.Query().Get("at"); at != "" {
		u := url.URL{Path: place.Page(p.Name), Fragment: m.Anchor(p.Name, v.Lang, at)}
		v.Redirect(u.String())
		return
	}
	text, err := m.HTML(p, place)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, textPage(v, p, text))
}

func picture(v *page.Visit) {
	file := v.PathValue("picture")
	kind := mime.TypeByExtension(path.Ext(file))
	if kind != "image/png" && kind != "image/svg+xml" {
		v.NotFound()
		return
	}
	data, err := fs.ReadFile(docs.Files, file)
	if err != nil {
		v.NotFound()
		return
	}
	v.W.Header().Set("Content-Type", kind)
	v.W.Header().Set("Cache-Control", "public, max-age=3600")
	v.W.Write(data) //nolint:errcheck // a browser that is gone needs no picture
}

// address returns the address of a section.
func address(h manual.Hit) string {
	u := url.URL{Path: place.Page(h.Page.Name), Fragment: h.Heading.Anchor}
	return u.String()
}

// sections lists the headings of the second level.
func sections(p *manual.Page) (out []manual.Heading) {
	for _, h := range p.Headings() {
		if h.Level == 2 {
			out = append(out, h)
		}
	}
	return out
}
