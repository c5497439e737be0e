package account_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

var home = account.Site{Host: "home.example", Origin: "https://home.example:8443"}

// Flags of authenticator data (WebAuthn section 6.1).
const (
	flagPresent  = 1
	flagVerified = 4
	flagKey      = 64
)

// authenticator creates and uses a passkey as WebAuthn section 6 says, or as a test wants it.
type authenticator struct {
	t       *testing.T
	key     *ecdsa.PrivateKey
	id      []byte
	person  string
	origin  string
	host    string
	flags   byte
	counter uint32
}

func newAuthenticator(t *testing.T, person string) *authenticator {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &authenticator{t: t, key: key, id: []byte(rand.Text()), person: person, origin: home.Origin, host: home.Host,
		flags: flagPresent | flagVerified}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// client returns the client data of a ceremony, and the authenticator data without a key.
func (a *authenticator) client(kind string, c account.Ceremony) (client, data []byte) {
	a.t.Helper()
	var options struct{ Challenge string }
	if err := json.Unmarshal([]byte(c.Options), &options); err != nil || options.Challenge == "" {
		a.t.Fatal(c.Options, err)
	}
	client, err := json.Marshal(map[string]any{"type": kind, "challenge": options.Challenge, "origin": a.origin,
		"crossOrigin": false})
	if err != nil {
		a.t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(a.host))
	return client, binary.BigEndian.AppendUint32(append(hash[:], a.flags), a.counter)
}

func (a *authenticator) reply(response map[string]any) string {
	text, err := json.Marshal(map[string]any{"id": b64(a.id), "rawId": b64(a.id), "type": "public-key",
		"response": response, "clientExtensionResults": map[string]any{}})
	if err != nil {
		a.t.Fatal(err)
	}
	return string(text)
}

// create returns the browser's reply to a ceremony that creates the passkey. The CBOR is written by
// hand: the key is a map of kty EC2, alg ES256, crv P-256, x and y (RFC 9053 section 7.1).
func (a *authenticator) create(c account.Ceremony) string {
	a.t.Helper()
	a.flags |= flagKey
	client, data := a.client("webauthn.create", c)
	a.flags &^= flagKey
	data = append(data, make([]byte, 16)...)
	data = binary.BigEndian.AppendUint16(data, uint16(len(a.id)))
	point, err := a.key.PublicKey.Bytes()
	if err != nil {
		a.t.Fatal(err)
	}
	data = append(append(data, a.id...), 0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32)
	data = append(append(data, point[1:33]...), 0x22, 0x58, 32)
	data = append(data, point[33:]...)
	object := append([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59"), byte(len(data)>>8), byte(len(data)))
	return a.reply(map[string]any{"clientDataJSON": b64(client), "attestationObject": b64(append(object, data...)),
		"transports": []string{"internal"}})
}

// use returns the browser's reply to a ceremony that uses the passkey.
func (a *authenticator) use(c account.Ceremony) string {
	a.t.Helper()
	client, data := a.client("webauthn.get", c)
	hash := sha256.Sum256(client)
	sum := sha256.Sum256(append(append([]byte{}, data...), hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, sum[:])
	if err != nil {
		a.t.Fatal(err)
	}
	return a.reply(map[string]any{"clientDataJSON": b64(client), "authenticatorData": b64(data),
		"signature": b64(signature), "userHandle": b64([]byte(a.person))})
}

// add adds a passkey of a person.
func (h *testInstallation) add(t *testing.T, p store.Person) (a *authenticator, codes []string) {
	t.Helper()
	c, err := h.BeginPasskey(t.Context(), home, p)
	if err != nil {
		t.Fatal(err)
	}
	a = newAuthenticator(t, p.ID)
	if codes, err = h.AddPasskey(t.Context(), home, p, "", c.Sealed, a.create(c), "phone"); err != nil {
		t.Fatal(err)
	}
	return a, codes
}

func (h *testInstallation) person(t *testing.T, name string) store.Person {
	t.Helper()
	p, err := h.AddPerson(t.Context(), name, account.RoleMember, "en", "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (h *testInstallation) ask(t *testing.T, p store.Person) account.Ceremony {
	t.Helper()
	c, err := h.AskPasskey(home, p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A passkey signs its person in and confirms, and makes the password alone useless.
func TestPasskeys(t *testing.T) {
	h, ctx := newTestInstallation(t), t.Context()
	ada, bob := h.person(t, "ada"), h.person(t, "bob")
	a, codes := h.add(t, ada)
	if len(codes) != 10 {
		t.Fatal("the first passkey came with", codes)
	}
	if _, again := h.add(t, ada); again != nil {
		t.Error("a second passkey replaced the recovery codes")
	}
	token, p, err := signInBy(h, h.ask(t, store.Person{}), a)
	if err != nil || p.ID != ada.ID {
		t.Fatal(p, err)
	}
	x, err := h.CheckSignIn(ctx, token, "")
	if err != nil {
		t.Fatal(err)
	}
	c := h.ask(t, ada)
	if _, err := h.ConfirmPasskey(ctx, x, home, c.Sealed, a.use(c)); err != nil {
		t.Error(err)
	}
	step := h.step(t, "correct horse")
	if _, _, err := h.SignInByCode(ctx, step, codes[0], account.Browser{}); err != nil {
		t.Error(err)
	}
	if _, _, err := h.SignInByCode(ctx, step, "123456", account.Browser{}); !errors.Is(err, account.ErrCode) {
		t.Error(err)
	}

	// A confirmation is for one person and one purpose.
	other, _ := h.add(t, bob)
	for name, try := range map[string]func() (string, error){
		"bob's passkey": func() (string, error) {
			c := h.ask(t, ada)
			return h.ConfirmPasskey(ctx, x, home, c.Sealed, other.use(c))
		},
		"bob's ceremony": func() (string, error) {
			c := h.ask(t, bob)
			return h.ConfirmPasskey(ctx, x, home, c.Sealed, a.use(c))
		},
		"that of a sign-in": func() (string, error) {
			c := h.ask(t, store.Person{})
			return h.ConfirmPasskey(ctx, x, home, c.Sealed, a.use(c))
		},
	} {
		if token, err := try(); token != "" || !errors.Is(err, account.ErrPasskey) && !errors.Is(err, account.ErrStep) {
			t.Errorf("%s: %q, %v", name, token, err)
		}
	}

	list, err := h.Passkeys(ctx, ada.ID)
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	if err := h.RemovePasskey(ctx, bob.ID, list[0].ID); !errors.Is(err, store.ErrNotFound) {
		t.Error("bob removed ada's passkey:", err)
	}
	for _, k := range list {
		if err := h.RemovePasskey(ctx, ada.ID, k.ID); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := signInBy(h, h.ask(t, store.Person{}), a); !errors.Is(err, account.ErrPasskey) {
		t.Error("a passkey that was removed:", err)
	}
	if _, _, err := h.SignIn(ctx, "ada", "correct horse", account.Browser{}); err != nil {
		t.Error(err)
	}
	if _, err := h.NewRecoveryCodes(ctx, ada.ID); !errors.Is(err, store.ErrNotFound) {
		t.Error("recovery codes without anything that they replace:", err)
	}
	if err := h.RemoveSecondSteps(ctx, bob.ID); err != nil {
		t.Error(err)
	}
	if x, err := h.SecondSteps(ctx, bob.ID); err != nil || x != (store.SecondSteps{}) {
		t.Error(x, err)
	}
}

func signInBy(h *testInstallation, c account.Ceremony, a *authenticator) (string, store.Person, error) {
	return h.SignInByPasskey(a.t.Context(), home, c.Sealed, a.use(c), account.Browser{})
}

// What a thief, another site or a careless browser sends is refused.
func TestForgedPasskeys(t *testing.T) {
	h := newTestInstallation(t)
	ada := h.person(t, "ada")
	a, _ := h.add(t, ada)
	a.counter = 7
	if _, _, err := signInBy(h, h.ask(t, store.Person{}), a); err != nil {
		t.Fatal(err)
	}
	a.counter++
	used := h.ask(t, store.Person{})
	reply := a.use(used)
	for i, want := range []error{nil, account.ErrStep} {
		if _, _, err := h.SignInByPasskey(t.Context(), home, used.Sealed, reply, account.Browser{}); !errors.Is(err,
			want) {
			t.Errorf("the same reply, use %d: %v", i+1, err)
		}
	}
	for name, forge := range map[string]func(a *authenticator, c *account.Ceremony){
		"another site":             func(a *authenticator, _ *account.Ceremony) { a.origin = "https://evil.example" },
		"a subdomain":              func(a *authenticator, _ *account.Ceremony) { a.origin = "https://x.home.example:8443" },
		"another port":             func(a *authenticator, _ *account.Ceremony) { a.origin = "https://home.example" },
		"http":                     func(a *authenticator, _ *account.Ceremony) { a.origin = "http://home.example:8443" },
		"a passkey of others":      func(a *authenticator, _ *account.Ceremony) { a.host = "evil.example" },
		"no PIN":                   func(a *authenticator, _ *account.Ceremony) { a.flags = flagPresent },
		"nobody there":             func(a *authenticator, _ *account.Ceremony) { a.flags = flagVerified },
		"another key":              func(a *authenticator, _ *account.Ceremony) { a.key = newAuthenticator(a.t, "").key },
		"an unknown id":            func(a *authenticator, _ *account.Ceremony) { a.id = []byte("another id of one") },
		"an unknown person":        func(a *authenticator, _ *account.Ceremony) { a.person = "nobody" },
		"no person":                func(a *authenticator, _ *account.Ceremony) { a.person = "" },
		"a counter that went back": func(a *authenticator, _ *account.Ceremony) { a.counter = 3 },
		"another challenge": func(a *authenticator, c *account.Ceremony) {
			c.Options = h.ask(a.t, store.Person{}).Options
		},
		"a ceremony that creates": func(a *authenticator, c *account.Ceremony) {
			other, err := h.BeginPasskey(a.t.Context(), home, ada)
			if err != nil {
				a.t.Fatal(err)
			}
			*c = other
		},
		"an old ceremony": func(*authenticator, *account.Ceremony) { h.now = h.now.Add(61 * time.Minute) },
	} {
		forged, c := *a, h.ask(t, store.Person{})
		forged.counter = 100
		forge(&forged, &c)
		if token, _, err := signInBy(h, c, &forged); token != "" ||
			!errors.Is(err, account.ErrPasskey) && !errors.Is(err, account.ErrStep) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, reply := range []string{"", "{}", "null", `{"id":"AA","rawId":"AA","type":"public-key","response":{}}`} {
		c := h.ask(t, store.Person{})
		if _, _, err := h.SignInByPasskey(t.Context(), home, c.Sealed, reply, account.Browser{}); !errors.Is(err,
			account.ErrPasskey) {
			t.Errorf("%s: %v", reply, err)
		}
	}

	// Nor can one be created without PIN, for another site, twice, or for somebody else.
	bob := h.person(t, "bob")
	for name, forge := range map[string]func(b *authenticator, p *store.Person){
		"no PIN":       func(b *authenticator, _ *store.Person) { b.flags = flagPresent },
		"another site": func(b *authenticator, _ *store.Person) { b.origin = "https://evil.example" },
		"ada's again":  func(b *authenticator, _ *store.Person) { b.id = a.id },
		"for bob":      func(_ *authenticator, p *store.Person) { *p = bob },
	} {
		c, err := h.BeginPasskey(t.Context(), home, ada)
		if err != nil {
			t.Fatal(err)
		}
		b, p := newAuthenticator(t, ada.ID), ada
		forge(b, &p)
		_, err = h.AddPasskey(t.Context(), home, p, "", c.Sealed, b.create(c), "")
		if !errors.Is(err, account.ErrPasskey) && !errors.Is(err, account.ErrStep) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 19 {
		h.add(t, ada)
	}
	c, err := h.BeginPasskey(t.Context(), home, ada)
	if err != nil {
		t.Fatal(err)
	}
	last := newAuthenticator(t, ada.ID).create(c)
	if _, err := h.AddPasskey(t.Context(), home, ada, "", c.Sealed, last, ""); !errors.Is(err, account.ErrPasskeyMany) {
		t.Error(err)
	}
}

// The doctor names the administrators whose password is enough.
func TestCheckSecondSteps(t *testing.T) {
	h := newTestInstallation(t)
	ada := h.person(t, "ada") // the first one is an administrator
	h.person(t, "bob")
	for _, want := range []check.State{check.Warn, check.OK} {
		r := &check.Report{Lang: i18n.English}
		h.CheckSecondSteps(t.Context(), r)
		if len(r.Findings) != 1 || r.Findings[0].State != want ||
			want == check.Warn && !strings.HasSuffix(r.Findings[0].Found, "can: ada") {
			t.Errorf("%+v", r.Findings)
		}
		h.add(t, ada)
	}
}
