package account_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// testInstallation is an installation without accounts, with a clock.
type testInstallation struct {
	*account.Service
	db  *store.DB
	box *seal.Box
	now time.Time
}

func newTestInstallation(t *testing.T) *testInstallation {
	h := &testInstallation{db: storetest.Open(t, store.Options{Folder: t.TempDir()}),
		now: time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)}
	box, err := seal.New(strings.Repeat("5e", 32))
	if err != nil {
		t.Fatal(err)
	}
	h.box = box
	h.Service = account.New(h.db, box, func() time.Time { return h.now })
	return h
}

// The first account is opened once, with the code from the terminal.
func TestSetUp(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	code, err := h.SetupCode(ctx)
	if err != nil || len(code) != 9 {
		t.Fatalf("%q, %v", code, err)
	}
	if again, _ := h.SetupCode(ctx); again != code {
		t.Error("another code after a restart")
	}
	ada := store.Person{Name: "ada", Lang: "en", Zone: "Asia/Shanghai"}
	for _, wrong := range []string{"", "AAAA-AAAA", code[:8], code + "A"} {
		if _, err := h.SetUp(ctx, wrong, ada, "correct horse", account.Browser{}); !errors.Is(err,
			account.ErrSetupCode) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	for _, password := range []string{"", "short"} {
		if _, err := h.SetUp(ctx, code, ada, password, account.Browser{}); err == nil {
			t.Errorf("the password %q is good", password)
		}
	}
	p, err := h.SetUp(ctx, " "+strings.ToLower(strings.ReplaceAll(code, "-", " ")), ada,
		"correct horse", account.Browser{})
	if err != nil || p.Role != account.RoleAdmin || p.Zone != "Asia/Shanghai" || p.Lang != "en" {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := h.SetUp(ctx, code, store.Person{Name: "eve"}, "correct horse", account.Browser{}); !errors.Is(err,
		account.ErrSetUp) {
		t.Errorf("a second one: %v", err)
	}
	if code, err := h.SetupCode(ctx); code != "" || err != nil {
		t.Errorf("still a code: %q, %v", code, err)
	}
}

func TestSignIn(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	ada, err := h.AddPerson(ctx, "ada", "", "en", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.AddPerson(ctx, "bob", account.RoleMember, "en", ""); err != nil {
		t.Fatal(err)
	}
	by := account.Browser{Agent: strings.Repeat("é", 200), Address: "192.0.2.1"}
	for _, wrong := range [][2]string{{"ada", "wrong horse"}, {"ada", ""}, {"bob", ""}, {"bob", "x"},
		{"eve", "correct horse"}, {"", ""}, {"ada", strings.Repeat("x", 2000)}} {
		if _, _, err := h.SignIn(ctx, wrong[0], wrong[1], by); !errors.Is(err, account.ErrPassword) {
			t.Errorf("%.20q: %v", wrong, err)
		}
	}
	phone, p, err := h.SignIn(ctx, " ada ", "correct horse", by)
	if err != nil || p.ID != ada.ID {
		t.Fatalf("%+v, %v", p, err)
	}
	laptop, _, err := h.SignIn(ctx, "ada", "correct horse", by)
	if err != nil || laptop == phone {
		t.Fatal(err)
	}
	in := func(token string) account.SignedIn {
		t.Helper()
		x, err := h.CheckSignIn(ctx, token, "192.0.2.2")
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	out := func(token string) {
		t.Helper()
		if _, err := h.CheckSignIn(ctx, token, ""); !errors.Is(err, account.ErrSignedOut) {
			t.Errorf("signed in: %v", err)
		}
	}
	x := in(phone)
	if x.Person.ID != ada.ID || !x.Fresh(h.now) || len(x.Agent) > 200 {
		t.Errorf("%+v", x)
	}
	out("")
	out(phone + "x")
	out(x.ID) // the hash is not a token

	// A password that was typed long ago does not reveal secrets.
	h.now = h.now.Add(11 * time.Minute)
	if x = in(phone); x.Fresh(h.now) {
		t.Error("fresh after 11 minutes")
	}
	if x = in(phone); x.Address != "192.0.2.2" || !x.Seen.Equal(h.now) {
		t.Errorf("the use was not noted: %+v", x.SignIn)
	}
	if _, err := h.Confirm(ctx, x, "wrong horse", ""); !errors.Is(err, account.ErrPassword) {
		t.Error(err)
	}
	fresh, err := h.Confirm(ctx, x, "correct horse", "")
	if err != nil {
		t.Fatal(err)
	}
	out(phone)
	if x = in(fresh); !x.Fresh(h.now) {
		t.Error("not fresh")
	}

	// Sign the phone out, as when it is sold.
	if list, err := h.db.SignIns.ByPerson(ctx, ada.ID); err != nil || len(list) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := h.SignOutOthers(ctx, ada.ID, in(laptop).ID); err != nil {
		t.Fatal(err)
	}
	out(fresh)
	in(laptop)
	if err := h.SignOut(ctx, "bob", in(laptop).ID); err != nil { // not his
		t.Fatal(err)
	}
	in(laptop)
	if err := errors.Join(h.SignOut(ctx, ada.ID, in(laptop).ID), h.SignOut(ctx, ada.ID, "gone")); err != nil {
		t.Fatal(err)
	}
	out(laptop)
}

// Sign-ins end after a while, and with a change of the password.
func TestSignInEnds(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	ada, err := h.AddPerson(ctx, "ada", "", "en", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	admit := func() string {
		token, err := h.Admit(ctx, ada, account.Browser{})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	idle := admit()
	h.now = h.now.Add(store.SignInIdle + time.Second)
	if _, err := h.CheckSignIn(ctx, idle, ""); !errors.Is(err, account.ErrSignedOut) {
		t.Errorf("after a month: %v", err)
	}
	if n, err := h.db.Purge(ctx, store.Limits{Now: h.now}); err != nil || n != 1 {
		t.Errorf("%d rows purged, %v", n, err)
	}
	used, began := admit(), h.now
	for h.now.Sub(began) < account.SignInLife {
		h.now = h.now.Add(20 * 24 * time.Hour)
		_, err = h.CheckSignIn(ctx, used, "")
	}
	if !errors.Is(err, account.ErrSignedOut) {
		t.Errorf("after half a year of use: %v", err)
	}
	last := admit()
	if err := h.SetPassword(ctx, ada.ID, "another horse"); err != nil {
		t.Fatal(err)
	}
	if _, err := h.CheckSignIn(ctx, last, ""); !errors.Is(err, account.ErrSignedOut) {
		t.Errorf("after another password: %v", err)
	}
	for range 60 {
		h.now = h.now.Add(time.Second)
		last = admit()
	}
	if list, err := h.db.SignIns.ByPerson(ctx, ada.ID); err != nil || len(list) != 50 {
		t.Errorf("%d browsers, %v", len(list), err)
	}
	if _, err := h.CheckSignIn(ctx, last, ""); err != nil {
		t.Errorf("the newest was forgotten: %v", err)
	}
}

// A form that waits for the password is submitted only for the person and the browser that sent it,
// once, and for a limited time.
func TestPending(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	signedIn := func(name string) account.SignedIn {
		t.Helper()
		token, _, err := h.SignIn(ctx, name, "correct horse", account.Browser{})
		if err != nil {
			t.Fatal(err)
		}
		x, err := h.CheckSignIn(ctx, token, "")
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for _, name := range []string{"ada", "bob"} {
		if _, err := h.AddPerson(ctx, name, account.RoleMember, "en", "correct horse"); err != nil {
			t.Fatal(err)
		}
	}
	phone, laptop, bob := signedIn("ada"), signedIn("ada"), signedIn("bob")
	want := account.Pending{Path: "/keys/new?x=1", Form: "name=n&secret=s3cr3t"}
	sealed, err := h.Hold(phone, want)
	if err != nil || strings.Contains(sealed, "s3cr3t") || strings.Contains(sealed, "keys") {
		t.Fatalf("%q, %v", sealed, err)
	}
	if got, err := h.Held(phone, sealed); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	plain := `{"path":"/keys/new","form":"","signin":"` + phone.ID + `","until":99999999999999}`
	middle := len(sealed) / 2
	other := byte('A')
	if sealed[middle] == other {
		other = 'B'
	}
	for what, c := range map[string]struct {
		x      account.SignedIn
		sealed string
	}{
		"another browser": {laptop, sealed}, "another person": {bob, sealed}, "nobody": {account.SignedIn{}, sealed},
		"nothing":    {phone, ""},
		"not sealed": {phone, plain}, "shortened": {phone, sealed[:len(sealed)-4]},
		"changed":                       {phone, sealed[:middle] + string(other) + sealed[middle+1:]},
		"something else that is sealed": {phone, h.box.Seal("sk-secret")},
	} {
		if got, err := h.Held(c.x, c.sealed); !errors.Is(err, account.ErrPending) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	h.now = h.now.Add(account.ConfirmLife)
	if _, err := h.Held(phone, sealed); !errors.Is(err, account.ErrPending) {
		t.Errorf("ten minutes later: %v", err)
	}
	if sealed, err = h.Hold(phone, want); err != nil {
		t.Fatal(err)
	}
	token, err := h.Confirm(ctx, phone, "correct horse", "")
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.CheckSignIn(ctx, token, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Held(again, sealed); !errors.Is(err, account.ErrPending) {
		t.Errorf("once more: %v", err)
	}
}
