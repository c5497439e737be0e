package account_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var ctx = context.Background()

// clock is a time that the test sets.
type clock struct{ t time.Time }

func (c *clock) now() time.Time { return c.t }

func service(t *testing.T, o store.Options) (*account.Service, *store.DB, *clock) {
	t.Helper()
	box, err := seal.New(strings.Repeat("5e", 32))
	must(t, err)
	c := &clock{time.Date(2026, 3, 23, 14, 5, 9, 0, time.UTC)}
	db := storetest.Open(t, o)
	return account.New(db, box, c.now), db, c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func TestPeople(t *testing.T) {
	s, db, _ := service(t, store.Options{Folder: t.TempDir()})
	first, err := s.AddPerson(ctx, " ada ", account.RoleMember, "en", "")
	must(t, err)
	if first.Role != account.RoleAdmin || first.Name != "ada" {
		t.Errorf("the first person: %+v", first)
	}
	second, err := s.AddPerson(ctx, "bob", account.RoleMember, "zh", "correct horse")
	must(t, err)
	kept, err := db.People.ByID(ctx, second.ID)
	must(t, err)
	if kept.Role != account.RoleMember || !strings.HasPrefix(kept.Password, "$argon2id$") ||
		strings.Contains(kept.Password, "horse") {
		t.Errorf("kept %+v", kept)
	}
	for name, want := range map[string]string{
		"ada": "already", "": "empty", "x\ny": "control", strings.Repeat("x", 61): "60",
	} {
		if _, err := s.AddPerson(ctx, name, account.RoleMember, "en", ""); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := s.AddPerson(ctx, "eve", "queen", "en", ""); err == nil {
		t.Error("a role of her own")
	}
	if err := s.SetPassword(ctx, second.ID, "short"); err == nil {
		t.Error("a short password was taken")
	}
}

func TestKeys(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		s, db, c := service(t, o)
		p, err := s.AddPerson(ctx, "ada", "", "en", "")
		must(t, err)
		k, secret, err := s.AddKey(ctx, account.NewKey{Person: p.ID,
			Name: "glasses", Scopes: []string{account.ScopeLingzhu}, Expires: time.Hour})
		must(t, err)
		if kept, _ := db.Keys.ByHash(ctx, k.Hash); kept.Hash == secret || strings.Contains(kept.Hash, secret) ||
			!strings.HasPrefix(secret, "pb_") || len(secret) != 46 {
			t.Fatalf("kept %+v of %q", kept, secret)
		}
		got, err := s.Authenticate(ctx, secret, account.ScopeMCP, account.ScopeLingzhu)
		must(t, err)
		if got.Person.ID != p.ID || got.Key.ID != k.ID {
			t.Fatalf("speaks for %+v", got)
		}
		if kept, _ := db.Keys.ByHash(ctx, k.Hash); !kept.Used.Equal(c.t) {
			t.Errorf("last used %v", kept.Used)
		}
		_, err = s.Authenticate(ctx, "", account.ScopeLingzhu)
		wantErr(t, err, account.ErrNoKey)
		_, err = s.Authenticate(ctx, secret+"x", account.ScopeLingzhu)
		wantErr(t, err, account.ErrUnknown)
		_, err = s.Authenticate(ctx, k.Hash, account.ScopeLingzhu)
		wantErr(t, err, account.ErrUnknown) // a hash read from the database is no key
		_, err = s.Authenticate(ctx, secret, account.ScopeAdmin)
		wantErr(t, err, account.ErrScope)
		c.t = c.t.Add(time.Hour)
		_, err = s.Authenticate(ctx, secret, account.ScopeLingzhu)
		wantErr(t, err, account.ErrExpired)
		must(t, db.Keys.Revoke(ctx, k.ID, c.t))
		_, err = s.Authenticate(ctx, secret, account.ScopeLingzhu)
		wantErr(t, err, account.ErrRevoked)

		for _, n := range []account.NewKey{
			{Person: p.ID, Name: "x"},
			{Person: p.ID, Name: "x", Scopes: []string{"everything"}},
			{Person: p.ID, Scopes: []string{account.ScopeMCP}},
			{Person: "nobody", Name: "x", Scopes: []string{account.ScopeMCP}},
			{Person: p.ID, Name: "x", Scopes: []string{account.ScopeMCP}, Bot: 99},
			{Person: p.ID, Name: "x", Scopes: []string{account.ScopeMCP}, Expires: -1},
		} {
			if _, _, err := s.AddKey(ctx, n); err == nil {
				t.Errorf("a key was made of %+v", n)
			}
		}
	})
}

func TestGuard(t *testing.T) {
	c := &clock{time.Now()}
	g := account.NewGuard(2, c.now)
	one, sameNet := netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	other := netip.MustParseAddr("192.0.2.1")
	for i, want := range []bool{false, false, true} {
		if got := g.Refuse([]netip.Addr{one, sameNet, one}[i]); got != want {
			t.Errorf("refusal %d: too many %t", i+1, got)
		}
	}
	if g.Refuse(other) {
		t.Error("another address pays for the first")
	}
	c.t = c.t.Add(time.Minute)
	if g.Refuse(one) {
		t.Error("a minute later it is still too many")
	}
	// The table is bounded, however many addresses there are.
	for i := range 30_000 {
		g.Refuse(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}))
	}
	if !g.Refuse(netip.MustParseAddr("11.0.0.1")) {
		t.Error("addresses past the bound are not counted together")
	}
}

func TestParseToken(t *testing.T) {
	const token = "AbCdEfGhIjKlMnOpQrSt-_"
	for text, want := range map[string]bool{
		token: true, " " + token + "\n": true, "https://board.example.org/b/" + token: true,
		"http://10.0.0.1:3000/b/" + token: true,
		"":                                false, token + "x": false, token[1:]: false, "/b/" + token: false,
		"https://example.org/menu":          false,
		"绑定" + token:                        false,
		strings.Replace(token, "-", "+", 1): false,
	} {
		if got, ok := account.ParseToken(text); ok != want || ok && got != token {
			t.Errorf("%q: %q %t", text, got, ok)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add("https://board.example.org/b/AbCdEfGhIjKlMnOpQrSt-_")
	f.Fuzz(func(t *testing.T, text string) {
		if token, ok := account.ParseToken(text); ok && (len(token) != 22 || !strings.Contains(text, token)) {
			t.Fatalf("%q became %q", text, token)
		}
	})
}
