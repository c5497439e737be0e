package account

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"

	"patchbay/internal/store"
)

// guesses are locks, one of which is held while somebody tries a code. Tries of one person
// come one after the other on this instance, so that right ones do not use up, at the same
// moment, what may be wrong.
type guesses struct {
	seed  maphash.Seed
	locks [64]sync.Mutex
}

func newGuesses() *guesses { return &guesses{seed: maphash.MakeSeed()} }

func (g *guesses) of(w store.Wearer) *sync.Mutex {
	return &g.locks[maphash.Comparable(g.seed, w)%uint64(len(g.locks))]
}

// guess tries a code. It counts as a guess if the error is one of wrong; with limit guesses
// in codeWindow the error is [ErrTooManyTries], and the code is not looked at. The try is
// reserved before, on whatever instance, so that none of many at the same moment is free.
func (s *Service) guess(ctx context.Context, who store.Wearer, limit int, wrong []error, try func() error) error {
	lock := s.guesses.of(who)
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
	// What failed for another reason has told nobody anything about the code. A try that
	// cannot be taken back counts, which costs its person one of many.
	_ = s.db.Bindings.Release(context.WithoutCancel(ctx), ticket)
	return err
}
