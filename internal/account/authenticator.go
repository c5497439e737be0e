package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6238 and the apps use it
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"

	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	// codeStep is how long a code of an authenticator app is shown, and codeDigits its length
	// (RFC 6238 section 5.2, and what the common apps support).
	codeStep   = 30 * time.Second
	codeDigits = 6
	// codeDrift is how many time steps the clock of the app may be off (RFC 6238 section 5.2).
	codeDrift = 1
	// secretSize is the size of the shared secret, in bytes (RFC 4226 section 4, R6).
	secretSize = 20
	// recoveryCodes is how many recovery codes there are.
	recoveryCodes = 10
	// stepTTL is for how long a browser may send the code after the password.
	stepTTL = 10 * time.Minute
	// triesOfCode per hour. Three codes are valid at a time, so somebody who knows the password and
	// never stops guesses one with a probability of one half in 30 months.
	triesOfCode = 10
)

// Reasons why a code is refused.
var (
	// ErrCode means that a code of an authenticator app, or a recovery code, is wrong or was used.
	ErrCode = i18n.Message("the code is wrong, or was used already").Errorf()
	// ErrStep means that what the code belongs to has expired or was changed.
	ErrStep = i18n.Message("too much time has passed; begin again").Errorf()
)

// CodeNeeded is the error of a sign-in with the right password by a person who has an authenticator
// app or a passkey. Step proves the password to [Service.SignInByCode], and App reports whether
// there is an app; otherwise a recovery code is needed.
type CodeNeeded struct {
	Step string
	App  bool
}

// Error says what is missing.
func (CodeNeeded) Error() string { return "a code of the authenticator app is needed" }

// sealedStep is the content of CodeNeeded.Step and of Enrolment.Sealed.
type sealedStep struct {
	Purpose string `json:"purpose"` // sign in, or enrol
	Person  string `json:"person"`
	// Of is the hash of the password that was proved, or the secret that is enrolled.
	Of    string `json:"of"`
	Until int64  `json:"until"` // Unix milliseconds
}

func (s *Service) sealStep(purpose string, p store.Person, of string, lasts time.Duration) (string, error) {
	plain, err := json.Marshal(sealedStep{purpose, p.ID, of, s.now().Add(lasts).UnixMilli()})
	return s.box.Seal(string(plain)), err
}

// openStep opens what sealStep sealed. The error is [ErrStep].
func (s *Service) openStep(purpose, sealed string) (x sealedStep, err error) {
	plain, err := s.box.Open(sealed)
	if err != nil || plain == sealed { // Open returns unsealed text unchanged
		return x, ErrStep
	}
	if json.Unmarshal([]byte(plain), &x) != nil || x.Purpose != purpose || !s.now().Before(time.UnixMilli(x.Until)) {
		return x, ErrStep
	}
	return x, nil
}

// SignInByCode signs a browser in whose password was right. The error is [ErrCode], [ErrTries], or
// [ErrStep] if the password has to be typed again.
func (s *Service) SignInByCode(ctx context.Context, step, code string, by Browser) (token string, p store.Person,
	err error) {
	x, err := s.openStep("sign in", step)
	if err != nil {
		return "", p, err
	}
	if p, err = s.db.People.ByID(ctx, x.Person); err != nil {
		if errors.Is(err, store.ErrNotFound) {
			err = ErrStep
		}
		return "", p, err
	}
	if seal.Hash(p.Password) != x.Of {
		return "", p, ErrStep
	}
	key := "code|" + p.ID
	if mark, ok := s.known(by, p); ok {
		key = "browser code|" + mark
	}
	if err = s.checkCode(ctx, limit{key, triesOfCode, accountWindow}, p, code); err != nil {
		return "", p, err
	}
	token, err = s.Admit(ctx, p, by)
	return token, p, err
}

// needCode returns [CodeNeeded] for a person whose password is not enough.
func (s *Service) needCode(ctx context.Context, p store.Person) error {
	steps, err := s.SecondSteps(ctx, p.ID)
	if err != nil || !steps.Any() {
		return err
	}
	step, err := s.sealStep("sign in", p, seal.Hash(p.Password), stepTTL)
	if err != nil {
		return err
	}
	return CodeNeeded{step, steps.App}
}

