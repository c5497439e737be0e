package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// One redirect that cannot be used does not spoil a registration.
func TestRegister(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		// Cursor's, as it was seen; and Claude's without an authentication method.
		out := r.send(http.MethodPost, RegisterPath, "application/json", `{"client_name":"Cursor","redirect_uris":[
			"cursor://anysphere.cursor-mcp/oauth/callback","https://www.cursor.com/agents/mcp/oauth/callback",
			"http://localhost:8787/callback","http://192.0.2.1/cb","javascript:alert(1)","https://a.example/#x"],
			"grant_types":["authorization_code","refresh_token"],"response_types":["code"],
			"token_endpoint_auth_method":"none","unknown":{"a":1}}`)
		want := map[string]any{"client_id": out.Body["client_id"], "client_id_issued_at": float64(r.clock().Unix()),
			"client_name": "Cursor", "redirect_uris": []any{"cursor://anysphere.cursor-mcp/oauth/callback",
				"https://www.cursor.com/agents/mcp/oauth/callback", "http://localhost:8787/callback"},
			"grant_types":    []any{"authorization_code", "refresh_token"},
			"response_types": []any{"code"}, "token_endpoint_auth_method": "none"}
		if diff := cmp.Diff(want, out.Body); diff != "" || out.Status != http.StatusCreated {
			t.Errorf("%d\n%s", out.Status, diff)
		}
		for _, body := range []string{`{}`, `[]`, `{"redirect_uris":["data:text/html,x"]}`, `{"redirect_uris":null}`} {
			if out := r.send(http.MethodPost, RegisterPath, "application/json", body); out.Status != http.StatusBadRequest {
				t.Errorf("%s: %d %v", body, out.Status, out.Body)
			}
		}

		// With a secret.
		out = r.send(http.MethodPost, RegisterPath, "application/json", `{"redirect_uris":["https://a.example/cb"],
			"token_endpoint_auth_method":"client_secret_basic"}`)
		id, secret := out.Body["client_id"].(string), out.Body["client_secret"].(string)
		if out.Body["client_secret_expires_at"] != 0.0 || out.Body["token_endpoint_auth_method"] != "client_secret_basic" {
			t.Errorf("with a secret: %v", out.Body)
		}
		code := r.allow(request(id, "https://a.example/cb")).Get("code")
		q := exchange(id, "https://a.example/cb", code)
		if out := r.token(q); out.Status != http.StatusUnauthorized || out.Body["error"] != "invalid_client" {
			t.Errorf("without its secret: %d %v", out.Status, out.Body)
		}
		q.Set("client_secret", "wrong")
		if out := r.token(q); out.Status != http.StatusUnauthorized {
			t.Errorf("with a wrong secret: %d %v", out.Status, out.Body)
		}
		q.Del("client_secret")
		basic := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		basic.SetBasicAuth(url.QueryEscape(id), url.QueryEscape(secret))
		if out := r.token(q, "Authorization", basic.Header.Get("Authorization")); out.Status != http.StatusOK {
			t.Errorf("with its secret: %d %v", out.Status, out.Body)
		}
	})
}

// A flood of registrations is stopped, and who is let in again and again is not.
func TestRegistrationFlood(t *testing.T) {
	r := newRig(t, storetest.SQLite(t), Options{})
	for range 3 * maxUnused / 2 {
		id := r.register(home)
		if out := r.token(exchange(id, home, r.allow(request(id, home)).Get("code"))); out.Status != http.StatusOK {
			t.Fatal(out.Body)
		}
	}
	body := `{"redirect_uris":["` + home + `"]}`
	for range maxUnused {
		if out := r.send(http.MethodPost, RegisterPath, "application/json", body); out.Status != http.StatusCreated {
			t.Fatal(out.Body)
		}
	}
	if out := r.send(http.MethodPost, RegisterPath, "application/json", body); out.Status != http.StatusTooManyRequests ||
		out.Header.Get("Retry-After") == "" {
		t.Errorf("a flood: %d %v", out.Status, out.Body)
	}
	r.pass(time.Hour + time.Second)
	_, err := r.Store.Purge(t.Context(), store.Limits{Now: r.clock()})
	must(t, err)
	registered, err := r.Store.OAuth.CountClients(t.Context())
	must(t, err)
	unused, err := r.Store.OAuth.CountUnused(t.Context(), "192.0.2.1", time.Time{})
	must(t, err)
	if registered != 3*maxUnused/2 || unused != 0 {
		t.Errorf("an hour later there are %d clients, %d unused", registered, unused)
	}
}

