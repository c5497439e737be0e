package app

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// bare asks without the cookies of the browser; headers come in pairs.
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

const formType = "application/x-www-form-urlencoded"

// Wrong keys of a program do not keep its owner, who has the same address, from signing in.
func TestWrongKeysAndSignIn(t *testing.T) {
	d := newDesk(t, map[string]string{"limits.auth_failures": "3"})
	for _, want := range []int{401, 401, 401, 429, 429} {
		if resp := d.bare(http.MethodGet, "/api/v1/me", "", "Authorization", "Bearer pb_wrong"); resp.StatusCode != want {
			t.Errorf("a wrong key is answered %d, not %d", resp.StatusCode, want)
		}
	}
	form := url.Values{"name": {"ada"}, "password": {"correct horse"}}
	if resp := d.bare(http.MethodPost, "/signin", form.Encode(), "Content-Type", formType); resp.StatusCode != http.StatusSeeOther {
		t.Errorf("the owner is answered %d", resp.StatusCode)
	}
	form.Set("password", "wrong")
	for _, want := range []int{403, 403, 403, 429} {
		if resp := d.bare(http.MethodPost, "/signin", form.Encode(), "Content-Type", formType); resp.StatusCode != want {
			t.Errorf("a wrong password is answered %d, not %d", resp.StatusCode, want)
		}
	}
	if resp := d.bare(http.MethodGet, "/api/v1/me", "", "Authorization", "Bearer "+d.key); resp.StatusCode == http.StatusTooManyRequests {
		t.Error("a good key pays for wrong passwords")
	}
}
