package upgrade

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestNewer(t *testing.T) {
	// Semantic Versioning 2.0.0, item 11: each is newer than the one before it.
	order := []string{"v0.9.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2",
		"1.0.0-beta.11", "1.0.0-rc.1", "v1.0.0", "v1.0.1+build7", "v1.10.0", "v2.0.0"}
	for i, a := range order {
		for j, b := range order {
			if newer, known := Newer(a, b); newer != (i > j) || !known {
				t.Errorf("%s after %s: %v, %v", a, b, newer, known)
			}
		}
	}
	for _, odd := range []string{"", "devel", "v1", "v1.2", "1.2.x", "1.2.3-", "v1.2.3.4", "-1.2.3"} {
		if _, known := Newer(odd, "v1.0.0"); known {
			t.Errorf("%q is a version", odd)
		}
	}
}

func TestLatest(t *testing.T) {
	answer, status := `{"version": "v1.4.0", "url": "https://e.org/v1.4.0", "notes": "red\u001b[31m"}`, http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		w.Write([]byte(answer)) //nolint:errcheck // the client notices
	}))
	defer s.Close()
	dial := new(net.Dialer).DialContext
	r, err := Latest(t.Context(), s.URL, dial)
	if err != nil || r.Version != "v1.4.0" || r.Notes != "red[31m" {
		t.Errorf("%+v, %v", r, err)
	}
	for _, c := range []struct{ address, answer, want string }{
		{"", answer, "upgrade.feed"},
		{"ftp://e.org/latest.json", answer, "must be an address"},
		{s.URL, `{"version": "newest"}`, "cannot be read"},
		{s.URL, strings.Repeat(" ", maxFeed) + answer, "cannot be read"},
		{"http://127.0.0.1:1", answer, "cannot be reached"},
	} {
		answer = c.answer
		if _, err := Latest(t.Context(), c.address, dial); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", c.address, err, c.want)
		}
	}
	status = http.StatusNotFound
	if _, err := Latest(t.Context(), s.URL, dial); err == nil || !strings.Contains(err.Error(), "404") {
		t.Error(err)
	}
}

func FuzzFeed(f *testing.F) {
	f.Add([]byte(`{"version": "v1.4.0-rc.1", "notes": "x"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, ok := parse(text); ok {
			if newer, known := Newer(r.Version, r.Version); newer || !known {
				t.Errorf("%q is newer than itself", r.Version)
			}
		}
	})
}