// When there are too many clients, those make room that nobody has let in and that ask nobody.
func TestManyClients(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		used, asks, idle := r.register(home), r.register(home), r.register(home)
		out := r.token(exchange(used, home, r.allow(request(used, home)).Get("code")))
		id, _, err := r.begin(request(asks, home), "browser")
		must(t, err)
		r.maxClients = 3
		r.pass(time.Second)
		r.register(home)
		if _, err := r.Store.OAuth.Client(t.Context(), idle); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the client that nobody uses stays: %v", err)
		}
		if out := r.token(refresh(used, out.Body["refresh_token"].(string))); out.Status != http.StatusOK {
			t.Errorf("the client that is used: %v", out.Body)
		}
		_, err = r.Request(t.Context(), id, "browser")
		must(t, err)

		// Nor does tidying up remove a client that asks somebody.
		r.pass(2 * time.Hour)
		id, _, err = r.begin(request(asks, home), "browser")
		must(t, err)
		_, err = r.Store.Purge(t.Context(), store.Limits{Now: r.clock()})
		must(t, err)
		_, err = r.Request(t.Context(), id, "browser")
		must(t, err)
	})
}

// Letters that look like others are in no host by which people decide.
func TestStrangeLetters(t *testing.T) {
	for _, host := range []string{"сlaude.ai", "%D1%81laude.ai", "a.example;sandbox", "a.example%20b", "a.example,b"} {
		if isUsableRedirect("https://" + host + "/cb") {
			t.Errorf("%s is a host of a redirect", host)
		}
		if isDocumentID("https://" + host + "/client.json") {
			t.Errorf("%s is the host of a document", host)
		}
	}
	for _, redirect := range []string{"https://xn--laude-5ve.ai/cb", "http://[::1]:8080/cb", "https://a-b_c.example:8443/cb?x=1"} {
		if !isUsableRedirect(redirect) {
			t.Errorf("%s is not usable", redirect)
		}
	}
}

// What programs claim leads to no scheme that anybody could have meant; an administrator may add
// others.
func TestClaimedSchemes(t *testing.T) {
	own := []string{"com.example.app:/cb", "cursor://a/cb", "vscode://a.b/cb", "https://a.example/cb", "http://127.0.0.1/cb"}
	others := []string{"myapp://cb", "steam://run", "javascript:alert(1)", "ms-settings:/x"}
	if got := claimedRedirects(append(own, others...)); !slices.Equal(got, own) {
		t.Errorf("got %q", got)
	}
	if got := usableRedirects(others); !slices.Equal(got, []string{"myapp://cb", "steam://run", "ms-settings:/x"}) {
		t.Errorf("an administrator may add %q", got)
	}
}

