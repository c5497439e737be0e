package account

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

const (
	// maxPasskeys bounds the passkeys of one person.
	maxPasskeys = 20
	// passkeyTTL is for how long a page can stay open before a passkey is used on it. Each
	// challenge is accepted once.
	passkeyTTL = time.Hour
	// maxPasskeyName limits the name of a passkey, in bytes.
	maxPasskeyName = 60
	// maxPasskeyReply limits what a browser sends about a passkey, in bytes.
	maxPasskeyReply = 64 << 10
)

// Reasons why a passkey is refused.
var (
	ErrPasskey = i18n.Message("this passkey is not known here, or could not be checked").Errorf()
	// ErrPasskeyMany means that a person has the most passkeys that are allowed.
	ErrPasskeyMany = i18n.Message("you have %d passkeys; remove one first").Errorf(maxPasskeys)
)

// Site is where passkeys are good (WebAuthn section 5.1.2): the host name, which a browser offers
// them to, and the only origin that they are accepted from.
type Site struct{ Host, Origin string }

// Ceremony is what a page needs to use or to create a passkey.
type Ceremony struct {
	Options string // JSON, as PublicKeyCredential.parse…OptionsFromJSON takes it
	Sealed  string // comes back with the result
}

// Purposes of ceremonies.
const (
	passkeyAdd     = "add a passkey"
	passkeySignIn  = "sign in by passkey"
	passkeyConfirm = "confirm by passkey"
)

// holder is a person with passkeys, for the library.
type holder struct {
	store.Person
	keys []webauthn.Credential
}

func (h holder) WebAuthnID() []byte                         { return []byte(h.ID) }
func (h holder) WebAuthnName() string                       { return h.Name }
func (h holder) WebAuthnDisplayName() string                { return h.Name }
func (h holder) WebAuthnCredentials() []webauthn.Credential { return h.keys }

// relyingParty accepts only passkeys that were unlocked by PIN or biometrics, as they replace
// password and code.
func relyingParty(site Site) (*webauthn.WebAuthn, error) {
	return webauthn.New(&webauthn.Config{RPID: site.Host, RPDisplayName: "Patchbay",
		RPOrigins: []string{site.Origin}, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{ResidentKey: protocol.ResidentKeyRequirementRequired,
			UserVerification: protocol.VerificationRequired}})
}

// holderOf returns a person with passkeys.
func (s *Service) holderOf(ctx context.Context, p store.Person) (h holder, err error) {
	list, err := s.Passkeys(ctx, p.ID)
	h.Person = p
	for _, x := range list {
		var c webauthn.Credential
		if err := json.Unmarshal(x.Credential, &c); err != nil {
			return h, fmt.Errorf("read a passkey: %w", err)
		}
		h.keys = append(h.keys, c)
	}
	return h, err
}

// Passkeys lists the passkeys of a person.
func (s *Service) Passkeys(ctx context.Context, person string) ([]store.Passkey, error) {
	return s.db.Passkeys.ByPerson(ctx, person)
}

// HasPasskeys reports whether a person has a passkey, or with an empty person anybody.
func (s *Service) HasPasskeys(ctx context.Context, person string) (bool, error) {
	return s.db.Passkeys.Has(ctx, person)
}

// BeginPasskey begins to create a passkey for a person.
func (s *Service) BeginPasskey(ctx context.Context, site Site, p store.Person) (Ceremony, error) {
	rp, err := relyingParty(site)
	if err != nil {
		return Ceremony{}, err
	}
	h, err := s.holderOf(ctx, p)
	if err != nil {
		return Ceremony{}, err
	}
	var known []protocol.CredentialDescriptor
	for _, k := range h.keys {
		known = append(known, k.Descriptor())
	}
	options, session, err := rp.BeginRegistration(h, webauthn.WithExclusions(known))
	if err != nil {
		return Ceremony{}, err
	}
	return s.ceremony(passkeyAdd, p, options.Response, session)
}

// ceremony seals what the browser has to bring back.
func (s *Service) ceremony(purpose string, p store.Person, options any, session *webauthn.SessionData) (c Ceremony,
	err error) {
	text, err := json.Marshal(options)
	if err != nil {
		return c, err
	}
	kept, err := json.Marshal(session)
	if err != nil {
		return c, err
	}
	c.Options = string(text)
	c.Sealed, err = s.sealStep(purpose, p, string(kept), passkeyTTL)
	return c, err
}

// finish opens what ceremony sealed, once. The error is [ErrStep].
func (s *Service) finish(ctx context.Context, purpose string, p store.Person, sealed string) (
	session webauthn.SessionData, err error) {
	x, err := s.openStep(purpose, sealed)
	if err != nil || x.Person != p.ID {
		return session, ErrStep
	}
	if err := json.Unmarshal([]byte(x.Of), &session); err != nil {
		return session, ErrStep
	}
	return session, s.useOnce(ctx, session.Challenge)
}

