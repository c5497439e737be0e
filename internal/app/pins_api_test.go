package app

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/hub/hubtest"
)

// A parameter that the owner sets is no longer one of the tool, and is again when it is taken out:
// that is the owner's change, not the API's.
func TestCredentialsOfAPIsNeedNoApproval(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"openapi":"3.1.0","info":{"title":"Shop","version":"1"},"servers":[{"url":"/"}],"paths":{
"/items":{"get":{"operationId":"list","parameters":[{"name":"X-Trace","in":"header","schema":{"type":"string"}}],"responses":{}}}}}`)
	})
	mux.HandleFunc("GET /items", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "traced as %q", r.Header.Get("X-Trace"))
	})
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)
	p := peopleOf(t, newInstance(t, hubtest.Options{}))
	ada, ctx := as(p.Person), t.Context()
	added, err := p.do.AddUpstream(ctx, ada, control.NewUpstream{Name: "shop", Kind: control.KindServer,
		Settings: set(`{"url":"` + api.URL + `/openapi.json","transport":"openapi"}`)})
	if err != nil {
		t.Fatal(err)
	}
	asks := func(v *hub.View) bool {
		o := v.Tool("shop_list")
		return o != nil && strings.Contains(string(o.Input), "X-Trace")
	}
	p.await(t, "it asks for the header", asks)
	change := func(headers string) {
		t.Helper()
		if _, err := p.do.ChangeUpstream(ctx, ada, control.UpstreamChange{Upstream: added.ID,
			Settings: control.SettingTexts{"headers": headers}}); err != nil {
			t.Fatal(err)
		}
	}
	change(`{"X-Trace":"abc"}`)
	p.await(t, "it no longer asks for it", func(v *hub.View) bool { return v.Tool("shop_list") != nil && !asks(v) })
	if d := p.pins(t, added.ID); d.Approved != 1 || len(d.Changes) != 0 {
		t.Errorf("with the header: %+v", d)
	}
	p.must(t, "shop_list", `{}`, `traced as "abc"`)
	change("")
	p.await(t, "it asks again", asks)
	if d := p.pins(t, added.ID); d.Approved != 1 || len(d.Changes) != 0 {
		t.Errorf("without the header: %+v", d)
	}
}
