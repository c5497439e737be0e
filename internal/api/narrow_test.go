package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/control"
)

// send makes a request to any operation, and decodes the answer if it succeeds.
func (h *testServer) send(into any, key, method, path, body string) int {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+"/api/v1/"+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK && into != nil {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			h.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	return resp.StatusCode
}

// What a key makes ends with it, when it expires and when it is revoked, and is called no
// more often.
func TestKeysEndWithTheirMaker(t *testing.T) {
	h := newTestServer(t)
	secret := h.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}, Expires: 10 * 24 * time.Hour})
	maker, err := h.Accounts.Authenticate(t.Context(), secret, account.ScopeOperator)
	if err != nil {
		t.Fatal(err)
	}
	glasses := fmt.Sprintf("bots/%d/keys", h.bot.Number)
	for _, c := range []struct {
		path, body string
		want       int
	}{
		{"keys", `{"name":"x","scopes":["mcp"],"days":11}`, http.StatusForbidden},
		{"keys", `{"name":"x","scopes":["mcp"],"expires":"` + time.Now().Add(11*24*time.Hour).Format(time.RFC3339) +
			`"}`, http.StatusForbidden},
		{"keys", `{"name":"x","scopes":["mcp"],"days":3}`, http.StatusOK},
		{"keys", `{"name":"x","scopes":["operator"]}`, http.StatusOK},
		{glasses, `{"name":"x"}`, http.StatusOK},
	} {
		var made control.CreatedKey
		if got := h.send(&made, secret, http.MethodPost, c.path, c.body); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.path, c.body, got, c.want)
		} else if got == http.StatusOK && (made.Expires.IsZero() || made.Expires.After(maker.Key.Expires)) {
			t.Errorf("%s %s expires at %v, and the key that made it at %v", c.path, c.body, made.Expires,
				maker.Key.Expires)
		}
	}
	// Children of children end too.
	lasting := h.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}})
	top, err := h.Accounts.Authenticate(t.Context(), lasting, account.ScopeOperator)
	if err != nil {
		t.Fatal(err)
	}
	secrets := []string{lasting}
	for _, path := range []string{"keys", "keys", glasses} {
		var made control.CreatedKey
		body := `{"name":"x"}`
		if path == "keys" {
			body = `{"name":"x","scopes":["operator"]}`
		}
		if got := h.send(&made, secrets[len(secrets)-1], http.MethodPost, path, body); got != http.StatusOK {
			t.Fatalf("%s: %d", path, got)
		}
		secrets = append(secrets, made.Secret)
	}
	if got := h.send(nil, h.operator, http.MethodDelete, "keys/"+top.Key.ID, ""); got != http.StatusOK {
		t.Fatal(got)
	}
	for i, s := range secrets {
		if _, err := h.Accounts.Authenticate(t.Context(), s, account.ScopeOperator,
			account.ScopeLingzhu); !errors.Is(err, account.ErrRevoked) {
			t.Errorf("key %d of the line: %v", i, err)
		}
	}
	if _, err := h.Accounts.Authenticate(t.Context(), secret, account.ScopeOperator); err != nil {
		t.Errorf("another key: %v", err)
	}
	// Whoever has a rate gives no key without one, nor takes its own away.
	rated := h.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}, Rules: `{"per_minute":5}`})
	who, err := h.Accounts.Authenticate(t.Context(), rated, account.ScopeOperator)
	if err != nil {
		t.Fatal(err)
	}
	for path, method := range map[string]string{"keys": http.MethodPost, glasses: http.MethodPost,
		"keys/" + who.Key.ID: http.MethodPatch} {
		body := map[string]string{"keys": `{"name":"x","scopes":["mcp"]}`, glasses: `{"name":"x"}`}[path]
		if body == "" {
			body = `{"rules":{}}`
		}
		if got := h.send(nil, rated, method, path, body); got != http.StatusForbidden {
			t.Errorf("%s %s by a key with a rate: %d", method, path, got)
		}
	}
	// Accounts have no end.
	ending := h.Key(t, account.NewKey{Scopes: []string{account.ScopeAdmin}, Expires: time.Hour})
	for path, want := range map[string]int{"people": http.StatusForbidden,
		"people/" + h.bob.ID + "/password": http.StatusForbidden} {
		if got := h.send(nil, ending, http.MethodPost, path, `{}`); got != want {
			t.Errorf("%s by a key that expires: %d", path, got)
		}
	}
}

// A key for one bot leaves boards and keys alone, and hears nothing of boards.
func TestKeyForOneBotLeavesTheRestAlone(t *testing.T) {
	h := newTestServer(t)
	only := h.Key(t, account.NewKey{Scopes: []string{account.ScopeOperator}, Bot: h.bot.Number})
	code := h.shows("aa:aa:aa:aa:aa:09", "client")
	board := fmt.Sprintf("devices/%d", h.kettle.Number)
	for _, c := range []struct{ method, path, body string }{
		{"PATCH", board, `{"name":"mine"}`}, {"PATCH", board, fmt.Sprintf(`{"bot":"%d"}`, h.bot.Number)},
		{"DELETE", board, ""},
		{"POST", "devices/approve", `{"code":"` + code + `"}`}, {"GET", "notices", ""}, {"GET", "keys", ""},
		{"GET", "keys/x", ""},
		{"GET", fmt.Sprintf("bots/%d/keys", h.bot.Number), ""}, {"POST", "tools/on/rule", `{"rule":"allow"}`},
	} {
		if got := h.send(nil, only, c.method, c.path, c.body); got != http.StatusForbidden {
			t.Errorf("%s %s %s: %d", c.method, c.path, c.body, got)
		}
	}
	if d, err := h.Store.Devices.ByNumber(t.Context(), h.kettle.Number); err != nil || d.Name != "kettle" ||
		d.Bot != 0 {
		t.Errorf("the board is %+v, %v", d, err)
	}
}