// AddPasskey adds a passkey that a browser has created. A person's first way to sign in besides the
// password comes with recovery codes, which are returned and cannot be shown again. All browsers
// but the one with the sign-in but have to confirm again. The error is [ErrPasskey],
// [ErrPasskeyMany] or [ErrStep].
func (s *Service) AddPasskey(ctx context.Context, site Site, p store.Person,
	but, sealed, reply, name string) (codes []string, err error) {
	rp, err := relyingParty(site)
	if err != nil {
		return nil, err
	}
	session, err := s.finish(ctx, passkeyAdd, p, sealed)
	if err != nil {
		return nil, err
	}
	if len(reply) > maxPasskeyReply {
		return nil, ErrPasskey
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(reply))
	if err != nil {
		return nil, ErrPasskey
	}
	c, err := rp.CreateCredential(holder{Person: p}, session, parsed)
	if err != nil {
		return nil, ErrPasskey
	}
	c.Attestation = webauthn.CredentialAttestation{} // nobody checks it again
	kept, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	if name = strings.ToValidUTF8(strings.TrimSpace(name), ""); len(name) > maxPasskeyName {
		name = strings.ToValidUTF8(name[:maxPasskeyName], "")
	}
	codes, hashes := newRecoveryCodes()
	coded, err := s.db.Passkeys.Add(ctx, store.Passkey{ID: passkeyID(c.ID), Person: p.ID, Name: name, Credential: kept,
		Created: s.now(), Used: s.now()}, maxPasskeys, hashes)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, ErrPasskeyMany
	case errors.Is(err, store.ErrExists):
		return nil, ErrPasskey
	case err != nil:
		return nil, err
	case !coded:
		codes = nil
	}
	return codes, s.db.SignIns.Unconfirm(ctx, p.ID, but)
}

func passkeyID(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// RemovePasskey removes a passkey of a person. The error is [store.ErrNotFound] if there is none.
func (s *Service) RemovePasskey(ctx context.Context, person, id string) error {
	return s.db.Passkeys.Remove(ctx, person, id)
}

// AskPasskey begins a sign-in by passkey, or with a signed-in person a confirmation.
func (s *Service) AskPasskey(site Site, p store.Person) (Ceremony, error) {
	rp, err := relyingParty(site)
	if err != nil {
		return Ceremony{}, err
	}
	// The browser offers the passkeys of everybody; those of others are refused afterwards.
	options, session, err := rp.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return Ceremony{}, err
	}
	purpose := passkeySignIn
	if p.ID != "" {
		purpose = passkeyConfirm
	}
	return s.ceremony(purpose, p, options.Response, session)
}

// SignInByPasskey signs in whoever a passkey belongs to. The error is [ErrPasskey] or [ErrStep].
func (s *Service) SignInByPasskey(ctx context.Context, site Site, sealed, reply string, by Browser) (token string,
	p store.Person, err error) {
	if p, err = s.usePasskey(ctx, site, passkeySignIn, store.Person{}, sealed, reply); err != nil {
		return "", p, err
	}
	token, err = s.Admit(ctx, p, by)
	return token, p, err
}

// ConfirmPasskey is [Service.Confirm] by a passkey of the same person.
func (s *Service) ConfirmPasskey(ctx context.Context, x SignedIn, site Site, sealed, reply string) (token string,
	err error) {
	if _, err := s.usePasskey(ctx, site, passkeyConfirm, x.Person, sealed, reply); err != nil {
		return "", err
	}
	return s.confirmed(ctx, x)
}

// usePasskey returns the person of a passkey, which has to be asked if that is known.
func (s *Service) usePasskey(ctx context.Context, site Site, purpose string, asked store.Person, sealed,
	reply string) (p store.Person, err error) {
	rp, err := relyingParty(site)
	if err != nil {
		return p, err
	}
	session, err := s.finish(ctx, purpose, asked, sealed)
	if err != nil {
		return p, err
	}
	if len(reply) > maxPasskeyReply {
		return p, ErrPasskey
	}
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(reply))
	if err != nil {
		return p, ErrPasskey
	}
	var failed error // of the database; the library wraps everything as a bad request
	find := func(_, handle []byte) (webauthn.User, error) {
		if asked.ID != "" && string(handle) != asked.ID {
			return nil, ErrPasskey
		}
		found, err := s.db.People.ByID(ctx, string(handle))
		if err == nil {
			p = found
			var h holder
			if h, err = s.holderOf(ctx, found); err == nil {
				return h, nil
			}
		}
		if !errors.Is(err, store.ErrNotFound) {
			failed = err
		}
		return nil, err
	}
	_, used, err := rp.ValidatePasskeyLogin(find, session, parsed)
	switch {
	case failed != nil:
		return p, failed
	case err != nil || used.Authenticator.CloneWarning || !bytes.Equal(used.ID, parsed.RawID):
		return p, ErrPasskey
	}
	kept, err := json.Marshal(used)
	if err != nil {
		return p, err
	}
	err = s.db.Passkeys.MarkUsed(ctx, store.Passkey{ID: passkeyID(used.ID), Credential: kept, Used: s.now()})
	if errors.Is(err, store.ErrNotFound) { // removed in the meantime
		err = ErrPasskey
	}
	return p, err
}
