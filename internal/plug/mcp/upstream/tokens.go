package upstream

import (
	"context"
	"errors"
	"net/http"

	"patchbay/internal/i18n"
)

// Tokens are the access tokens of a server that its owner signs in to. They are safe for concurrent
// use.
type Tokens interface {
	// Token returns the token to send; empty: there is none.
	Token(ctx context.Context) (string, error)
	// Refused is told that the server has refused a request. It returns another token with which
	// the request is repeated once. Without one, the error says what the owner has to do; nil means
	// that the refusal has nothing to do with signing in.
	Refused(ctx context.Context, r Refusal) (token string, err error)
	// Redact removes tokens from a text.
	Redact(text string) string
	// Reload forgets what is known, because the owner has signed in or out.
	Reload()
}

// Refusal is a response with status 401 or 403.
type Refusal struct {
	Token      string // that was sent
	Status     int
	Challenges []string // WWW-Authenticate
	Repeated   bool     // the token is the one that Refused returned
}

// SignInError means that the owner has to sign in to the server, or to grant it more.
type SignInError struct {
	// Message is the text for the owner.
	Message i18n.Text
	// Told is the text for models, with a link for people. It begins after the name of the server.
	Told string
	// Final means that signing in once more will not help.
	Final bool
	// BySettings means that nobody has to sign in: the settings or the server have to change.
	BySettings bool
}

func (e *SignInError) Error() string { return e.Message.String() }

// sender sends the requests of one connection, with the owner's token or that of a sign-in.
type sender struct {
	client *http.Client
	tokens Tokens // nil: only the settings have tokens
}

// redactor returns a function that removes the secrets of an upstream from texts.
func (s *Spec) redactor() func(string) string {
	redact := s.Settings.redactor().Replace
	if s.tokens == nil {
		return redact
	}
	return func(text string) string { return s.tokens.Redact(redact(text)) }
}

// addTokens gives a spec its tokens. What its owner has set takes the place of a sign-in.
func (o *Options) addTokens(spec *Spec) {
	if o.Tokens != nil && !spec.Inbound && spec.Settings.SignsIn() {
		spec.tokens = o.Tokens(*spec)
	}
}

// newSender returns the sender for an upstream.
func newSender(spec *Spec, opt *Options) sender {
	return sender{client: newClient(opt.dial(spec)), tokens: spec.tokens}
}

// do sends a request. A request that is refused, which means that it was not carried out, is sent
// once more if there is another token.
func (s sender) do(ctx context.Context, build func() (*http.Request, error)) (*http.Response, error) {
	for repeated := false; ; repeated = true {
		req, err := build()
		if err != nil {
			return nil, err
		}
		sent := ""
		if s.tokens != nil {
			if sent, err = s.tokens.Token(ctx); err != nil {
				return nil, err
			}
			if sent != "" {
				req.Header.Set("Authorization", "Bearer "+sent)
			}
		}
		resp, err := s.client.Do(req)
		if err != nil {
			return nil, transportError(err)
		}
		if s.tokens == nil || resp.StatusCode != http.StatusUnauthorized && resp.StatusCode != http.StatusForbidden {
			return resp, nil
		}
		token, err := s.tokens.Refused(ctx, Refusal{Token: sent, Status: resp.StatusCode,
			Challenges: resp.Header.Values("WWW-Authenticate"), Repeated: repeated})
		if err != nil || token != "" && !repeated {
			resp.Body.Close()
		}
		if err != nil {
			return nil, err
		}
		if token == "" || repeated {
			return resp, nil
		}
	}
}

// update takes over what has changed without a new connection. The caller holds m.mu.
func (u *upstream) update(spec Spec) {
	if u.approved != spec.Pins {
		u.approved = spec.Pins
		signal(u.pinsChanged)
	}
	if u.signIns != spec.SignIns {
		u.signIns = spec.SignIns
		if u.spec.tokens != nil {
			u.spec.tokens.Reload()
		}
		signal(u.signedIn)
	}
}

// checkSignIn returns an error if the sign-in to the server has ended.
func (u *upstream) checkSignIn() error {
	if u.spec.tokens == nil {
		return nil
	}
	_, err := u.spec.tokens.Token(u.ctx)
	if _, ended := errors.AsType[*SignInError](err); ended {
		return err
	}
	return nil // what else is wrong, requests will tell
}
