package signin

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/mcp/upstream"
)

// Status is the state of a sign-in.
type Status struct {
	// Need is what the owner has to do: one of the Need… constants. Message says it in words.
	Need    string
	Message i18n.Text
	// SignedIn reports whether there are tokens, Issuer from where, Since since when, and Scopes
	// with which rights.
	SignedIn bool
	// Pending reports whether a sign-in has begun.
	Pending bool
	Issuer  string
	Since   time.Time
	Scopes  []string
	// Wanted are the rights that the server demands.
	Wanted []string
	// Machine means that Patchbay signs in by itself.
	Machine bool
}

// Status returns the state of a sign-in.
func (s *Service) Status(ctx context.Context, t Target) (Status, error) {
	r, _, err := s.load(ctx, &t)
	if t.isMember() && r.Grant == nil && r.Need == NeedNothing {
		r.Need = NeedSignIn // there is no connection before, so no server has said so
	}
	out := Status{Need: r.Need, Machine: t.Settings.IsMachine(), Wanted: r.Challenge.Scopes,
		Pending: r.Pending != nil && s.Now().Before(r.Pending.Until)}
	if r.Failed != nil {
		out.Message = r.Failed.text()
	} else if r.Need != NeedNothing {
		out.Message = s.needed(&t, &r).Message
	}
	if g := r.Grant; g != nil {
		out.SignedIn, out.Issuer, out.Since, out.Scopes = true, g.Issuer, g.Since, g.Scopes
	}
	return out, err
}

// needed returns the error of what the owner has to do.
func (s *Service) needed(t *Target, r *record) *upstream.SignInError {
	if t.isMember() {
		return s.neededOfMember(t, r)
	}
	link, rights := s.Link(t.Number), clip(strings.Join(r.Challenge.Scopes, " "))
	switch r.Need {
	case NeedAgain:
		return &upstream.SignInError{Message: msgAgain.With(), Told: "needs its owner to sign in again: " + link}
	case NeedOut:
		return &upstream.SignInError{Message: msgOut.With(),
			Told: "needs its owner, who has signed out, to sign in: " + link}
	case NeedRights:
		return &upstream.SignInError{Message: msgRights.With(rights),
			Told: "needs more rights (" + rights + "), which its owner can grant: " + link}
	case NeedFinal:
		return &upstream.SignInError{Message: msgFinal.With(rights), Final: true,
			Told: "demands rights that its owner was not granted: " + strconv.Quote(rights) + ". Do not try again."}
	}
	return &upstream.SignInError{Message: msgSignIn.With(), Told: "needs its owner to sign in: " + link}
}

// neededOfMember is needed for a person who is not the owner: each signs in alone.
func (s *Service) neededOfMember(t *Target, r *record) *upstream.SignInError {
	link, rights := s.Link(t.Number), clip(strings.Join(r.Challenge.Scopes, " "))
	switch r.Need {
	case NeedAgain:
		return &upstream.SignInError{Message: msgAgain.With(), Told: "needs its user to sign in again: " + link}
	case NeedOut:
		return &upstream.SignInError{Message: msgYouOut.With(),
			Told: "needs its user, who has signed out, to sign in: " + link}
	case NeedRights:
		return &upstream.SignInError{Message: msgRights.With(rights),
			Told: "needs more rights (" + rights + "), which its user can grant: " + link}
	case NeedFinal:
		return &upstream.SignInError{Message: msgYouFinal.With(rights), Final: true,
			Told: "demands rights that its user was not granted: " + strconv.Quote(rights) + ". Do not try again."}
	}
	return &upstream.SignInError{Message: msgYouSignIn.With(), Told: "needs its user to sign in: " + link}
}

// want records that the owner has to do something, and returns the error that says so.
func (s *Service) want(ctx context.Context, t *Target, need string, ch Challenge) error {
	if t.Number == 0 { // it is only looked at
		return s.needed(t, &record{Need: need, Challenge: ch})
	}
	r, err := s.change(ctx, t, false, func(r *record) error {
		was, before := r.Need, r.Challenge
		if r.Need = need; need == NeedRights {
			if !slices.Equal(ch.Scopes, before.Scopes) {
				r.Steps = 0
			}
			if r.Steps >= maxSteps {
				r.Need = NeedFinal
			}
		}
		r.Challenge = ch
		if r.Need == was && ch.Metadata == before.Metadata && slices.Equal(ch.Scopes, before.Scopes) {
			return errUnchanged
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.needed(t, &r)
}