// Programs that are described by a document.
func TestDocuments(t *testing.T) {
	documents := map[string]map[string]any{}
	life := "max-age=600"
	reads := 0
	var late func(*http.Request)
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		reads++
		w.Header().Set("Cache-Control", life)
		d, ok := documents[req.URL.Path]
		switch {
		case late != nil:
			late(req)
		case req.URL.Path == "/moved":
			http.Redirect(w, req, "/client.json", http.StatusFound)
		case req.URL.Path == "/large":
			w.Write([]byte(`{"x":"` + strings.Repeat("x", maxDocument) + `"}`)) //nolint:errcheck // a test
		case !ok:
			http.NotFound(w, req)
		default:
			json.NewEncoder(w).Encode(d) //nolint:errcheck // a test
		}
	}))
	defer web.Close()
	const at = "https://app.example/"
	document := func(change func(map[string]any)) map[string]any {
		d := map[string]any{"client_id": at + "client.json", "client_name": "An App", "redirect_uris": []string{"https://app.example/cb"}}
		change(d)
		return d
	}
	documents["/client.json"] = document(func(map[string]any) {})
	// As ChatGPT's: another method first.
	documents["/chat.json"] = document(func(d map[string]any) {
		d["client_id"], d["token_endpoint_auth_method"] = at+"chat.json", "private_key_jwt"
		d["token_endpoint_auth_methods_supported"] = []string{"none", "private_key_jwt"}
	})
	documents["/other.json"] = document(func(map[string]any) {})
	documents["/nameless.json"] = document(func(d map[string]any) { d["client_id"] = at + "nameless.json"; delete(d, "client_name") })
	documents["/secret.json"] = document(func(d map[string]any) { d["client_id"], d["client_secret"] = at+"secret.json", "x" })
	documents["/jwt.json"] = document(func(d map[string]any) {
		d["client_id"], d["token_endpoint_auth_method"] = at+"jwt.json", "private_key_jwt"
	})
	r := newRig(t, storetest.SQLite(t), Options{Dial: pipe(web)})
	tls := web.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	tls.ServerName = "example.com"
	r.documents.Transport.(*http.Transport).TLSClientConfig = tls

	for _, name := range []string{"client.json", "chat.json"} {
		id := at + name
		n, _, err := r.begin(request(id, "https://app.example/cb"), "browser")
		must(t, err)
		q, err := r.Request(t.Context(), n, "browser")
		must(t, err)
		if q.Host != "app.example" || q.Program.Name != "An App" || q.RedirectHost != "app.example" || q.IsLocal {
			t.Errorf("the person is told %+v", q)
		}
		code := r.allow(request(id, "https://app.example/cb")).Get("code")
		if out := r.token(exchange(id, "https://app.example/cb", code)); out.Status != http.StatusOK {
			t.Errorf("%s: %v", name, out.Body)
		}
	}
	if reads != 2 {
		t.Errorf("two documents were read %d times", reads)
	}
	for _, id := range []string{"other.json", "nameless.json", "secret.json", "jwt.json", "moved", "large", "missing",
		"", "a/../client.json", "client.json#x", "./client.json"} {
		_, _, err := r.begin(request(at+id, "https://app.example/cb"), "browser")
		if _, ok := errors.AsType[*problem.Error](err); !ok {
			t.Errorf("%q is accepted: %v", id, err)
		}
	}
	for _, id := range []string{"http://app.example/client.json", "https://ada@app.example/client.json"} {
		if _, _, err := r.begin(request(id, "https://app.example/cb"), "browser"); err == nil {
			t.Errorf("%q is accepted", id)
		}
	}
	before := reads
	_, _, _ = r.begin(request(at+"missing", "https://app.example/cb"), "browser")
	if reads != before {
		t.Error("a document that is missing is read again and again")
	}

	// Whoever leaves while a document is read says nothing about it.
	documents["/late.json"] = document(func(d map[string]any) { d["client_id"] = at + "late.json" })
	gone, leave := context.WithCancel(t.Context())
	late = func(req *http.Request) { leave(); <-req.Context().Done() }
	_, err := r.documentClient(gone, at+"late.json")
	late = nil
	if err == nil {
		t.Error("a document was read for nobody")
	}
	if _, _, err := r.begin(request(at+"late.json", "https://app.example/cb"), "browser"); err != nil {
		t.Errorf("a document that somebody else did not wait for: %v", err)
	}

	// A document that has changed before the person consents.
	n, _, err := r.begin(request(at+"client.json", "https://app.example/cb"), "browser")
	must(t, err)
	documents["/client.json"]["redirect_uris"] = []string{"https://app.example/new"}
	r.pass(9 * time.Minute)
	if _, err := r.Request(t.Context(), n, "browser"); err != nil {
		t.Errorf("the document is fresh: %v", err)
	}
	n, _, err = r.begin(request(at+"client.json", "https://app.example/cb"), "browser")
	must(t, err)
	r.pass(2 * time.Minute)
	if _, err = r.Request(t.Context(), n, "browser"); err == nil {
		t.Error("a redirect that the document has no more is used")
	}
}
