package app

import (
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/openai"
)

// bare sends a request without the browser's cookies; headers are name-value pairs.
func (d *desk) bare(method, path, body string, headers ...string) *http.Response {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		d.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// keyOf creates a key of ada's.
func (d *desk) keyOf(scope string) string {
	d.t.Helper()
	ada, err := d.base.Store.People.ByName(d.t.Context(), "ada")
	if err != nil {
		d.t.Fatal(err)
	}
	_, secret, err := d.base.Accounts.AddKey(d.t.Context(), account.NewKey{Person: ada.ID, Name: scope,
		Scopes: []string{scope}})
	if err != nil {
		d.t.Fatal(err)
	}
	return secret
}

const formType = "application/x-www-form-urlencoded"

// Wrong keys of a program do not keep its owner, at the same address, from signing in.
func TestWrongKeysAndSignIn(t *testing.T) {
	d := newDesk(t, map[string]string{"limits.auth_failures": "3"})
	for _, want := range []int{401, 401, 401, 429, 429} {
		if resp := d.bare(http.MethodGet, "/api/v1/me", "", "Authorization",
			"Bearer pb_wrong"); resp.StatusCode != want {
			t.Errorf("a wrong key is answered %d, not %d", resp.StatusCode, want)
		}
	}
	form := url.Values{"name": {"ada"}, "password": {"correct horse"}}
	if resp := d.bare(http.MethodPost, "/signin", form.Encode(),
		"Content-Type", formType); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("the owner is answered %d", resp.StatusCode)
	}
	form.Set("password", "wrong")
	for _, want := range []int{403, 403, 403, 429} {
		if resp := d.bare(http.MethodPost, "/signin", form.Encode(),
			"Content-Type", formType); resp.StatusCode != want {
			t.Errorf("a wrong password is answered %d, not %d", resp.StatusCode, want)
		}
	}
	if resp := d.bare(http.MethodGet, "/api/v1/me", "", "Authorization",
		"Bearer "+d.keyOf(account.ScopeOperator)); resp.StatusCode != http.StatusOK {
		t.Errorf("a good key pays for wrong passwords: %d", resp.StatusCode)
	}
}

// With an https public address, cookies are for https only and browsers are told to use https only,
// even behind a proxy that does not forward the scheme.
func TestCookiesOfHTTPS(t *testing.T) {
	d := newDesk(t, map[string]string{"public_url": "https://board.example.org"})
	form := url.Values{"name": {"ada"}, "password": {"correct horse"}}.Encode()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/signin", strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "board.example.org"
	req.Header.Set("Content-Type", formType)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.Header.Get("Strict-Transport-Security") == "" || len(resp.Cookies()) != 2 {
		t.Errorf("%d: %v", resp.StatusCode, resp.Header)
	}
	for _, c := range resp.Cookies() {
		if !c.Secure || !strings.HasPrefix(c.Name, "__Host-") {
			t.Errorf("%v", c)
		}
	}
	// On the machine itself there is no proxy.
	for _, c := range d.bare(http.MethodPost, "/signin", form, "Content-Type", formType).Cookies() {
		if c.Secure {
			t.Errorf("over http on this machine: %v", c)
		}
	}
}

// The data folder is accessible to its owner only, even if it was created otherwise; responses with
// secrets are not cached; metrics require an administrator's key and are refused to foreign pages;
// and no page of another site connects to the gateway.
func TestSmallHardenings(t *testing.T) {
	d := newDesk(t, map[string]string{})
	if info, err := os.Stat(d.folder); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the data folder is %v, %v", info.Mode(), err)
	}
	operator, admin := "Bearer "+d.keyOf(account.ScopeOperator), "Bearer "+d.keyOf(account.ScopeAdmin)
	if resp := d.bare(http.MethodGet, "/api/v1/me", "", "Authorization",
		operator); resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", resp.Header)
	}
	const proxied = "X-Forwarded-For"
	for _, c := range []struct {
		host, from, key string
		want            int
	}{
		{"", "", "", 200}, {"localhost:3000", "", "", 200}, {"evil.example", "", "", 401},
		{"", "192.0.2.1", "", 401}, {"", "192.0.2.1", operator, 401}, {"", "192.0.2.1", admin, 200},
		{"evil.example", "", admin, 200},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.host != "" {
			req.Host = c.host
		}
		if c.from != "" {
			req.Header.Set(proxied, c.from)
		}
		req.Header.Set("Authorization", c.key)
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("numbers for %+v: %d", c, resp.StatusCode)
		}
	}
	upgrade := []string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
		"Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="}
	for _, path := range []string{"/", "/anything"} {
		for origin, want := range map[string]int{"": 101, d.url: 101, "https://evil.example": 403, "null": 403} {
			headers := upgrade
			if origin != "" {
				headers = append(slices.Clone(upgrade), "Origin", origin)
			}
			if resp := d.bare(http.MethodGet, path, "", headers...); resp.StatusCode != want {
				t.Errorf("a WebSocket on %s from %q: %d", path, origin, resp.StatusCode)
			}
		}
	}
}

// Headers for a model may be secret and are sealed like its key.
func TestHeadersOfBotsAreSealed(t *testing.T) {
	d := newDesk(t, map[string]string{})
	ada, err := d.base.Store.People.ByName(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := d.base.Registry.Add(t.Context(), hub.NewBot{Owner: ada.ID,
		Name: "model", Kind: "openai", Set: map[string]string{
			"base_url": "http://127.0.0.1:9/v1", "model": "m", "headers": `{"X-Secret":"s3cr3t-value"}`,
		}})
	if err != nil {
		t.Fatal(err)
	}
	row, err := d.base.Store.Bots.ByNumber(t.Context(), b.Number)
	if err != nil || strings.Contains(string(row.Settings), "s3cr3t") {
		t.Errorf("kept as %s, %v", row.Settings, err)
	}
	shown, err := d.base.Registry.MaskedSettings(row)
	if err != nil || strings.Contains(string(shown["headers"]), "s3cr3t") {
		t.Errorf("shown as %s, %v", shown["headers"], err)
	}
	var settings openai.Settings
	if err := d.base.Registry.Settings(row, &settings); err != nil || settings.Headers["X-Secret"] != "s3cr3t-value" {
		t.Errorf("read as %v, %v", settings.Headers, err)
	}
}
