package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"patchbay/internal/control"
)

// serveRegistry serves one entry as a registry does (openapi.yaml of the MCP registry, 2025-12-01).
func serveRegistry(t *testing.T, peer string) string {
	t.Helper()
	entry := `{"server":{"name":"io.github.acme/lamp","description":"A lamp \u001b[31m","version":"2.1.0",
"remotes":[{"type":"streamable-http","url":"` + peer + `","headers":[{"name":"Authorization","value":"Bearer {token}",
 "variables":{"token":{"description":"Its token","isRequired":true,"isSecret":true}}}]}],
"packages":[{"registryType":"npm","identifier":"@acme/lamp","version":"2.1.0","transport":{"type":"stdio"},
  "environmentVariables":[{"name":"MODE","value":"loud --all"},{"name":"DEBUG"}]},
 {"registryType":"cargo","identifier":"lamp","transport":{"type":"stdio"}}]},
"_meta":{"io.modelcontextprotocol.registry/official":{"status":"active","isLatest":true}}}`
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v0.1/servers", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("search") == "nothing" {
			io.WriteString(w, `{"servers":[],"metadata":{"count":0}}`)
			return
		}
		io.WriteString(w, `{"servers":[`+entry+`],"metadata":{"count":1}}`)
	})
	mux.HandleFunc("GET /v0.1/servers/{name}/versions/{version}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("name") != "io.github.acme/lamp" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		io.WriteString(w, entry)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestUpstreamFromTheRegistry(t *testing.T) {
	registry := serveRegistry(t, servePeer(t, "s3cret-token"))
	d := withParrot(t, "PATCHBAY_MCP_REGISTRY="+registry)
	got := d.ok("upstream", "search", "lamp")
	for _, want := range []string{"io.github.acme/lamp", "2.1.0", "http, npm", "A lamp", "upstream add NAME --from"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Errorf("a publisher colours the terminal: %q", got)
	}
	var list control.RegistryList
	d.json(&list, "upstream", "search", "lamp")
	if len(list.Servers) != 1 || len(list.Servers[0].Ways) != 3 {
		t.Errorf("the list is %+v", list)
	}
	if got := d.ok("upstream", "search", "nothing"); !strings.Contains(got, "no server with these words") {
		t.Errorf("nothing is found as\n%s", got)
	}

	add := []string{"upstream", "add", "lamp", "--from", "io.github.acme/lamp"}
	claims := d.do("", add...)
	for _, want := range []string{"2.1.0, published by io.github.acme", "It would contact http://127.0.0.1",
		"send these headers there:\n  Authorization: Bearer {token}\n", "token  Its token; needed; secret",
		"packages of the type cargo cannot be run"} {
		if !strings.Contains(claims.stdout, want) {
			t.Errorf("%q is not in\n%s", want, claims.stdout)
		}
	}
	if strings.Contains(claims.stdout, "\x1b") {
		t.Errorf("a publisher colours the terminal: %q", claims.stdout)
	}
	d.failing(exitFailed, "", add, "values are missing: token")
	add = append(add, "--input", "token=s3cret-token")
	d.failing(exitFailed, "", add, "Add it as lamp?", "nothing was added")
	d.failing(exitFailed, "", append(add, "--way", "3"), "cannot be added: packages of the type cargo")
	d.failing(exitUsage, "", append(add, "--way", "9"), "no way 9; there are 3")
	d.failing(exitFailed, "", []string{"upstream", "add", "lamp", "--from", "com.example/none"},
		"no server called com.example/none")
	if got := d.ok("upstream", "list"); !strings.Contains(got, "no upstreams yet") {
		t.Errorf("something was added:\n%s", got)
	}
	added := d.ok(append(add, "--yes", "--set", "deny=burn")...)
	if !strings.Contains(added, "Connected to lamp 2.1") {
		t.Errorf("added is\n%s", added)
	}
	shown := d.ok("upstream", "show", "lamp")
	if !strings.Contains(shown, "transport = http") || !strings.Contains(shown, `deny = ["burn"]`) || strings.Contains(shown, "s3cret") {
		t.Errorf("it is shown as\n%s", shown)
	}
	local := d.ok("upstream", "add", "local", "--from", "io.github.acme/lamp@2.1.0", "--way", "2", "--yes",
		"--no-check")
	if !strings.Contains(local, "get these variables:\n  MODE=loud --all\n  DEBUG\n") {
		t.Errorf("the variables are not shown:\n%s", local)
	}
	if shown := d.ok("upstream", "show", "local"); !strings.Contains(shown, "command = npx") ||
		!strings.Contains(shown, "@acme/lamp@2.1.0") {
		t.Errorf("the package is shown as\n%s", shown)
	}
}
