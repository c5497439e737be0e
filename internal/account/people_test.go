package account_test

import (
	"errors"
	"testing"

	"patchbay/internal/account"
	"patchbay/internal/store"
)

// Changing the password requires the previous one, and ends the sign-ins of other browsers.
func TestChangePassword(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	p, err := h.AddPerson(ctx, "ada", account.RoleAdmin, "en", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	mine, err := h.Admit(ctx, p, account.Browser{Agent: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := h.Admit(ctx, p, account.Browser{Agent: "other"})
	if err != nil {
		t.Fatal(err)
	}
	here, err := h.CheckSignIn(ctx, mine, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.ChangePassword(ctx, p.ID, "wrong horse", "battery staple", here.ID); !errors.Is(err,
		account.ErrPassword) {
		t.Errorf("with a wrong password: %v", err)
	}
	if _, err := h.ChangePassword(ctx, p.ID, "correct horse", "short", here.ID); err == nil {
		t.Error("a short one is good")
	}
	if _, err := h.CheckSignIn(ctx, other, ""); err != nil {
		t.Errorf("what was refused ended a sign-in: %v", err)
	}
	token, err := h.ChangePassword(ctx, p.ID, "correct horse", "battery staple", here.ID)
	if err != nil {
		t.Fatal(err)
	}
	for name, old := range map[string]string{"the other": other, "the one before": mine} {
		if _, err := h.CheckSignIn(ctx, old, ""); !errors.Is(err, account.ErrSignedOut) {
			t.Errorf("%s is signed in still: %v", name, err)
		}
	}
	if again, err := h.CheckSignIn(ctx, token, ""); err != nil || again.Person.ID != p.ID {
		t.Errorf("who changed it is %+v, %v", again, err)
	}
	if _, _, err := h.SignIn(ctx, "ada", "battery staple", account.Browser{}); err != nil {
		t.Error(err)
	}
	if list, err := h.SignIns(ctx, p.ID); err != nil || len(list) != 2 {
		t.Errorf("signed in are %+v, %v", list, err)
	}
	h.now = h.now.Add(store.SignInIdle)
	if list, err := h.SignIns(ctx, p.ID); err != nil || len(list) != 0 {
		t.Errorf("after a month of nothing there are %+v, %v", list, err)
	}
}

func TestProfile(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	ada, err := h.AddPerson(ctx, "ada", account.RoleAdmin, "en", "")
	if err != nil {
		t.Fatal(err)
	}
	bob, err := h.AddPerson(ctx, "bob", account.RoleMember, "en", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, zone string
		want       error
	}{
		{"ada", "", account.ErrPersonName},
		{"bob", "Mars/Olympus", account.ErrZone},
		{"bob", "Local", account.ErrZone},
		{"bob", "../../etc/passwd", account.ErrZone},
		{" Bob ", "Asia/Shanghai", nil},
	} {
		if err := h.SetProfile(ctx, store.Person{ID: bob.ID, Name: c.name, Lang: "zh", Zone: c.zone}); !errors.Is(err,
			c.want) {
			t.Errorf("%q in %q: %v, want %v", c.name, c.zone, err, c.want)
		}
	}
	if p, err := h.db.People.ByID(ctx, bob.ID); err != nil || p.Name != "Bob" || p.Zone != "Asia/Shanghai" {
		t.Errorf("kept %+v, %v", p, err)
	}
	for _, err := range []error{h.SetRole(ctx, ada.ID, account.RoleMember), h.RemovePerson(ctx, ada.ID)} {
		if !errors.Is(err, account.ErrLastAdmin) {
			t.Errorf("the last admin: %v", err)
		}
	}
	if h.SetRole(ctx, bob.ID, "king") == nil {
		t.Error("there is a role king")
	}
	if err := errors.Join(h.SetRole(ctx, bob.ID, account.RoleAdmin), h.RemovePerson(ctx, ada.ID)); err != nil {
		t.Error(err)
	}
}
