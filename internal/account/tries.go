package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/alexedwards/argon2id"

	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// Limits on password checks. A try is counted before it is made, so that concurrent checks, here or
// on another instance, count too.
const (
	// triesOfAccount per hour, from browsers that never signed in to the account. Any hour overlaps
	// two windows, so it has at most 100 checks.
	triesOfAccount  = 50
	accountWindow   = time.Hour
	triesOfBrowser  = 20 // per hour, from a browser that did
	triesOfSignedIn = 10 // per signedInWindow, by a signed-in person who types the password again
	signedInWindow  = 10 * time.Minute
	// hashesWaiting bounds how many passwords wait in each of the two lanes. Further ones are
	// refused at once with [ErrBusy].
	hashesWaiting = 32
)

// Reasons why a password is not checked.
var (
	ErrTries = i18n.Message("too many tries; wait a while and try again").Errorf()
	ErrBusy  = i18n.Message("too many passwords are being checked now; try again in a few seconds").Errorf()
)

// hashLane allows one password hash at a time, because each takes 64 MiB of memory, and a bounded
// number of waiters.
type hashLane struct{ busy, waiting chan struct{} }

func newHashLane() hashLane {
	return hashLane{busy: make(chan struct{}, 1), waiting: make(chan struct{}, 1+hashesWaiting)}
}

// hash runs f when it is its turn. The error is [ErrBusy] if too many wait.
func (l hashLane) hash(ctx context.Context, f func() error) error {
	select {
	case l.waiting <- struct{}{}:
		defer func() { <-l.waiting }()
	default:
		return ErrBusy
	}
	select {
	case l.busy <- struct{}{}:
		defer func() { <-l.busy }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return f()
}

// unknownAccount is a hash that takes as long to check as that of a person.
var unknownAccount = sync.OnceValue(func() string {
	hash, err := argon2id.CreateHash(seal.NewToken(16), argon2id.DefaultParams)
	if err != nil {
		panic(err) // no source of randomness
	}
	return hash
})

// limit is how many checks are allowed under a key within a window.
type limit struct {
	key    string
	most   int
	window time.Duration
}

// check compares a password with that of a person. It takes as long if there is no such person, or
// the person has no password. Call it in a lane. The error is [ErrPassword] or [ErrTries].
func (s *Service) check(ctx context.Context, l limit, p store.Person, password string) error {
	now := s.now()
	may, err := s.db.SignIns.Try(ctx, seal.Hash(l.key), l.most, now, now.Add(-l.window))
	switch {
	case err != nil:
		return fmt.Errorf("count a try: %w", err)
	case !may:
		return ErrTries
	case !s.passwordOf(p, password):
		return ErrPassword
	}
	if err := s.db.SignIns.GiveBack(ctx, seal.Hash(l.key)); err != nil {
		return fmt.Errorf("count a try: %w", err)
	}
	return nil
}

// checkAgain is like check for a signed-in person. The error may also be [ErrBusy].
func (s *Service) checkAgain(ctx context.Context, p store.Person, password string) error {
	return s.trusted.hash(ctx, func() error {
		return s.check(ctx, limit{"signed in|" + p.ID, triesOfSignedIn, signedInWindow}, p, password)
	})
}

// passwordOf reports whether a password is a person's.
func (s *Service) passwordOf(p store.Person, password string) bool {
	hash := p.Password
	if hash == "" {
		hash = unknownAccount()
	}
	if len(password) > maxPassword {
		password = "" // matches nobody
	}
	defer runtime.GC() // free the memory of the hash at once, not when the heap has doubled
	same, err := s.compare(password, hash)
	return err == nil && same && p.Password != "" && password != ""
}

// hashPassword hashes a chosen password with argon2id. The empty password stays empty.
func (s *Service) hashPassword(ctx context.Context, password string) (hash string, err error) {
	if password == "" {
		return "", nil
	}
	if err := CheckPassword(password); err != nil {
		return "", err
	}
	err = s.trusted.hash(ctx, func() error {
		defer runtime.GC() // see passwordOf
		hash, err = argon2id.CreateHash(password, argon2id.DefaultParams)
		return err
	})
	return hash, err
}

// takeAddress counts a try of an address. The error is [ErrTries].
func (s *Service) takeAddress(by Browser) (giveBack func(), err error) {
	if s.Addresses == nil {
		return func() {}, nil
	}
	addr, err := netip.ParseAddr(by.Address)
	if err != nil {
		addr = netip.Addr{} // all unreadable addresses count as one
	}
	if !s.Addresses.Take(addr) {
		return nil, ErrTries
	}
	return func() { s.Addresses.GiveBack(addr) }, nil
}

// KnownBrowserTTL is how long a browser counts as known after a sign-in.
const KnownBrowserTTL = 365 * 24 * time.Hour

// maxKnownBrowsers bounds how many marks of one browser are checked.
const maxKnownBrowsers = 8

// RememberBrowser returns the mark of a browser in which a person has just signed in. The mark does
// not sign anybody in: it gives this browser tries of its own, so that guesses made elsewhere do
// not block it.
func (s *Service) RememberBrowser(p store.Person) string {
	return s.box.Seal(strings.Join([]string{"known", p.ID, seal.NewToken(12),
		strconv.FormatInt(s.now().Add(KnownBrowserTTL).UnixMilli(), 10)}, "|"))
}

// KnownBrowserName tells the marks of several people in one browser apart, and reveals nothing
// about them.
func KnownBrowserName(p store.Person) string { return seal.Hash("known|" + p.ID)[:8] }

// known returns the mark of a person that a browser holds.
func (s *Service) known(by Browser, p store.Person) (mark string, ok bool) {
	for _, sealed := range by.Known[:min(len(by.Known), maxKnownBrowsers)] {
		plain, err := s.box.Open(sealed)
		parts := strings.Split(plain, "|")
		if err != nil || plain == sealed || len(parts) != 4 || parts[0] != "known" || parts[1] != p.ID || p.ID == "" {
			continue
		}
		until, err := strconv.ParseInt(parts[3], 10, 64)
		if err == nil && s.now().UnixMilli() < until {
			return parts[2], true
		}
	}
	return "", false
}

// checkSignIn returns the person with a name and a password. A known browser has a lane and tries
// of its own. For other browsers a try that is refused without a check does not count.
func (s *Service) checkSignIn(ctx context.Context, name, password string, by Browser) (p store.Person, err error) {
	if len(by.Known) > 0 {
		if p, err = s.named(ctx, name); err != nil {
			return p, err
		}
		if mark, ok := s.known(by, p); ok {
			return p, s.trusted.hash(ctx, func() error {
				return s.check(ctx, limit{"browser|" + mark, triesOfBrowser, accountWindow}, p, password)
			})
		}
	}
	giveBack, err := s.takeAddress(by)
	if err != nil {
		return p, err
	}
	err = s.strangers.hash(ctx, func() error {
		if p, err = s.named(ctx, name); err != nil {
			return err
		}
		key := "person|" + p.ID
		if p.ID == "" {
			key = "name|" + name
		}
		return s.check(ctx, limit{key, triesOfAccount, accountWindow}, p, password)
	})
	if !errors.Is(err, ErrPassword) { // no check was made, or the password was correct
		giveBack()
	}
	return p, err
}

// named returns the person with a name, or the zero person.
func (s *Service) named(ctx context.Context, name string) (store.Person, error) {
	p, err := s.db.People.ByName(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return p, fmt.Errorf("look up a person: %w", err)
	}
	return p, nil
}
