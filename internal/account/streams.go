package account

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/internal/store"
)

const (
	// accessEvery is how often an instance looks whether somebody's rights have changed,
	// for the case that it was not told.
	accessEvery = 500 * time.Millisecond
	// accessDoubt is how long after a change a new stream is checked at once: who let it in
	// may have looked before the change. Bodies that come slowly lie between.
	accessDoubt = 2 * time.Minute
	// accessAtATime bounds the checks that ask the database at the same time.
	accessAtATime = 8
	// accessLimit is how long a check may take; after it, what was let in stays until the
	// next one.
	accessLimit = 5 * time.Second
)

// ErrStreams says that a key, or its person, has too many streams open.
var ErrStreams = errors.New("too many streams are open")

// ErrEnded is why a stream ends whose key or sign-in does not hold any more.
var ErrEnded = errors.New("the key or the sign-in that opened this has ended or changed")

// StreamLimits bound the streams of an instance. 0 means any number.
type StreamLimits struct{ Key, Person int }

// Streams are the requests that last. They are counted by key and by person, and end
// when what let them in was revoked, has expired or was narrowed. It is safe for
// concurrent use, and a nil one lets everything be.
type Streams struct {
	accounts *Service
	limits   StreamLimits

	mu      sync.Mutex
	grounds map[groundOf]*ground
	keys    map[string]int // streams that count, by key
	people  map[string]int
	changed time.Time     // when rights changed last
	wake    chan struct{} // a change is to be looked into
	hear    []func()      // told of each change
	begun   int64         // the number of changes of rights before anything was served
}

// ground is what let streams in: a key or a sign-in, as it was then.
type ground struct {
	good    func(context.Context) bool
	expires time.Time // zero: never by itself
	ends    map[*context.CancelCauseFunc]bool
}

// NewStreams makes the table of streams. [Streams.Run] has to run beside it.
func NewStreams(s *Service, limits StreamLimits) *Streams {
	return &Streams{
		accounts: s, limits: limits, grounds: map[groundOf]*ground{}, keys: map[string]int{}, people: map[string]int{},
		wake: make(chan struct{}, 1), begun: -1,
	}
}

// Begin notes how rights are before anything is served: what is read from now on may be
// remembered for as long as they stay so.
func (s *Streams) Begin(ctx context.Context) (err error) {
	s.begun, err = s.accounts.db.AccessVersion(ctx)
	return err
}

// OnChange adds what is told whenever rights may have changed, before streams are
// checked. It is called before Run.
func (s *Streams) OnChange(f func()) { s.hear = append(s.hear, f) }

// Changed says that the rights of somebody may have changed, here or on another
// instance.
func (s *Streams) Changed() {
	s.accounts.db.ForgetKnown()
	s.look()
}

