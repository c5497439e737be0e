package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"patchbay/internal/fetch"
	"patchbay/internal/tool"
)

// fakeAPI is an API on the web, with its OpenAPI document at /openapi.json.
type fakeAPI struct {
	mu       sync.Mutex
	document string
	fetched  int
	seen     []string // requests of operations
	referer  string   // the last one of any request
	release  chan struct{}
	srv      *httptest.Server
}

// shopDocument is the document of an API; %s is its servers, and another path.
const shopDocument = `{"openapi":"3.1.0","info":{"title":"Shop","version":"3"},"servers":[%s],"paths":{
"/items/{id}":{"get":{"operationId":"getItem","summary":"Get an item","parameters":[
 {"name":"id","in":"path","required":true,"schema":{"type":"string"}},
 {"name":"api_key","in":"query","required":true,"schema":{"type":"string"}},
 {"name":"X-Key","in":"header","required":true,"schema":{"type":"string"}}],
 "responses":{"200":{"description":"ok","content":{"application/json":{"schema":{"type":"object","properties":{"id":{"type":"string"}}}}}}}},
 "delete":{"operationId":"deleteItem","parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],"responses":{}}},
"/away":{"get":{"operationId":"away","responses":{}}},
"/near":{"get":{"operationId":"near","responses":{}}},
"/slow":{"get":{"operationId":"slow","responses":{}}},
"/huge":{"get":{"operationId":"huge","responses":{}}},
"/file":{"post":{"operationId":"sendFile","requestBody":{"content":{"application/octet-stream":{}}},"responses":{}}}%s}}`

func newFakeAPI(t testing.TB, document string) *fakeAPI {
	t.Helper()
	a := &fakeAPI{document: document, release: make(chan struct{})}
	a.srv = httptest.NewServer(a)
	t.Cleanup(func() {
		a.srv.CloseClientConnections()
		a.srv.Close()
	})
	return a
}

func (a *fakeAPI) set(document string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.document = document
}

func (a *fakeAPI) requests() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.seen...)
}

func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	document := a.document
	a.referer = cmp.Or(r.Header.Get("Referer"), a.referer)
	if r.URL.Path == "/openapi.json" {
		a.fetched++
	} else {
		a.seen = append(a.seen, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", r.Method, r.URL,
			r.Header.Get("Authorization"), body)))
	}
	a.mu.Unlock()
	switch {
	case r.URL.Path == "/openapi.json":
		etag := fmt.Sprintf(`"%d"`, len(document))
		w.Header().Set("Etag", etag)
		if r.Header.Get("If-None-Match") == etag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		io.WriteString(w, document)
	case strings.HasPrefix(r.URL.Path, "/api/items/none"):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error":"no such item"}`)
	case strings.HasPrefix(r.URL.Path, "/api/items/"):
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]string{"id": strings.TrimPrefix(r.URL.EscapedPath(), "/api/items/")})
	case r.URL.Path == "/api/away":
		http.Redirect(w, r, "http://other.invalid/", http.StatusFound)
	case r.URL.Path == "/api/near":
		http.Redirect(w, r, "/api/nearer", http.StatusTemporaryRedirect)
	case r.URL.Path == "/api/nearer":
		http.Redirect(w, r, "/api/items/9", http.StatusFound)
	case r.URL.Path == "/api/slow":
		select {
		case <-a.release:
		case <-r.Context().Done():
		}
	case r.URL.Path == "/api/huge":
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, strings.Repeat("x", 4<<20))
	default:
		http.NotFound(w, r)
	}
}

func (a *fakeAPI) settings() Settings {
	return Settings{URL: a.srv.URL + "/openapi.json", Transport: OpenAPI}
}

const ownServer = `{"url":"/api"}`

