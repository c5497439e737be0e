package control

import (
	"context"
	"errors"
	"net/url"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// SignInActions are the operations on sign-ins to tool servers. Errors about input, and of those
// servers, are an [i18n.Error], or wrap one.
type SignInActions struct {
	// State returns the state of a person's sign-in; nil: one cannot sign in to the upstream.
	State func(ctx context.Context, u store.Upstream, person string) (*UpstreamSignIn, error)
	// Start begins a person's sign-in, and returns where by signs in, who uses this server at an
	// origin, which may be empty.
	Start func(ctx context.Context, u store.Upstream, person, by, origin string) (address string, err error)
	// Answered returns the upstream whose sign-in has led to an address, and the person whose it
	// is.
	Answered func(ctx context.Context, address string) (number int64, person string, err error)
	// Finish takes the address to which a person's sign-in has led, from who has begun it.
	Finish func(ctx context.Context, u store.Upstream, person, by, address string) error
	// Forget forgets the tokens of a person's sign-in.
	Forget func(ctx context.Context, u store.Upstream, person string) error
}

// UpstreamSignIn is the state of a sign-in to a tool server.
type UpstreamSignIn struct {
	// Need is what the owner has to do: "sign_in", "again" because the server no longer accepts the
	// sign-in, "out" because the owner has signed out, "rights" or, if that was in vain, "final",
	// "settings" if Patchbay signs in by itself and is refused; empty: nothing. Message says it in
	// words.
	Need     string    `json:"need,omitempty"`
	Message  i18n.Text `json:"-"`
	Problem  string    `json:"problem,omitempty"`
	SignedIn bool      `json:"signed_in"`
	// Machine means that Patchbay signs in by itself. Since is then the time of its last token.
	Machine bool `json:"machine,omitempty"`
	// Pending reports whether a sign-in has begun.
	Pending bool `json:"pending,omitempty"`
	// Issuer is where the owner has signed in, and Scopes are the rights that were granted.
	Issuer string    `json:"issuer,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Scopes []string  `json:"scopes,omitempty"`
}

// UpstreamSignInStart begins a sign-in.
type UpstreamSignInStart struct {
	Upstream int64 `path:"upstream" json:"-"`
	// User is who signs in; see [UpstreamOf].
	User string `json:"user,omitempty"`
	// Origin is where the caller's browser uses this server.
	Origin string `json:"-"`
}

// StartedSignIn is a sign-in that has begun.
type StartedSignIn struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	// Address is where the owner signs in, with a browser, within ten minutes.
	Address string `json:"address"`
}

// UpstreamSignInAnswer finishes a sign-in.
type UpstreamSignInAnswer struct {
	Upstream int64  `path:"upstream" json:"-"`
	User     string `json:"user,omitempty"`
	// Address is the one to which the sign-in has led.
	Address string `json:"address"`
}

// ended reports whether there is no sign-in, so that no call succeeds.
func (s *UpstreamSignIn) ended() bool {
	return s.Need == "again" || s.Need == "out" || s.Need == "settings" && !s.SignedIn
}

// addSignIn makes the state of a connection agree with that of the sign-in, which all instances
// know, while a connection notices only when a request is refused. It reports whether an upstream
// is shared with a person who has not signed in.
func (s *Service) addSignIn(ctx context.Context, u seenUpstream, h *UpstreamHealth) (offered bool) {
	if s.UpstreamSignIns.State == nil {
		return false
	}
	in, err := s.UpstreamSignIns.State(ctx, u.Upstream, u.person)
	if err != nil {
		s.Logger.WarnContext(ctx, "the sign-in to a tool server cannot be read", "upstream", u.Slug, "error", err)
	}
	// A server that has once wanted a sign-in may be connected to without one now.
	if in == nil || !in.ended() && (in.Need != "sign_in" || h.State == UpstreamReady) {
		return false
	}
	h.NeedsSignIn, h.Problem, h.Cause = !in.Machine, in.Message, ""
	if h.State != "" {
		h.State, h.NextTry = UpstreamFailed, time.Time{}
	}
	return u.isMember() && in.Need != "again"
}

const (
	msgOtherSignIn    = i18n.Message("This is the answer to a sign-in to another server.")
	msgAnothersSignIn = i18n.Message("This is the answer to the sign-in of somebody else, so nothing was taken over.")
)

// signInProblem converts an error of a sign-in.
func signInProblem(err error) error {
	if told, ok := errors.AsType[*i18n.Error](err); ok {
		return problem.New(problem.Conflict, told.Message, told.Args...).Because(err)
	}
	return err
}

// StartSignIn begins a sign-in to a tool server, and returns where the person signs in.
func (s *Service) StartSignIn(ctx context.Context, c Caller, in UpstreamSignInStart) (StartedSignIn, error) {
	u, err := s.ownSignIn(ctx, c, in.Upstream, in.User)
	if err != nil {
		return StartedSignIn{}, err
	}
	address, err := s.UpstreamSignIns.Start(ctx, u.Upstream, u.person, c.Person, in.Origin)
	if err != nil {
		return StartedSignIn{}, signInProblem(err)
	}
	if to, err := url.Parse(address); err == nil {
		s.RecordAdminEvent(ctx, c, EventUpstreamSigningIn, aboutUpstream(u.Upstream, to.Host))
	}
	return StartedSignIn{u.Number, u.Slug, address}, nil
}

// FinishSignIn takes the address to which a sign-in has led, and returns the upstream, also if it
// has led to nothing.
func (s *Service) FinishSignIn(ctx context.Context, c Caller, in UpstreamSignInAnswer) (UpstreamDetail, error) {
	number, person, unknown := s.UpstreamSignIns.Answered(ctx, in.Address)
	if in.Upstream == 0 { // a browser has been led back
		in.Upstream = number
	}
	if in.Upstream == 0 {
		return UpstreamDetail{}, signInProblem(unknown)
	}
	u, err := s.ownSignIn(ctx, c, in.Upstream, in.User)
	switch {
	case err != nil:
		return UpstreamDetail{}, err
	case unknown != nil:
		return UpstreamDetail{}, signInProblem(unknown)
	case number != in.Upstream:
		return UpstreamDetail{}, problem.New(problem.Conflict, msgOtherSignIn)
	}
	err = problem.New(problem.Conflict, msgAnothersSignIn)
	if person == u.person {
		err = signInProblem(s.UpstreamSignIns.Finish(ctx, u.Upstream, u.person, c.Person, in.Address))
	}
	if err != nil {
		d, errShow := s.upstreamDetail(ctx, c, u)
		return d, errors.Join(err, errShow)
	}
	s.RecordAdminEvent(ctx, c, EventUpstreamSignedIn, aboutUpstream(u.Upstream))
	s.toolsChanged(ctx)
	return s.upstreamDetail(ctx, c, u)
}

// ForgetSignIn forgets the tokens of a sign-in to a tool server.
func (s *Service) ForgetSignIn(ctx context.Context, c Caller, in UpstreamOf) (UpstreamDetail, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return UpstreamDetail{}, err
	}
	u, err := s.seenUpstream(ctx, c, in.Upstream, in.User)
	if err != nil {
		return UpstreamDetail{}, err
	}
	if err := s.UpstreamSignIns.Forget(ctx, u.Upstream, u.person); err != nil {
		return UpstreamDetail{}, signInProblem(err)
	}
	s.RecordAdminEvent(ctx, c, EventUpstreamSignedOut, aboutUpstream(u.Upstream))
	s.toolsChanged(ctx)
	return s.upstreamDetail(ctx, c, u)
}
