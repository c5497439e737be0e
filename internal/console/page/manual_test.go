package page

import (
	"slices"
	"testing"

	"patchbay/docs"
	"patchbay/internal/i18n"
	"patchbay/internal/manual"
)

// TestManualPages looks for the pages and sections that pages of the console link to.
func TestManualPages(t *testing.T) {
	m, err := manual.New(docs.Files)
	if err != nil {
		t.Fatal(err)
	}
	for path, to := range manualPages {
		if to.page == "" {
			continue
		}
		p, ok := m.Page(to.page, i18n.English)
		if !ok {
			t.Errorf("%s links to the page %s of the manual, which is not there", path, to.page)
			continue
		}
		if to.anchor != "" && !slices.ContainsFunc(p.Headings(), func(h manual.Heading) bool { return h.Anchor == to.anchor }) {
			t.Errorf("%s links to %s#%s, which is not there", path, to.page, to.anchor)
		}
	}
}
