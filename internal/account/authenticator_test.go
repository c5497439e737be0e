package account_test

import (
	"encoding/base32"
	"errors"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// The codes are those of RFC 6238 appendix B (SHA-1), of which the apps show the last six digits.
func TestShownCode(t *testing.T) {
	secret := base32.StdEncoding.EncodeToString([]byte("12345678901234567890"))
	for unix, want := range map[int64]string{59: "287082", 1111111109: "081804", 1111111111: "050471",
		1234567890: "005924", 2000000000: "279037", 20000000000: "353130"} {
		if got := account.ShownCode(secret, time.Unix(unix, 0)); got != want {
			t.Errorf("at %d: %s, want %s", unix, got, want)
		}
	}
}

// withApp is an installation whose administrator has an authenticator app.
func withApp(t *testing.T) (h *testInstallation, p store.Person, secret string, codes []string) {
	t.Helper()
	h = newTestInstallation(t)
	p, err := h.AddPerson(t.Context(), "ada", account.RoleAdmin, "en", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	e, err := h.Enrol(p)
	if err != nil {
		t.Fatal(err)
	}
	if codes, err = h.AddAuthenticator(t.Context(), p, "", e.Sealed, account.ShownCode(e.Secret, h.now)); err != nil ||
		len(codes) != 10 {
		t.Fatal(codes, err)
	}
	h.now = h.now.Add(time.Minute)
	return h, p, e.Secret, codes
}

// step types the password, and returns what it proves.
func (h *testInstallation) step(t *testing.T, password string) string {
	t.Helper()
	token, _, err := h.SignIn(t.Context(), "ada", password, account.Browser{})
	var needed account.CodeNeeded
	if token != "" || !errors.As(err, &needed) {
		t.Fatalf("the password alone gave %q, %v", token, err)
	}
	return needed.Step
}

// A code opens an account once, together with the password, and is refused when it is old.
func TestSignInByCode(t *testing.T) {
	h, p, secret, codes := withApp(t)
	ctx, step := t.Context(), h.step(t, "correct horse")
	try := func(step, code string) error {
		_, _, err := h.SignInByCode(ctx, step, code, account.Browser{})
		return err
	}
	now := account.ShownCode(secret, h.now)
	for _, c := range []struct {
		step, code string
		want       error
	}{
		{step, account.ShownCode(secret, h.now.Add(-time.Minute)), account.ErrCode},
		{step, "", account.ErrCode}, {step, strings.Repeat("9", 5000), account.ErrCode},
		{"", now, account.ErrStep}, {"sealed:1:AAAA", now, account.ErrStep},
		{step, wide(now[:3]) + "\u3000" + now[3:], nil},                                // of a Chinese keyboard
		{step, now, account.ErrCode},                                                   // used
		{step, account.ShownCode(secret, h.now.Add(-30*time.Second)), account.ErrCode}, // before a used one
		{step, account.ShownCode(secret, h.now.Add(30*time.Second)), nil},              // a clock that is fast
		{step, strings.ToLower(strings.ReplaceAll(codes[3], "-", " ")), nil},
		{step, codes[3], account.ErrCode}, // used
	} {
		if err := try(c.step, c.code); !errors.Is(err, c.want) {
			t.Errorf("%.20q: %v, want %v", c.code, err, c.want)
		}
	}
	token, q, err := h.SignInByCode(ctx, step, codes[4], account.Browser{})
	if err != nil || q.ID != p.ID {
		t.Fatal(q, err)
	}
	if x, err := h.CheckSignIn(ctx, token, ""); err != nil || x.Person.ID != p.ID {
		t.Error(x, err)
	}
	if x, err := h.SecondSteps(ctx, p.ID); err != nil || x != (store.SecondSteps{App: true, Recovery: 8}) {
		t.Errorf("%+v, %v", x, err)
	}

	// What was proved ends with time, and with the password that was proved.
	e, err := h.Enrol(p)
	if err != nil || !errors.Is(try(e.Sealed, codes[5]), account.ErrStep) {
		t.Error("what proves a new secret proves a password", err)
	}
	if err := h.SetPassword(ctx, p.ID, "another horse"); err != nil || !errors.Is(try(step, codes[5]),
		account.ErrStep) {
		t.Error("a password that was replaced is still good", err)
	}
	step = h.step(t, "another horse")
	h.now = h.now.Add(10 * time.Minute)
	if err := try(step, codes[5]); !errors.Is(err, account.ErrStep) {
		t.Error(err)
	}
}

// wide writes digits as wide as Chinese characters.
func wide(digits string) string {
	return strings.Map(func(r rune) rune { return r - '0' + '０' }, digits)
}

// Whoever was signed in before the app was added has to confirm by it, and a new password is not
// taken for a confirmation.
func TestOtherBrowsersConfirmAgain(t *testing.T) {
	h, p, _, _ := withApp(t)
	ctx := t.Context()
	var ids []string
	for range 2 {
		token, err := h.Admit(ctx, p, account.Browser{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, seal.Hash(token))
	}
	fresh := func(id string) bool {
		t.Helper()
		x, err := h.db.SignIns.ByID(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return (&account.SignedIn{SignIn: x}).Fresh(h.now)
	}
	e, err := h.Enrol(p)
	if err != nil {
		t.Fatal(err)
	}
	code := account.ShownCode(e.Secret, h.now)
	if _, err := h.AddAuthenticator(ctx, p, ids[0], e.Sealed, code); err != nil {
		t.Fatal(err)
	}
	if !fresh(ids[0]) || fresh(ids[1]) {
		t.Errorf("confirmed are %t and %t", fresh(ids[0]), fresh(ids[1]))
	}
	if codes, err := h.AddAuthenticator(ctx, p, ids[0], e.Sealed, code); !errors.Is(err, account.ErrStep) {
		t.Errorf("a reload made the codes %q, %v", codes, err)
	}
	token, err := h.ChangePassword(ctx, p.ID, "correct horse", "another horse", ids[1])
	if err != nil {
		t.Fatal(err)
	}
	if fresh(seal.Hash(token)) {
		t.Error("the old password confirmed a browser")
	}
}

// Codes cannot be guessed, and whoever guesses does not lock out a known browser.
func TestGuessedCodes(t *testing.T) {
	h, p, secret, _ := withApp(t)
	ctx, step := t.Context(), h.step(t, "correct horse")
	var err error
	for n := 0; n < 12; n++ {
		_, _, err = h.SignInByCode(ctx, step, "abc", account.Browser{})
		if want := account.ErrCode; n < 10 && !errors.Is(err, want) {
			t.Fatal(n, err)
		}
	}
	if !errors.Is(err, account.ErrTries) {
		t.Error(err)
	}
	if _, _, err = h.SignInByCode(ctx, step, account.ShownCode(secret, h.now), account.Browser{}); !errors.Is(err,
		account.ErrTries) {
		t.Error("checked in spite of too many tries:", err)
	}
	known := account.Browser{Known: []string{h.RememberBrowser(p)}}
	if _, _, err = h.SignInByCode(ctx, step, account.ShownCode(secret, h.now), known); err != nil {
		t.Error(err)
	}
}

// A person with an app confirms by password and code.
func TestConfirmByCode(t *testing.T) {
	h, p, secret, codes := withApp(t)
	ctx := t.Context()
	token, err := h.Admit(ctx, p, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := h.CheckSignIn(ctx, token, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		password, code string
		want           error
	}{{"correct horse", "", account.ErrCode}, {"correct horse", "000000x", account.ErrCode},
		{"wrong horse", account.ShownCode(secret, h.now), account.ErrPassword}} {
		if _, err := h.Confirm(ctx, x, c.password, c.code); !errors.Is(err, c.want) {
			t.Errorf("%q: %v, want %v", c.code, err, c.want)
		}
	}
	if _, err = h.Confirm(ctx, x, "correct horse", account.ShownCode(secret, h.now)); err != nil {
		t.Error("a code that came with a wrong password was used up:", err)
	}

	// New codes replace the old ones, and a new app the old one.
	fresh, err := h.NewRecoveryCodes(ctx, p.ID)
	if err != nil || len(fresh) != 10 {
		t.Fatal(fresh, err)
	}
	step := h.step(t, "correct horse")
	if _, _, err := h.SignInByCode(ctx, step, codes[0], account.Browser{}); !errors.Is(err, account.ErrCode) {
		t.Error("an old recovery code is still good:", err)
	}
	e, err := h.Enrol(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.AddAuthenticator(ctx, p, "", e.Sealed, account.ShownCode(secret, h.now)); !errors.Is(err,
		account.ErrCode) {
		t.Error(err)
	}
	if _, err := h.AddAuthenticator(ctx, store.Person{ID: "other"}, "", e.Sealed,
		account.ShownCode(e.Secret, h.now)); !errors.Is(err, account.ErrStep) {
		t.Error("a secret was added to somebody else:", err)
	}
	if _, err := h.AddAuthenticator(ctx, p, "", e.Sealed, account.ShownCode(e.Secret, h.now)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.SignInByCode(ctx, step, fresh[0], account.Browser{}); !errors.Is(err, account.ErrCode) {
		t.Error("a recovery code of the app before is still good:", err)
	}

	if err := h.RemoveAuthenticator(ctx, p.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.SignIn(ctx, "ada", "correct horse", account.Browser{}); err != nil {
		t.Error(err)
	}
	if err := h.RemoveAuthenticator(ctx, p.ID); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	if _, err := h.NewRecoveryCodes(ctx, p.ID); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
}
