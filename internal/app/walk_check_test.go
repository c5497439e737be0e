package app

import (
	"net/url"
	"slices"
	"strings"

	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// nothing is an id that does not exist.
const nothing = "404404"

// alike reports whether the response for something of ada's equals the response for something that
// does not exist.
func (w *setup) alike(r walked, path string, a answered, with []string) bool {
	w.t.Helper()
	what := path[strings.Index(r.pattern, "{"):]
	what, _, _ = strings.Cut(what, "/")
	none := w.ask(r.method, wildcard.ReplaceAllString(r.pattern, nothing), "", nil, with...)
	return a.status == none.status && a.text == strings.ReplaceAll(none.text, nothing, what)
}

// headers returns the header sets of bob's requests: of a page, and of a page's script.
func (w *setup) headers(r walked) [][]string {
	if !r.page {
		return [][]string{{"Authorization", "Bearer " + w.key}}
	}
	cookie := "patchbay=" + w.cookie + "; patchbay-lang=en"
	return [][]string{{"Cookie", cookie}, {"Cookie", cookie, "HX-Request", "true"}}
}

// clean checks that a response has nothing of ada's but what was in the request.
func (w *setup) clean(at string, a answered) {
	w.t.Helper()
	text := a.text + " " + a.at
	for _, known := range w.of { // which bob's own records of this walk contain
		if len(known) > 3 {
			text = strings.ReplaceAll(strings.ReplaceAll(text, known, ""), url.PathEscape(known), "")
		}
	}
	for _, never := range w.forbidden {
		if i := strings.Index(text, never); i >= 0 {
			w.t.Errorf("%s (%d) tells %q: …%s…", at, a.status, never, text[max(0, i-200):min(len(text), i+200)])
			return
		}
	}
}

// rows returns all rows but bob's, and without those that change by themselves.
func (w *setup) rows() map[string][]string {
	w.t.Helper()
	all := storetest.Rows(w.t, store.Options{Folder: w.folder})
	delete(all, "counters")
	delete(all, "leases")
	delete(all, "sign_in_tries") // of passwords that the walk types
	delete(all, "learn_words")
	delete(all, "audit_chains") // links of rows, which are compared themselves
	delete(all, "audit_links")
	delete(all, "push_keys")  // made when somebody first opens the settings of Learn
	delete(all, "shim_nodes") // updated by the server, which tries to join ada's gateway
	for table, list := range all {
		all[table] = slices.DeleteFunc(list, func(row string) bool {
			// Refused sign-ins are recorded without a person.
			return strings.Contains(row, w.bob.ID) || table == "admin_events" &&
				strings.Contains(row, "|"+control.EventSignInRefused+"|")
		})
	}
	return all
}

func (w *setup) same(before map[string][]string) {
	w.t.Helper()
	for table, rows := range w.rows() {
		if slices.Equal(rows, before[table]) {
			continue
		}
		for _, row := range rows {
			if !slices.Contains(before[table], row) {
				w.t.Errorf("%s has %q, and did not", table, row)
			}
		}
		for _, row := range before[table] {
			if !slices.Contains(rows, row) {
				w.t.Errorf("%s had %q", table, row)
			}
		}
	}
}
