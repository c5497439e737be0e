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
	// accessEvery is how often an instance polls for changes of rights, in case a notification was
	// lost.
	accessEvery = 500 * time.Millisecond
	// accessDoubt is how long after a change new streams are checked at once. A request may have
	// been authenticated before the change and begin its stream later, because its body arrived
	// slowly.
	accessDoubt = 2 * time.Minute
	// accessAtATime bounds the concurrent checks against the database.
	accessAtATime = 8
	// accessLimit is the timeout of a check. Streams that could not be checked stay until the next
	// one.
	accessLimit = 5 * time.Second
)

// ErrStreams means that a key, or its person, has too many open streams.
var ErrStreams = errors.New("too many streams are open")

// ErrEnded is the cause for ending a stream whose key or sign-in is no longer valid.
var ErrEnded = errors.New("the key or the sign-in that opened this has ended or changed")

// StreamLimits bounds the streams of an instance. 0 means no limit.
type StreamLimits struct {
	Key, Person int
	// Widens reports whether rules of a key allow all that others have allowed: such a change ends
	// no stream. Nil: every change ends them.
	Widens func(before, after string) bool
}

// Streams tracks long-lasting requests. It counts them by key and by person, and ends them when the
// key or sign-in that opened them was revoked, has expired or was narrowed. It is safe for
// concurrent use. A nil Streams allows everything.
type Streams struct {
	accounts *Service
	limits   StreamLimits

	mu      sync.Mutex
	grounds map[basisOf]*basis
	keys    map[string]int // counted streams by key
	people  map[string]int
	changed time.Time     // time of the last change of rights
	wake    chan struct{} // requests a check
	hear    []func()      // called on each change
	begun   int64         // version of the rights before anything was served
}

// basis is the key or sign-in that opened streams, in the state of that time.
type basis struct {
	good    func(context.Context) bool
	expires time.Time // zero: no expiry
	ends    map[*context.CancelCauseFunc]bool
}

// NewStreams returns an empty table. [Streams.Run] has to run beside it.
func NewStreams(s *Service, limits StreamLimits) *Streams {
	return &Streams{
		accounts: s, limits: limits, grounds: map[basisOf]*basis{}, keys: map[string]int{}, people: map[string]int{},
		wake: make(chan struct{}, 1), begun: -1,
	}
}

// Begin records the version of the rights before anything is served: whatever is read from now on
// may be cached as long as the version stays the same.
func (s *Streams) Begin(ctx context.Context) (err error) {
	s.begun, err = s.accounts.db.AccessVersion(ctx)
	return err
}

// OnChange registers a function that is called whenever rights may have changed, before streams are
// checked. Call it before Run.
func (s *Streams) OnChange(f func()) { s.hear = append(s.hear, f) }

// Changed records that rights may have changed, here or on another instance.
func (s *Streams) Changed() {
	s.accounts.db.ClearRowCache()
	s.recheck()
}

// recheck calls the registered functions and requests a check of all streams.
func (s *Streams) recheck() {
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

// Key counts a stream that a key opens. Its context ends when the key is no longer valid or is
// narrowed; call leave when the stream is over. The error is [ErrStreams] if there are too many.
func (s *Streams) Key(ctx context.Context, p Principal) (in context.Context, leave func(), err error) {
	if s == nil {
		return ctx, func() {}, nil
	}
	s.mu.Lock()
	full := s.limits.Key > 0 && s.keys[p.Key.ID] >= s.limits.Key ||
		s.limits.Person > 0 && s.people[p.Person.ID] >= s.limits.Person
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

// Watch is like Key for streams that are counted elsewhere.
func (s *Streams) Watch(ctx context.Context, p Principal) (in context.Context, leave func()) {
	if s == nil {
		return ctx, func() {}
	}
	return s.enter(ctx, basisOfKey(p), p.Key.Expires, func(ctx context.Context) bool { return s.keyHolds(ctx, p) })
}

// basisOf identifies a key or a sign-in in one state: of two streams of a key, one may have begun
// before the key was narrowed and one after.
type basisOf struct {
	id, role, rules, scopes string
	bot                     int64
}

func basisOfKey(p Principal) basisOf {
	return basisOf{p.Key.ID, p.Person.Role, p.Key.Rules, strings.Join(p.Key.Scopes, " "), p.Key.Bot}
}

// keyHolds reports whether a key is still as it was. If the database cannot be reached, the key
// stays valid.
func (s *Streams) keyHolds(ctx context.Context, was Principal) bool {
	k, err := s.accounts.db.Keys.ByID(ctx, was.Key.ID)
	if err != nil {
		return !errors.Is(err, store.ErrNotFound)
	}
	widened := s.limits.Widens != nil && s.limits.Widens(was.Key.Rules, k.Rules)
	if !k.Revoked.IsZero() || k.Rules != was.Key.Rules && !widened || k.Bot != was.Key.Bot ||
		!slices.Equal(k.Scopes, was.Key.Scopes) || !k.Expires.Equal(was.Key.Expires) {
		return false
	}
	p, err := s.accounts.db.People.ByID(ctx, k.Person)
	if err != nil {
		return !errors.Is(err, store.ErrNotFound)
	}
	return p.Role == was.Person.Role && p.Paused.IsZero()
}

// SignIn is like Watch for a signed-in browser.
func (s *Streams) SignIn(ctx context.Context, x SignedIn) (in context.Context, leave func()) {
	if s == nil {
		return ctx, func() {}
	}
	return s.enter(ctx, basisOf{id: x.ID, role: x.Person.Role}, x.Created.Add(SignInLife),
		func(ctx context.Context) bool {
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

func (s *Streams) enter(ctx context.Context, id basisOf, expires time.Time,
	good func(context.Context) bool) (context.Context, func()) {
	in, cancel := context.WithCancelCause(ctx)
	end := &cancel
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.grounds[id]
	if g == nil {
		g = &basis{good: good, expires: expires, ends: map[*context.CancelCauseFunc]bool{}}
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

// Open returns how many streams are watched.
func (s *Streams) Open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grounds {
		n += len(g.ends)
	}
	return n
}

// Run ends streams whose key or sign-in is no longer valid, until ctx ends. It calls failed when
// the version of the rights cannot be read.
func (s *Streams) Run(ctx context.Context, failed func(error)) error {
	tick := time.NewTicker(accessEvery)
	defer tick.Stop()
	version := int64(-1) // so that the first poll also finds earlier changes
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
				s.recheck()
			case err == nil && now != version:
				version = now
				s.Changed()
			}
			at := s.accounts.now()
			s.check(ctx, func(g *basis) bool { return !g.expires.IsZero() && !at.Before(g.expires) })
		}
	}
}

// check ends the streams that over selects, which have expired. With a nil over it asks the
// database about every stream.
func (s *Streams) check(ctx context.Context, over func(*basis) bool) {
	s.mu.Lock()
	list := map[basisOf]*basis{}
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

func (s *Streams) end(id basisOf, g *basis) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for end := range g.ends {
		(*end)(ErrEnded)
	}
	if s.grounds[id] == g {
		delete(s.grounds, id) // later streams get a new check
	}
}
