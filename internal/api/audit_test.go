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
	h := newTestServer(t)
	if err := h.Store.AdminEvents.Add(t.Context(), store.AdminEvent{ID: "first", At: time.Now(),
		Action: "a"}); err != nil {
		t.Fatal(err)
	}
	s := answered[store.AuditState](h, h.admin, "GET", "audit/verify", "")
	if s.Rows != 1 || s.ProblemCount != 0 || len(s.Heads) != 1 || s.Complete {
		t.Errorf("found is %+v", s)
	}
	head := s.Heads[0].String()
	if err := h.Store.AdminEvents.Add(t.Context(), store.AdminEvent{ID: "later", At: time.Now(),
		Action: "a"}); err != nil {
		t.Fatal(err)
	}
	if s = answered[store.AuditState](h, h.admin, "GET", "audit/verify?newest=1&expect="+url.QueryEscape(head),
		""); s.Links != 1 || s.ProblemCount != 0 {
		t.Errorf("of the newest link there is %+v", s)
	}
	other := strings.Replace(head, ".", ".1", 1)
	if s = answered[store.AuditState](h, h.admin, "GET", "audit/verify?all=true&expect="+head+","+other,
		""); !s.Complete || s.Links != 3 || s.ProblemCount != 1 {
		t.Errorf("of all links there is %+v", s)
	}
	if s = answered[store.AuditState](h, h.admin, "GET", "audit/verify?expect="+other, ""); s.ProblemCount != 1 ||
		s.Problems[0].Kind != store.AuditHeadMissing {
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
