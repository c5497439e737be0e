package api_test

import (
	"net/http"
	"testing"
	"time"

	"patchbay/internal/control"
	"patchbay/internal/store"
)

// A key that asks cannot get around that: it changes no keys, rules and sets, decides nothing, and
// neither do the keys that it made before.
func TestKeysThatAskApproveNothing(t *testing.T) {
	h := newTestServer(t)
	do := func(into any, key, method, path, body string) {
		t.Helper()
		if got := h.send(into, key, method, path, body); got != http.StatusOK {
			t.Fatalf("%s %s: %d", method, path, got)
		}
	}
	var both, child control.CreatedKey
	do(&both, h.operator, http.MethodPost, "keys", `{"name":"both","scopes":["mcp","operator"]}`)
	do(&child, both.Secret, http.MethodPost, "keys", `{"name":"child","scopes":["operator"]}`)
	do(nil, h.operator, http.MethodPatch, "keys/"+both.ID, `{"rules":{"ask":"owner"}}`)
	if _, _, err := h.Store.Approvals.Ask(t.Context(), store.Approval{ID: "waits", Person: h.Person.ID, Key: both.ID,
		Tool: "lamp", Asked: time.Now(), Expires: time.Now().Add(time.Hour)}, 9, 9); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ key, method, path, body string }{
		{both.Secret, http.MethodPost, "approvals/waits", `{"decision":"once"}`},
		{both.Secret, http.MethodGet, "approvals", ""},
		{both.Secret, http.MethodPost, "keys", `{"name":"x","scopes":["operator"]}`},
		{both.Secret, http.MethodPatch, "keys/" + both.ID, `{"rules":{"dangerous":["*"]}}`},
		{both.Secret, http.MethodPost, "tools/lamp/rule", `{"rule":"allow"}`},
		{both.Secret, http.MethodPut, "sets/home", `{"tools":["*"]}`},
		{child.Secret, http.MethodPost, "approvals/waits", `{"decision":"once"}`},
		{child.Secret, http.MethodPost, "approvals/waits", `{"decision":"always"}`},
	} {
		if got := h.send(nil, c.key, c.method, c.path, c.body); got != http.StatusForbidden {
			t.Errorf("%s %s: %d", c.method, c.path, got)
		}
	}
	do(nil, h.operator, http.MethodPost, "approvals/waits", `{"decision":"once"}`)
}
