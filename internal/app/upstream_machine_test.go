package app

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// A person adds a server to which Patchbay signs in by itself. Its page says so and wants nothing.
func TestUpstreamByItself(t *testing.T) {
	as := toolsWithSignIn(t)
	as.AddClient("robot", "right and secret")
	s := newOAuthServer(t, Options{})
	s.enter()
	path, text, _ := s.page(http.MethodPost, s.url+"/tools/upstreams", url.Values{"way": {"url"}, "name": {"shop"},
		"url": {as.URL + "/mcp"}, "oauth_grant": {"client_credentials"}, "client_id": {"robot"},
		"client_secret": {"right and secret"}})
	if !strings.HasPrefix(path, "/tools/upstreams/") {
		t.Fatalf("adding it shows %s: %.2000s", path, text)
	}
	api := s.operator()
	await(t, api, "/upstreams/"+strings.TrimPrefix(path, "/tools/upstreams/"), "ready")
	_, text, _ = s.page(http.MethodGet, s.url+path, nil)
	if !strings.Contains(text, "signs in to this server by itself") || !strings.Contains(text, "Last token") ||
		strings.Contains(text, path+"/signin\"") || strings.Contains(text, "and secret") {
		t.Errorf("its page is %.3000s", text)
	}
	before := as.Count("POST /token client_credentials")
	s.page(http.MethodPost, s.url+path+"/signout", url.Values{})
	await(t, api, "/upstreams/"+strings.TrimPrefix(path, "/tools/upstreams/"), "ready")
	api(http.MethodPost, "/tools/shop_get_temperature/call", `{"arguments":{"room":"kitchen"}}`, nil)
	if n := as.Count("POST /token client_credentials"); n != before+1 {
		t.Errorf("forgetting the token leads to %d requests for tokens", n-before)
	}
	if _, text, _ = s.page(http.MethodPost, s.url+path+"/signin", url.Values{}); !strings.Contains(text,
		"Nobody has to sign in") {
		t.Errorf("a sign-in by hand shows %.2000s", text)
	}
}