// look has everything looked at that depends on rights.
func (s *Streams) look() {
	for _, f := range s.hear {
		f()
	}
	s.mu.Lock()
	s.changed = s.accounts.now()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Key counts in a stream that a key lets in. Its context ends when the key does not hold
// any more, or holds less; leave is to be called when the stream is over. The error is
// [ErrStreams] if there are too many.
func (s *Streams) Key(ctx context.Context, p Principal) (in context.Context, leave func(), err error) {
	if s == nil {
		return ctx, func() {}, nil
	}
	s.mu.Lock()
	full := s.limits.Key > 0 && s.keys[p.Key.ID] >= s.limits.Key || s.limits.Person > 0 && s.people[p.Person.ID] >= s.limits.Person
	if !full {
		s.keys[p.Key.ID]++
		s.people[p.Person.ID]++
	}
	s.mu.Unlock()
	if full {
		return ctx, func() {}, ErrStreams
	}
	in, end := s.Watch(ctx, p)
	return in, func() {
		end()
		s.mu.Lock()
		defer s.mu.Unlock()
		less(s.keys, p.Key.ID)
		less(s.people, p.Person.ID)
	}, nil
}

func less(counts map[string]int, of string) {
	if counts[of]--; counts[of] <= 0 {
		delete(counts, of)
	}
}

// Watch is Key for what is counted elsewhere.
func (s *Streams) Watch(ctx context.Context, p Principal) (in context.Context, leave func()) {
	if s == nil {
		return ctx, func() {}
	}
	return s.enter(ctx, groundOfKey(p), p.Key.Expires, func(ctx context.Context) bool { return s.keyHolds(ctx, p) })
}

// groundOf tells keys and sign-ins apart, and the states of each: of two streams, one may
// have come before a key was narrowed and one after.
type groundOf struct {
	id, role, rules, scopes string
	bot                     int64
}

func groundOfKey(p Principal) groundOf {
	return groundOf{p.Key.ID, p.Person.Role, p.Key.Rules, strings.Join(p.Key.Scopes, " "), p.Key.Bot}
}

// keyHolds reports whether a key still lets in what it did. A database that is away is
// not the key's fault.
func (s *Streams) keyHolds(ctx context.Context, was Principal) bool {
	k, err := s.accounts.db.Keys.ByID(ctx, was.Key.ID)
	if err != nil {
		return !errors.Is(err, store.ErrNotFound)
	}
	if !k.Revoked.IsZero() || k.Rules != was.Key.Rules || k.Bot != was.Key.Bot || !slices.Equal(k.Scopes, was.Key.Scopes) || !k.Expires.Equal(was.Key.Expires) {
		return false
	}
	p, err := s.accounts.db.People.ByID(ctx, k.Person)
	if err != nil {
		return !errors.Is(err, store.ErrNotFound)
	}
	return p.Role == was.Person.Role
}

// SignIn is Watch for a browser in which somebody has signed in.
func (s *Streams) SignIn(ctx context.Context, x SignedIn) (in context.Context, leave func()) {
	if s == nil {
		return ctx, func() {}
	}
	return s.enter(ctx, groundOf{id: x.ID, role: x.Person.Role}, x.Created.Add(SignInLife), func(ctx context.Context) bool {
		_, err := s.accounts.db.SignIns.ByID(ctx, x.ID)
		if err != nil {
			return !errors.Is(err, store.ErrNotFound)
		}
		p, err := s.accounts.db.People.ByID(ctx, x.Person.ID)
		if err != nil {
			return !errors.Is(err, store.ErrNotFound)
		}
		return p.Role == x.Person.Role
	})
}

func (s *Streams) enter(ctx context.Context, id groundOf, expires time.Time, good func(context.Context) bool) (context.Context, func()) {
	in, cancel := context.WithCancelCause(ctx)
	end := &cancel
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.grounds[id]
	if g == nil {
		g = &ground{good: good, expires: expires, ends: map[*context.CancelCauseFunc]bool{}}
		s.grounds[id] = g
	}
	g.ends[end] = true
	if s.accounts.now().Sub(s.changed) < accessDoubt {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return in, func() {
		cancel(nil)
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(g.ends, end); len(g.ends) == 0 && s.grounds[id] == g {
			delete(s.grounds, id)
		}
	}
}

// Open is how many streams are watched.
func (s *Streams) Open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grounds {
		n += len(g.ends)
	}
	return n
}

// Run ends streams until ctx ends. Failed is told when it cannot be found out whether
// rights have changed.
func (s *Streams) Run(ctx context.Context, failed func(error)) error {
	tick := time.NewTicker(accessEvery)
	defer tick.Stop()
	version := int64(-1) // so that the first look is at what changed before it, too
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
			s.check(ctx, nil)
		case <-tick.C:
			now, err := s.accounts.db.AccessVersion(ctx)
			switch {
			case err != nil && ctx.Err() == nil:
				failed(err)
			case err == nil && version < 0 && now == s.begun:
				version = now
				s.look()
			case err == nil && now != version:
				version = now
				s.Changed()
			}
			at := s.accounts.now()
			s.check(ctx, func(g *ground) bool { return !g.expires.IsZero() && !at.Before(g.expires) })
		}
	}
}

// check ends the streams whose ground does not hold: of those that surely ran out, or
// with nil of those that are asked for.
func (s *Streams) check(ctx context.Context, over func(*ground) bool) {
	s.mu.Lock()
	list := map[groundOf]*ground{}
	for id, g := range s.grounds {
		if over == nil || over(g) {
			list[id] = g
		}
	}
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, accessLimit)
	defer cancel()
	var checking sync.WaitGroup
	defer checking.Wait()
	free := make(chan struct{}, accessAtATime)
	for id, g := range list {
		free <- struct{}{}
		checking.Go(func() {
			defer func() { <-free }()
			if over != nil || !g.good(ctx) {
				s.end(id, g)
			}
		})
	}
}

func (s *Streams) end(id groundOf, g *ground) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for end := range g.ends {
		(*end)(ErrEnded)
	}
	if s.grounds[id] == g {
		delete(s.grounds, id) // what comes from now on is looked at again
	}
}
