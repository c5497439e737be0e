package account

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"

	"patchbay/internal/store"
)

// guessLimiter has the locks that are held while a code is tried. On one instance the tries of one
// person run one after the other, so that concurrent correct codes do not use up the allowance for
// wrong ones.
type guessLimiter struct {
	seed  maphash.Seed
	locks [64]sync.Mutex
}

func newGuessLimiter() *guessLimiter { return &guessLimiter{seed: maphash.MakeSeed()} }

func (g *guessLimiter) forAddress(w store.Wearer) *sync.Mutex {
	return &g.locks[maphash.Comparable(g.seed, w)%uint64(len(g.locks))]
}

// guess tries a code. The try counts as a guess if the error is one of wrong. After limit guesses
// within codeWindow the error is [ErrTooManyTries], and the code is not checked. The try is
// reserved in the database first, so that concurrent tries on any instance count too.
func (s *Service) guess(ctx context.Context, who store.Wearer, limit int, wrong []error, try func() error) error {
	lock := s.guesses.forAddress(who)
	lock.Lock()
	defer lock.Unlock()
	now := s.now()
	ticket, n, err := s.db.Bindings.Reserve(ctx, who, now, now.Add(-codeWindow))
	if err != nil {
		return err
	}
	if n > limit {
		err = ErrTooManyTries
	} else {
		err = try()
	}
	if slices.ContainsFunc(wrong, func(w error) bool { return errors.Is(err, w) }) {
		return err
	}
	// Any other failure reveals nothing about the code. A try that cannot be released counts as a
	// guess, which costs the person one of several.
	_ = s.db.Bindings.Release(context.WithoutCancel(ctx), ticket)
	return err
}
