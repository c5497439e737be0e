package api_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"patchbay/internal/api"
	"patchbay/internal/hub"
)

// notices begins to wait, and returns what reads the next line that is no heartbeat.
func (h *testServer) notices(key, query string) func() hub.Notice {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+"/api/v1/notices"+query, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { resp.Body.Close() })
	lines := json.NewDecoder(resp.Body)
	var first api.NoticeLine
	if err := lines.Decode(&first); err != nil || resp.StatusCode != http.StatusOK || first.Notice != nil {
		h.t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	return func() hub.Notice {
		h.t.Helper()
		for {
			var l api.NoticeLine
			if err := lines.Decode(&l); err != nil {
				h.t.Fatal(err)
			}
			if l.Notice != nil {
				return *l.Notice
			}
		}
	}
}

// Everybody hears what their own devices tell, and an admin all of them.
func TestNotices(t *testing.T) {
	h := newTestServer(t)
	kettle := plugged(t, h, &provider{})
	lamp, err := h.Hub.Register(hub.ProviderRef{ID: "board:2", Owner: h.bob.ID,
		Slug: "lamp", Kind: "xiaozhi", Title: "lamp"}, &provider{})
	if err != nil {
		t.Fatal(err)
	}
	ada, bob, all := h.notices(h.operator, ""), h.notices(h.bobs, "?device=lamp"), h.notices(h.admin, "")
	lamp.Notify("on", nil)
	kettle.Notify("boils", json.RawMessage(`{"at":100}`))
	if n := ada(); n.Method != "boils" || n.Provider != "board:1" || string(n.Params) != `{"at":100}` {
		t.Errorf("ada hears %+v", n)
	}
	if n := bob(); n.Method != "on" {
		t.Errorf("bob hears %+v", n)
	}
	if one, two := all(), all(); one.Method != "on" || two.Method != "boils" {
		t.Errorf("the admin hears %+v and %+v", one, two)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/api/v1/notices?device=kettle", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+h.bobs)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("somebody else's device: %d", resp.StatusCode)
	}
}
