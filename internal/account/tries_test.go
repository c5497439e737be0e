package account_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/store"
)

// Ten thousand concurrent guesses from five thousand addresses at two instances cause at most a
// hundred checks.
func TestGuessesOfOneAccount(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	if _, err := h.AddPerson(ctx, "ada", "", "en", "correct horse"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ada", "nobody"} {
		var checks atomic.Int64
		var instances [2]*account.Service
		for i := range instances {
			instances[i] = account.New(h.db, h.box, func() time.Time { return h.now })
			instances[i].Addresses = account.NewGuard(10, func() time.Time { return h.now })
			instances[i].CompareWith(func(string, string) (bool, error) { checks.Add(1); return false, nil })
		}
		var next, refused atomic.Int64
		var wg sync.WaitGroup
		for range 32 { // as many as may wait, so that none is refused unchecked
			wg.Go(func() {
				for i := next.Add(1); i <= 10_000; i = next.Add(1) {
					by := account.Browser{Address: netip.AddrFrom4([4]byte{10, 0, byte(i % 5000 >> 8),
						byte(i % 5000)}).String()}
					_, _, err := instances[i%2].SignIn(ctx, name, fmt.Sprint("guess ", i), by)
					switch {
					case errors.Is(err, account.ErrTries):
						refused.Add(1)
					case !errors.Is(err, account.ErrPassword):
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if n := checks.Load(); n < 10 || n > 50 || refused.Load() != 10_000-n {
			t.Errorf("%s: %d passwords were checked, %d refused", name, n, refused.Load())
		}
	}
	// The owner's new browser is refused too, but not an hour later.
	if _, _, err := h.SignIn(ctx, "ada", "correct horse", account.Browser{}); !errors.Is(err, account.ErrTries) {
		t.Errorf("the right password: %v", err)
	}
	h.now = h.now.Add(time.Hour)
	if _, _, err := h.SignIn(ctx, "ada", "correct horse", account.Browser{}); err != nil {
		t.Errorf("an hour later: %v", err)
	}
}

// Concurrent guesses from one address count before they are checked.
func TestGuessesOfOneAddress(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	var checks atomic.Int64
	h.Addresses = account.NewGuard(5, func() time.Time { return h.now })
	h.CompareWith(func(string, string) (bool, error) { checks.Add(1); return false, nil })
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			h.SignIn(ctx, fmt.Sprint("name ", i), "guess", account.Browser{Address: "192.0.2.1"}) //nolint:errcheck // counted
		})
	}
	wg.Wait()
	if n := checks.Load(); n != 5 {
		t.Errorf("%d passwords were checked", n)
	}
}

// A known browser can sign in while strangers guess without limit, with the same name and from the
// same address. For other people it is unknown, and its own tries are limited too.
func TestKnownBrowser(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	ada, err := h.AddPerson(ctx, "ada", "", "en", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	bob, err := h.AddPerson(ctx, "bob", account.RoleMember, "en", "battery staple")
	if err != nil {
		t.Fatal(err)
	}
	h.Addresses = account.NewGuard(5, func() time.Time { return h.now })
	known := account.Browser{Address: "192.0.2.1", Known: []string{"rubbish", h.RememberBrowser(bob),
		h.RememberBrowser(ada)}}

	// All slots for unknown browsers are taken during this test.
	guessing, release := make(chan struct{}), make(chan struct{})
	h.CompareWith(func(password, _ string) (bool, error) {
		if password == "guess" {
			guessing <- struct{}{}
			<-release
		}
		return password == "correct horse", nil
	})
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			by := account.Browser{Address: fmt.Sprintf("198.51.100.%d", i)}
			h.SignIn(ctx, "ada", "guess", by) //nolint:errcheck // refused or not
		})
	}
	<-guessing
	if _, _, err := h.SignIn(ctx, "ada", "correct horse", known); err != nil {
		t.Errorf("while others guess: %v", err)
	}
	for range 2 {
		go func() {
			for range guessing {
			}
		}()
	}
	close(release)
	wg.Wait()
	close(guessing)

	h.CompareWith(func(password, _ string) (bool, error) { return password == "correct horse", nil })
	for range 20 {
		if _, _, err := h.SignIn(ctx, "ada", "wrong", known); !errors.Is(err, account.ErrPassword) {
			t.Fatal(err)
		}
	}
	if _, _, err := h.SignIn(ctx, "ada", "correct horse", known); !errors.Is(err, account.ErrTries) {
		t.Errorf("after 20 wrong ones: %v", err)
	}
	// Bob's mark does not make the browser known for ada.
	only := account.Browser{Address: "192.0.2.1", Known: []string{h.RememberBrowser(bob)}}
	for range 5 {
		h.SignIn(ctx, "ada", "wrong", only) //nolint:errcheck // counted
	}
	if _, _, err := h.SignIn(ctx, "ada", "correct horse", only); !errors.Is(err, account.ErrTries) {
		t.Errorf("with the mark of somebody else: %v", err)
	}
	h.now = h.now.Add(account.KnownBrowserTTL + time.Hour)
	for range 5 {
		h.SignIn(ctx, "ada", "wrong", known) //nolint:errcheck // counted
	}
	if _, _, err := h.SignIn(ctx, "ada", "correct horse", known); !errors.Is(err, account.ErrTries) {
		t.Errorf("with a mark of last year: %v", err)
	}
}