// Authenticator returns the authenticator app of a person. The error is [store.ErrNotFound] if
// there is none.
func (s *Service) Authenticator(ctx context.Context, person string) (store.Authenticator, error) {
	return s.db.Authenticators.ByPerson(ctx, person)
}

// SecondSteps returns what a person has besides the password.
func (s *Service) SecondSteps(ctx context.Context, person string) (store.SecondSteps, error) {
	if person == "" { // which is everybody to the store
		return store.SecondSteps{}, nil
	}
	byPerson, err := s.EverySecondStep(ctx, person)
	return byPerson[person], err
}

// EverySecondStep returns what people have besides the password, by their ids: one person, or with
// an empty id everybody.
func (s *Service) EverySecondStep(ctx context.Context, person string) (map[string]store.SecondSteps, error) {
	return s.db.Authenticators.SecondSteps(ctx, person)
}

// checkCode accepts a code of the app or a recovery code of a person, once. The error is [ErrCode]
// or [ErrTries].
func (s *Service) checkCode(ctx context.Context, l limit, p store.Person, code string) error {
	now := s.now()
	switch may, err := s.db.SignIns.Try(ctx, seal.Hash(l.key), l.most, now, now.Add(-l.window)); {
	case err != nil:
		return fmt.Errorf("count a try: %w", err)
	case !may:
		return ErrTries
	}
	ok, err := s.useCode(ctx, p, code)
	if err != nil {
		return err
	}
	if !ok {
		return ErrCode
	}
	return s.db.SignIns.GiveBack(ctx, seal.Hash(l.key))
}

func (s *Service) useCode(ctx context.Context, p store.Person, code string) (bool, error) {
	code = plainCode(code)
	if len(code) != codeDigits {
		return s.db.Authenticators.UseCode(ctx, p.ID, recoveryHash(code))
	}
	x, err := s.Authenticator(ctx, p.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	secret, err := s.box.Open(x.Secret)
	if err != nil {
		return false, fmt.Errorf("open the secret of an authenticator app: %w", err)
	}
	step, ok := codeOf(secret, code, s.now())
	if !ok {
		return false, nil
	}
	return s.db.Authenticators.UseStep(ctx, p.ID, step)
}

// plainCode removes what people put between the characters of a code, and what makes them wide in
// Chinese and Japanese.
func plainCode(code string) string {
	return strings.ToUpper(strings.Map(func(r rune) rune {
		if r == '-' || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, width.Narrow.String(code)))
}

// ShownCode returns what an app with a secret shows at a time; for simulators and tests.
func ShownCode(secret string, at time.Time) string {
	key, err := base32.StdEncoding.DecodeString(secret)
	if err != nil {
		return ""
	}
	return shownCode(key, at.Unix()/int64(codeStep/time.Second))
}

// codeOf returns the time step in which an app with a secret shows a code, if that is about now.
func codeOf(secret, code string, now time.Time) (step int64, ok bool) {
	key, err := base32.StdEncoding.DecodeString(secret)
	if err != nil {
		return 0, false
	}
	for step = now.Unix()/int64(codeStep/time.Second) - codeDrift; ; step++ {
		if subtle.ConstantTimeCompare([]byte(shownCode(key, step)), []byte(code)) == 1 {
			return step, true
		}
		if step >= now.Unix()/int64(codeStep/time.Second)+codeDrift {
			return 0, false
		}
	}
}

// shownCode is the code of a time step (RFC 4226 section 5.3).
func shownCode(key []byte, step int64) string {
	mac := hmac.New(sha1.New, key)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(step)))
	sum := mac.Sum(nil)
	n := binary.BigEndian.Uint32(sum[sum[len(sum)-1]&15:]) & 0x7fffffff
	return fmt.Sprintf("%0*d", codeDigits, n%1_000_000)
}

// Enrolment is an authenticator app that is being set up.
type Enrolment struct {
	Secret string // in base32, to type in
	URI    string // otpauth, to scan
	Sealed string // proves the secret to [Service.AddAuthenticator]
}