func TestAPIs(t *testing.T) {
	a := newFakeAPI(t, fmt.Sprintf(shopDocument, ownServer, ""))
	s := a.settings()
	s.Token, s.Query, s.Headers = "s3cret-token", map[string]string{"api_key": "s3cret-query"},
		map[string]string{"x-key": "k"}
	r := newRig(t, s, nil).ready()
	list := r.tools("the operations", has("getItem"))
	for _, one := range list {
		switch one.Name {
		case "getItem":
			if one.Hints.ReadOnly == nil || !*one.Hints.ReadOnly || one.Dangerous ||
				strings.Contains(string(one.Input), "api_key") ||
				strings.Contains(string(one.Input), "X-Key") || len(one.Output) == 0 {
				t.Errorf("getItem is %+v", one)
			}
		case "deleteItem":
			if !one.Dangerous {
				t.Errorf("deleteItem is %+v", one)
			}
		}
	}
	st := r.state(Ready)
	if st.Protocol != "OpenAPI 3.1.0" || st.Transport != OpenAPI || st.Server != "Shop" || len(st.LeftOut) != 1 ||
		!strings.Contains(st.LeftOut[0].String(), "POST /file: bodies of the type application/octet-stream") {
		t.Errorf("the status is %+v", st)
	}
	res, err := r.call(t.Context(), "getItem", `{"id":"a/b"}`)
	if err != nil || string(res.Structured) != `{"id":"a%2Fb"}` {
		t.Errorf("the result is %+v, %v", res, err)
	}
	if got := a.requests(); len(got) != 1 || got[0] != "GET /api/items/a%2Fb?api_key=s3cret-query Bearer s3cret-token" {
		t.Errorf("the API got %q", got)
	}
	res, err = r.call(t.Context(), "getItem", `{"id":"none"}`)
	if err != nil || !res.IsError || !strings.Contains(res.PlainText(), "404 Not Found\n{\"error\"") {
		t.Errorf("the failure is %+v, %v", res, err)
	}
	if res, err = r.call(t.Context(), "away", `{}`); err != nil || !res.IsError || !strings.Contains(res.PlainText(), "302 Found") {
		t.Errorf("the redirect is %+v, %v", res, err)
	}
	if res, err = r.call(t.Context(), "near", `{}`); err != nil || res.IsError || a.referer != "" {
		t.Errorf("the redirects at the same address: %+v, %v, with Referer %q", res, err, a.referer)
	}
	if res, err = r.call(t.Context(), "huge", `{}`); err != nil || !res.IsError || !strings.Contains(res.PlainText(), "is larger than") {
		t.Errorf("the huge response is %v", err)
	}
	r.fails(tool.BadArgs, "getItem", `{"id":".."}`)
	if strings.Contains(r.log.String(), "s3cret") {
		t.Error("a secret is in the log")
	}
}

func TestCallsOfAPIsEnd(t *testing.T) {
	a := newFakeAPI(t, fmt.Sprintf(shopDocument, ownServer, ""))
	s := a.settings()
	r := newRig(t, s, nil).ready()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := r.call(ctx, "slow", `{}`)
		done <- err
	}()
	for len(a.requests()) == 0 {
		r.state(Ready)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled call ends with %v", err)
	}
	// The API is gone, and its document too: calls say so, and the upstream waits for it.
	a.srv.CloseClientConnections()
	a.srv.Listener.Close()
	r.fails(tool.Offline, "away", `{}`)
}

// TestDocumentsThatChange reads the document again, as it is done every few minutes.
func TestDocumentsThatChange(t *testing.T) {
	a := newFakeAPI(t, fmt.Sprintf(shopDocument, ownServer, ""))
	times := fastTimings()
	times.listInterval = times.refreshDelay
	s := a.settings()
	s.Deny = []string{"delete*"}
	r := newRig(t, s, times).ready()
	if r.tools("the operations", some); r.state(Ready).Hidden != 1 {
		t.Errorf("hidden are %d", r.state(Ready).Hidden)
	}
	a.set(fmt.Sprintf(shopDocument, ownServer, `,"/new":{"get":{"operationId":"brandNew","responses":{}}}`))
	r.tools("the new operation", has("brandNew"))
	// A document that cannot be read leaves everything as it was.
	a.set(`{"openapi":"3.1.0"}`)
	a.mu.Lock()
	before := a.fetched
	a.mu.Unlock()
	r.status("read again", func(Status) bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.fetched > before+1
	})
	if res, err := r.call(t.Context(), "getItem", `{"id":"1","api_key":"x","X-Key":"y"}`); err != nil || res.IsError {
		t.Errorf("%+v, %v", res, err)
	}
}

