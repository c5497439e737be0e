package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"patchbay/internal/store"
)

// Administrators see whether the trail is as it was written; nobody else is told of it.
func TestVerifyAudit(t *testing.T) {
	h := newHouse(t)
	if err := h.Store.Acts.Add(t.Context(), store.Act{ID: "first", At: time.Now(), Act: "a"}); err != nil {
		t.Fatal(err)
	}
	s := answered[store.AuditState](h, h.admin, "GET", "audit/verify", "")
	if s.Rows != 1 || s.Wrong != 0 || len(s.Heads) != 1 || s.Whole {
		t.Errorf("found is %+v", s)
	}
	head := s.Heads[0].String()
	if err := h.Store.Acts.Add(t.Context(), store.Act{ID: "later", At: time.Now(), Act: "a"}); err != nil {
		t.Fatal(err)
	}
	if s = answered[store.AuditState](h, h.admin, "GET", "audit/verify?newest=1&expect="+url.QueryEscape(head), ""); s.Links != 1 || s.Wrong != 0 {
		t.Errorf("of the newest link there is %+v", s)
	}
	other := strings.Replace(head, ".", ".1", 1)
	if s = answered[store.AuditState](h, h.admin, "GET", "audit/verify?expect="+other, ""); s.Wrong != 1 || s.Problems[0].Kind != store.AuditHeadOff {
		t.Errorf("for another head there is %+v", s)
	}
	for _, c := range []struct {
		key, query string
		status     int
	}{{h.admin, "?expect=x", http.StatusBadRequest}, {h.operator, "", http.StatusForbidden}} {
		if got := h.send(nil, c.key, "GET", "audit/verify"+c.query, ""); got != c.status {
			t.Errorf("%q: %d", c.query, got)
		}
	}
}
