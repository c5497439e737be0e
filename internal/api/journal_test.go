package api_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/store"
)

// What an administrator does with a member's board is the member's row, and names the
// administrator with key and address, whatever the way.
func TestCallsNameWhoActed(t *testing.T) {
	h := newHouse(t)
	plugged(t, h, &provider{})
	eve, err := h.Accounts.AddPerson(t.Context(), "eve", account.RoleAdmin, "en", "")
	if err != nil {
		t.Fatal(err)
	}
	eves := h.Key(t, account.NewKey{Person: eve.ID, Name: "eves", Scopes: []string{account.ScopeAdmin}})
	p, err := h.Accounts.Authenticate(t.Context(), eves, account.ScopeAdmin)
	if err != nil {
		t.Fatal(err)
	}
	listens := make(chan struct{})
	h.listen = func(ctx context.Context, _ int64, w io.Writer) error {
		listens <- struct{}{}
		<-ctx.Done()
		return nil
	}
	for _, c := range []struct{ name, key, actor, actorName, keyID string }{
		{"an administrator", eves, eve.ID, "eve", p.Key.ID},
		{"the owner", h.operator, "", "", ""},
		{"whoever runs the machine", h.local, "-", "", ""},
	} {
		h.lines(c.key, "record", `{}`)
		ctx, leave := context.WithCancel(t.Context())
		go func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+"/api/v1/devices/kettle/listen", nil)
			if err != nil {
				return
			}
			r.Header.Set("Authorization", "Bearer "+c.key)
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		}()
		<-listens
		// While it lasts.
		page := answered[control.CallPage](h, h.operator, "GET", "calls?limit=2", "")
		leave()
		if len(page.Calls) != 2 || page.Calls[0].Tool != "kettle_listen" || page.Calls[1].Tool != "kettle_record" {
			t.Fatalf("%s: the owner reads %+v", c.name, page.Calls)
		}
		for _, row := range page.Calls {
			if row.Person != h.Person.ID || row.PersonName != "ada" || row.Actor != c.actor || row.ActorName != c.actorName || row.Address != "127.0.0.1" || row.Door == "" {
				t.Errorf("%s: %+v", c.name, row)
			}
			if c.keyID != "" && row.Key != c.keyID {
				t.Errorf("%s: the key is %q, not %q", c.name, row.Key, c.keyID)
			}
		}
	}
	if page := answered[control.CallPage](h, h.bobs, "GET", "calls", ""); len(page.Calls) != 0 {
		t.Errorf("bob reads %+v", page.Calls)
	}
	if list, err := h.Store.Calls.Find(t.Context(), store.CallFilter{Person: eve.ID}, 9); err != nil || len(list) != 0 {
		t.Errorf("rows of the administrator's own: %+v %v", list, err)
	}
}