// TestDocumentsDoNotLeadElsewhere has a document that names another server.
func TestDocumentsDoNotLeadElsewhere(t *testing.T) {
	target := newFakeAPI(t, "")
	server := fmt.Sprintf(`{"url":"%s/api"}`, target.srv.URL)
	a := newFakeAPI(t, fmt.Sprintf(shopDocument, server, ""))
	s := a.settings()
	s.Token = "s3cret-token"
	r := newRig(t, s, fastTimings()).start()
	if st := r.state(Failed); !strings.Contains(st.Err.Error(),
		"The document says that the API is at "+target.srv.URL+"/api") {
		t.Errorf("the state is %v", st.Err)
	}
	if len(target.requests()) > 0 {
		t.Errorf("the other server got %q", target.requests())
	}
	// The owner sets base_url to that address: the token is sent to the API, not to the host of the
	// document.
	s.BaseURL = target.srv.URL + "/api"
	r = newRig(t, s, fastTimings()).ready()
	r.must("getItem", `{"id":"1","api_key":"x","X-Key":"y"}`)
	if got := target.requests(); len(got) != 1 || !strings.Contains(got[0], "Bearer s3cret-token") {
		t.Errorf("the API got %q", got)
	}
	if strings.Contains(strings.Join(a.requests(), "\n"), "s3cret") {
		t.Error("the token went to where the document is")
	}
}

func TestDocumentsAsTexts(t *testing.T) {
	a := newFakeAPI(t, "")
	document := fmt.Sprintf(shopDocument, fmt.Sprintf(`{"url":"%s/api"}`, a.srv.URL), "")
	base, err := APIBase(document)
	if err != nil || base != a.srv.URL+"/api" {
		t.Fatalf("the base is %q, %v", base, err)
	}
	r := newRig(t, Settings{Document: document, BaseURL: base, Basic: "ada:s3cret-word"}, nil).ready()
	r.must("getItem", `{"id":"1","api_key":"x","X-Key":"y"}`)
	if got := a.requests(); len(got) != 1 || got[0] != "GET /api/items/1?api_key=x Basic YWRhOnMzY3JldC13b3Jk" {
		t.Errorf("the API got %q", got)
	}
	if got := r.spec.Settings.DisplayAddress(); got != base {
		t.Errorf("it is shown at %q", got)
	}
}

func TestDocumentsThatCannotBeRead(t *testing.T) {
	for _, c := range []struct{ path, document, problem string }{
		{"/openapi.json", "<html>no</html>", "neither JSON nor YAML"},
		{"/openapi.json", `{"hello":1}`, "no member openapi"},
		{"/openapi.json", strings.Repeat(" ", 3<<20), "too large"},
		{"/nothing", "", "answered 404 Not Found"},
	} {
		a := newFakeAPI(t, c.document)
		s := a.settings()
		s.URL = a.srv.URL + c.path
		r := newRig(t, s, fastTimings())
		_, err := Check(t.Context(), r.spec, r.m.opt)
		if err == nil || !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%s: %v", c.path, err)
		}
	}
	// The address of somebody who may not reach private networks.
	a := newFakeAPI(t, fmt.Sprintf(shopDocument, ownServer, ""))
	r := newRig(t, a.settings(), fastTimings())
	r.spec.Untrusted, r.m.opt.Dial = true, fetch.New(fetch.Options{}).Dial
	if _, err := Check(t.Context(), r.spec, r.m.opt); err == nil || !strings.Contains(err.Error(),
		"private or special network") {
		t.Errorf("a private address: %v", err)
	}
}

func TestSettingsOfAPIs(t *testing.T) {
	for _, c := range []struct {
		s       Settings
		problem string
	}{
		{Settings{Transport: OpenAPI}, "url or document is missing"},
		{Settings{Document: "x"}, "base_url is missing"},
		{Settings{Transport: OpenAPI, URL: "https://a.example", Document: "x"}, "both url and document"},
		{Settings{Transport: OpenAPI, URL: "https://a.example", Token: "a", Basic: "a:b"}, "token and basic"},
		{Settings{Transport: OpenAPI, URL: "https://a.example", Basic: "ab"}, "name:password"},
		{Settings{Transport: OpenAPI, URL: "https://a.example", BaseURL: "ftp://x"}, "base_url is not a web address"},
		{Settings{Transport: OpenAPI, URL: "https://a.example", Command: "npx"}, "an address and a command"},
		{Settings{Transport: OpenAPI, URL: "https://a.example", ClientID: "x"}, "client_id"},
		{Settings{URL: "https://a.example", Basic: "a:b"}, "are for OpenAPI documents"},
	} {
		if err := c.s.Validate(); err == nil || !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
}
