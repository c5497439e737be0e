package tools_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"patchbay/internal/console/consoletest"
	"patchbay/internal/console/page"
	"patchbay/internal/console/tools"
	"patchbay/internal/control"
	"patchbay/internal/mcpregistry"
	"patchbay/internal/store"
)

const registryServer = `{"server":{"name":"io.github.acme/My_Lamp","description":"A <lamp>","version":"2.1.0",
"remotes":[{"type":"streamable-http","url":"https://lamp.example/mcp","headers":[{"name":"X-Key","isRequired":true,"isSecret":true},
 {"name":"X-Zone","choices":["eu","us"]}]}],
"packages":[{"registryType":"npm","identifier":"@acme/lamp","version":"2.1.0","transport":{"type":"stdio"},
  "environmentVariables":[{"name":"MODE","value":"<loud> --all"},{"name":"KEY","isSecret":true}]},
 {"registryType":"oci","identifier":"acme/lamp","runtimeArguments":[{"type":"named","name":"--privileged"}]},
 {"registryType":"cargo","identifier":"lamp","transport":{"type":"stdio"}}]},"_meta":{}}`

func TestRegistry(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v0.1/servers", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"servers":[`+registryServer+`],"metadata":{"count":1}}`)
	})
	mux.HandleFunc("GET /v0.1/servers/{name}/versions/{version}", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, registryServer)
	})
	registry := httptest.NewServer(mux)
	t.Cleanup(registry.Close)
	var saved control.SettingTexts
	actions := control.UpstreamActions{
		Check: func(context.Context, store.Person, store.Upstream,
			control.SettingTexts) (control.UpstreamFound, error) {
			return control.UpstreamFound{}, nil
		},
		Save: func(_ context.Context, _ store.Person, u store.Upstream,
			set control.SettingTexts) (control.SavedUpstream, error) {
			saved, u.Number = set, 9
			return control.SavedUpstream{Upstream: u}, nil
		},
	}
	r := consoletest.New(t, consoletest.Options{Control: control.Options{Registry: mcpregistry.New(registry.URL),
		Upstreams: actions}}, func(*consoletest.Rig) []page.Route { return tools.Routes() })
	ada, bob := r.SignedInAs(r.Person), r.SignedInAs(r.Bob)

	has(t, ada.Get("/tools/upstreams/new"), `href="/tools/upstreams/registry"`)
	p := ada.Get("/tools/upstreams/registry?q=lamp")
	has(t, p, "io.github.acme/My_Lamp", "published by io.github.acme", "A &lt;lamp&gt;",
		"Add: https://lamp.example/mcp",
		"Add: npm @acme/lamp", "packages of the type cargo cannot be run")
	has(t, bob.Get("/tools/upstreams/registry?q=lamp"), "Add: https://lamp.example/mcp",
		"npm @acme/lamp: only administrators may add commands")

	of := func(nth string) string {
		return "/tools/upstreams/registry/add?" + url.Values{"server": {"io.github.acme/My_Lamp"}, "version": {"2.1.0"},
			"nth": {nth}}.Encode()
	}
	has(t, ada.Get(of("1")), "https://lamp.example/mcp", "send these headers there:", "X-Key\nX-Zone", `value="my-lamp"`,
		`type="password"`, `<option value="eu"`, "what its publisher says")
	has(t, ada.Get(of("2")), "npx -y @acme/lamp@2.1.0", "it would run", "MODE=&lt;loud&gt; --all\nKEY<")
	p = bob.Get(of("2"))
	if has(t, p, "npx -y @acme/lamp@2.1.0", "only an administrator may add it"); strings.Contains(p.Text, `method="post" action="/tools/upstreams/registry`) {
		t.Error("a member gets the form for a command")
	}
	has(t, bob.Get(of("1")), `action="/tools/upstreams/registry/add"`)
	has(t, ada.Get("/tools/upstreams/registry?q=lamp"), "oci acme/lamp: it gives docker an option that can open this machine to its container: --privileged")
	if p := ada.Get(of("3")); p.Status != http.StatusNotFound {
		t.Errorf("a way that cannot be used: %d", p.Status)
	}
	fields := []string{"server", "io.github.acme/My_Lamp", "version", "2.1.0", "nth", "1", "name", "lamp", "input1",
		"eu"}
	p = ada.Post("/tools/upstreams/registry/add", fields...)
	has(t, p, "values are missing: X-Key")
	if saved != nil {
		t.Errorf("saved was %v", saved)
	}
	ada.Post("/tools/upstreams/registry/add", append(fields, "input0", "s3cret")...)
	if saved["url"] != "https://lamp.example/mcp" || saved["headers"] != `{"X-Key":"s3cret","X-Zone":"eu"}` {
		t.Errorf("saved was %v", saved)
	}
	saved = nil
	p = bob.Post("/tools/upstreams/registry/add", "server", "io.github.acme/My_Lamp", "version", "2.1.0", "nth",
		"2", "name", "lamp")
	if has(t, p, "only an administrator"); saved != nil {
		t.Errorf("a member added the command %v", saved)
	}
}
