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

	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// How often passwords are checked. A try is counted before it is made: what is checked at
// the same time, here or on another instance, counts too.
const (
	// triesOfAccount an hour from browsers that never signed in to the account. An hour
	// that begins anywhere has part of two windows, so 100 checks at most.
	triesOfAccount  = 50
	accountWindow   = time.Hour
	triesOfBrowser  = 20 // an hour, from one that did
	triesOfSignedIn = 10 // in signedInWindow, of who is signed in and shows the password again
	signedInWindow  = 10 * time.Minute
	// hashesWaiting bounds how many passwords wait for each of the two lanes. Further ones
	// are refused at once, with [ErrBusy].
	hashesWaiting = 32
)

// Why a password is not looked at.
var (
	ErrTries = talk.Say{Zh: "尝试次数太多，请稍后再试", En: "too many tries; wait a while and try again"}.Wrong()
	ErrBusy  = talk.Say{Zh: "现在正在检查太多密码，请过几秒再试", En: "too many passwords are being checked now; try again in a few seconds"}.Wrong()
)

// lane lets one password be hashed at a time, which takes 64 MiB of memory, and some wait
// for it.
type lane struct{ busy, waiting chan struct{} }

func newLane() lane {
	return lane{busy: make(chan struct{}, 1), waiting: make(chan struct{}, 1+hashesWaiting)}
}

// hash runs f when it is its turn. The error is [ErrBusy] if too many wait.
func (l lane) hash(ctx context.Context, f func() error) error {
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

// nobodys is a hash that takes as long to check as somebody's.
var nobodys = sync.OnceValue(func() string {
	hash, err := argon2id.CreateHash(seal.Token(16), argon2id.DefaultParams)
	if err != nil {
		panic(err) // nothing random
	}
	return hash
})

// limit is how many checks may be made under a key in a window.
type limit struct {
	key    string
	most   int
	window time.Duration
}

// check finds out whether a password is a person's. That takes as long if there is no such
// person, or the person has none. It is called in a lane. The error is [ErrPassword] or
// [ErrTries].
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

// checkAgain is check for who is signed in. The error may be [ErrBusy] too.
func (s *Service) checkAgain(ctx context.Context, p store.Person, password string) error {
	return s.trusted.hash(ctx, func() error {
		return s.check(ctx, limit{"signed in|" + p.ID, triesOfSignedIn, signedInWindow}, p, password)
	})
}

// passwordOf says whether a password is a person's.
func (s *Service) passwordOf(p store.Person, password string) bool {
	hash := p.Password
	if hash == "" {
		hash = nobodys()
	}
	if len(password) > maxPassword {
		password = "" // it is nobody's
	}
	defer runtime.GC() // what was hashed with would stay until the heap has doubled
	same, err := s.compare(password, hash)
	return err == nil && same && p.Password != "" && password != ""
}

// hashPassword hashes a password that somebody has chosen with argon2id; the empty
// password stays empty.
func (s *Service) hashPassword(ctx context.Context, password string) (hash string, err error) {
	if password == "" {
		return "", nil
	}
	if err := CheckPassword(password); err != nil {
		return "", err
	}
	err = s.trusted.hash(ctx, func() error {
		defer runtime.GC() // as in passwordOf
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
		addr = netip.Addr{} // all of them count as one
	}
	if !s.Addresses.Take(addr) {
		return nil, ErrTries
	}
	return func() { s.Addresses.GiveBack(addr) }, nil
}

// KnownLife is for how long a browser is known in which somebody has signed in.
const KnownLife = 365 * 24 * time.Hour

// maxKnown bounds how many marks of one browser are looked at.
const maxKnown = 8

// Know makes the mark of a browser in which a person has just signed in. It lets nobody in:
// by it, who guesses elsewhere does not keep the person from trying the password here.
func (s *Service) Know(p store.Person) string {
	return s.box.Seal(strings.Join([]string{"known", p.ID, seal.Token(12), strconv.FormatInt(s.now().Add(KnownLife).UnixMilli(), 10)}, "|"))
}

// KnownAs tells the marks of several people in one browser apart, and nothing about them.
func KnownAs(p store.Person) string { return seal.Hash("known|" + p.ID)[:8] }

// known finds the mark that a browser has of a person.
func (s *Service) known(by Browser, p store.Person) (mark string, ok bool) {
	for _, sealed := range by.Known[:min(len(by.Known), maxKnown)] {
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

// checkSignIn finds out who has a name and a password. A browser that is known has a lane
// and tries of its own; of others, what does not fit in theirs costs nothing.
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
	if !errors.Is(err, ErrPassword) { // no guess was made, or it was none
		giveBack()
	}
	return p, err
}

// named is the person of a name, or nobody.
func (s *Service) named(ctx context.Context, name string) (store.Person, error) {
	p, err := s.db.People.ByName(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return p, fmt.Errorf("look up a person: %w", err)
	}
	return p, nil
}