// A signed-in browser may try a password ten times in ten minutes.
func TestGuessesOfSignedIn(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	ada, err := h.AddPerson(ctx, "ada", "", "en", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	h.CompareWith(func(password, _ string) (bool, error) { return password == "correct horse", nil })
	token, err := h.Admit(ctx, ada, account.Browser{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := h.CheckSignIn(ctx, token, "")
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := h.Confirm(ctx, x, "wrong", ""); !errors.Is(err, account.ErrPassword) {
			t.Fatal(err)
		}
		if _, err := h.ChangePassword(ctx, ada.ID, "wrong", "another horse", ""); !errors.Is(err, account.ErrPassword) {
			t.Fatal(err)
		}
	}
	if _, err := h.Confirm(ctx, x, "correct horse", ""); !errors.Is(err, account.ErrTries) {
		t.Error(err)
	}
	h.now = h.now.Add(10 * time.Minute)
	if _, err := h.Confirm(ctx, x, "correct horse", ""); err != nil {
		t.Error(err)
	}
}

// Of six concurrent setups with the same code, one succeeds.
func TestSetUpAtOnce(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	code, err := h.SetupCode(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var made atomic.Int64
	for i := range 6 {
		wg.Go(func() {
			_, err := h.SetUp(context.WithoutCancel(ctx), code, store.Person{Name: fmt.Sprint("person ", i)},
				"correct horse", account.Browser{})
			if err == nil {
				made.Add(1)
			} else if !errors.Is(err, account.ErrSetUp) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	people, err := h.db.People.All(ctx)
	if err != nil || made.Load() != 1 || len(people) != 1 || people[0].Role != account.RoleAdmin {
		t.Errorf("%d were made, there are %+v, %v", made.Load(), people, err)
	}
}

// Names that look alike are refused, also for a person who already has one of them and asks for
// another.
func TestNamesAlike(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	for _, name := range []string{"ada", "Ivan 1", "小明", "Alia"} {
		if _, err := h.AddPerson(ctx, name, account.RoleMember, "en", ""); err != nil {
			t.Fatal(err)
		}
	}
	bob, err := h.AddPerson(ctx, "bob", account.RoleMember, "en", "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Ada", "аda", "аdа", "ada\u200b", "ａｄａ", "lvan I", "Ivan1", "小 明", "ΑLIA"} {
		if _, err := h.AddPerson(ctx, name, account.RoleMember, "en", ""); !errors.Is(err, account.ErrNameAlike) {
			t.Errorf("%q: %v", name, err)
		}
		p := bob
		p.Name = name
		if err := h.SetProfile(ctx, p); !errors.Is(err, account.ErrNameAlike) {
			t.Errorf("bob becomes %q: %v", name, err)
		}
	}
	for _, name := range []string{"adá", "Ivan 2", "小朋", "Alla", "Аня"} {
		if _, err := h.AddPerson(ctx, name, account.RoleMember, "en", ""); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	// A person who already had such a name may keep it.
	old := bob
	old.ID, old.Name = "old", "Bob"
	if err := h.db.People.Add(ctx, old); err != nil {
		t.Fatal(err)
	}
	old.Lang = "zh"
	if err := h.SetProfile(ctx, old); err != nil {
		t.Error(err)
	}
}

// Commonly guessed passwords are refused; uncommon combinations of words are not.
func TestCommonPasswords(t *testing.T) {
	for _, password := range []string{
		"password", "Password1", "P@ssw0rd", "p4ssw0rd!", "12345678", "87654321", "qwertyui", "1q2w3e4r", "aaaaaaaa",
		"abcabcabc", "12121212",
		"letmein123", "iloveyou", "admin123", "Welcome1!", "woaini1314", "sunshine99", "zaq12wsx", "trustno1",
	} {
		if err := account.CheckPassword(password); !errors.Is(err, account.ErrPasswordCommon) {
			t.Errorf("%q: %v", password, err)
		}
	}
	for _, password := range []string{"correct horse", "battery staple", "another horse", "k7-Qx!m2Zp", "我的密码是很长的一句话",
		"sunshine on the hill", "patchbay"} {
		if err := account.CheckPassword(password); err != nil {
			t.Errorf("%q: %v", password, err)
		}
	}
}