// Enrol returns a new secret for the app of a person. Nothing is stored before the person has sent
// a code.
func (s *Service) Enrol(p store.Person) (Enrolment, error) {
	raw := make([]byte, secretSize)
	rand.Read(raw) //nolint:errcheck // it never fails
	secret := base32.StdEncoding.EncodeToString(raw)
	sealed, err := s.sealStep("enrol", p, secret, stepTTL)
	return enrolment(p, secret, sealed), err
}

// Enrolling returns the enrolment that was sealed for a person, so that it can be shown again. The
// error is [ErrStep].
func (s *Service) Enrolling(p store.Person, sealed string) (Enrolment, error) {
	x, err := s.openStep("enrol", sealed)
	if err != nil || x.Person != p.ID {
		return Enrolment{}, ErrStep
	}
	return enrolment(p, x.Of, sealed), nil
}

func enrolment(p store.Person, secret, sealed string) Enrolment {
	// The format is that of the apps:
	// https://github.com/google/google-authenticator/wiki/Key-Uri-Format
	uri := url.URL{Scheme: "otpauth", Host: "totp", Path: "/Patchbay:" + p.Name,
		RawQuery: url.Values{"secret": {secret}, "issuer": {"Patchbay"}}.Encode()}
	return Enrolment{secret, uri.String(), sealed}
}

// AddAuthenticator adds an app that shows a code, in place of the one before, and returns the
// recovery codes, which are not stored here and cannot be shown again. All browsers but the one
// with the sign-in but have to confirm again. The error is [ErrCode] or [ErrStep].
func (s *Service) AddAuthenticator(ctx context.Context, p store.Person, but, sealed, code string) ([]string, error) {
	e, err := s.Enrolling(p, sealed)
	if err != nil {
		return nil, err
	}
	now := s.now()
	step, ok := codeOf(e.Secret, plainCode(code), now)
	if !ok {
		return nil, ErrCode
	}
	if err := s.useOnce(ctx, e.Secret); err != nil {
		return nil, err
	}
	codes, hashes := newRecoveryCodes()
	err = s.db.Authenticators.Add(ctx, store.Authenticator{Person: p.ID, Secret: s.box.Seal(e.Secret), Created: now,
		LastStep: step}, hashes)
	if err != nil {
		return nil, err
	}
	return codes, s.db.SignIns.Unconfirm(ctx, p.ID, but)
}

// useOnce returns [ErrStep] if something that a browser brings back was used before, while what
// sealed it is good.
func (s *Service) useOnce(ctx context.Context, what string) error {
	now := s.now()
	unused, err := s.db.SignIns.Try(ctx, seal.Hash("once|"+what), 1, now, now.Add(-2*passkeyTTL))
	if err == nil && !unused {
		err = ErrStep
	}
	return err
}

// NewRecoveryCodes replaces the recovery codes of a person. The error is [store.ErrNotFound] if the
// person has neither an authenticator app nor a passkey.
func (s *Service) NewRecoveryCodes(ctx context.Context, person string) ([]string, error) {
	codes, hashes := newRecoveryCodes()
	return codes, s.db.Authenticators.ReplaceCodes(ctx, person, hashes)
}

// RemoveAuthenticator removes the app of a person. The error is [store.ErrNotFound] if there is
// none.
func (s *Service) RemoveAuthenticator(ctx context.Context, person string) error {
	return s.db.Authenticators.Remove(ctx, person)
}

// RemoveSecondSteps removes the app, the passkeys and the recovery codes of a person, whose
// password is enough from now on. The error is [store.ErrNotFound] if there are none.
func (s *Service) RemoveSecondSteps(ctx context.Context, person string) error {
	return s.db.Authenticators.RemoveAll(ctx, person)
}

// newRecoveryCodes returns codes of 80 bits: too many to guess from a stolen hash.
func newRecoveryCodes() (codes, hashes []string) {
	for range recoveryCodes {
		raw := make([]byte, 10)
		rand.Read(raw) //nolint:errcheck // it never fails
		text := base32.StdEncoding.EncodeToString(raw)
		codes = append(codes, text[:4]+"-"+text[4:8]+"-"+text[8:12]+"-"+text[12:])
		hashes = append(hashes, recoveryHash(text))
	}
	return codes, hashes
}

func recoveryHash(code string) string { return seal.Hash("recovery|" + code) }
