package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
)

type upstreamSignInCmd struct {
	upstreamFlags `embed:""`
	Answer        string `help:"The address to which the sign-in has led, if it could not be opened there; @FILE reads it from a file (@- from standard input)." placeholder:"URL"`
	Out           bool   `help:"Sign out: forget the tokens."`
}

// Help returns the command's detailed help with examples.
func (upstreamSignInCmd) Help() string {
	return `Prints an address at which you sign in with a browser, and waits until that is done. The browser has to be signed in to Patchbay too, as whoever runs this command or owns the upstream. If the browser runs on another machine, the sign-in ends with a page that cannot be opened: paste its address, or pass it to --answer. With --json the first line is the address, as an object, and the result follows when you have signed in.

Examples:

    patchbay upstream signin notion
    patchbay upstream signin notion --answer 'http://127.0.0.1:3000/oauth/upstream?code=…&state=…'
    patchbay upstream signin notion --out

If somebody shares the upstream with you, you sign in to it for yourself: your calls use your sign-in, and nobody else's do.

A server with oauth_grant=client_credentials needs none: Patchbay signs in by itself. With --out it forgets its token, and tries again at once.`
}

const (
	msgSignInAt    = i18n.Message("Open this address in a browser and sign in, within ten minutes:")
	msgSignInElse  = i18n.Message("If the page at the end cannot be opened, paste its address here.")
	msgPasteAgain  = i18n.Message("Paste the address of the page at the end again.")
	msgSignInFirst = i18n.Message("%s Sign in with: patchbay upstream signin %s%s")
	msgSignedInTo  = i18n.Message("You are signed in to %s at %s.")
	msgSignedOut   = i18n.Message("You are signed out of %s.")
	msgForgotten   = i18n.Message("The tokens of %s are forgotten; Patchbay signs in again by itself.")
	msgNoSignIn    = i18n.Message("%s needs no sign-in by you.")
	msgSignInOver  = i18n.Message("the sign-in has ended without success; begin again with: patchbay upstream signin %s%s")
)

const (
	// signInPoll is how often the command looks whether a sign-in is done.
	signInPoll = time.Second
	// maxPastes is how often an address can be pasted.
	maxPastes = 3
)

// Run signs in to the upstream.
func (c *upstreamSignInCmd) Run(ctx context.Context, sh *shell) error {
	if c.Out && c.Answer != "" {
		return usage(i18n.Message("--out and --answer exclude each other"))
	}
	return c.find(ctx, sh, func(at *conn, u control.Upstream) error {
		if c.Out {
			d, err := api.ForgetSignIn.Call(ctx, at.Client, control.UpstreamOf{Upstream: u.Number, User: c.User})
			if err != nil {
				return err
			}
			return sh.result(d.SignIn, func() { sh.say(signedOut(d.SignIn), u.Slug) })
		}
		before, err := api.ShowUpstream.Call(ctx, at.Client, control.UpstreamOf{Upstream: u.Number, User: c.User})
		if err != nil {
			return err
		}
		if before.SignIn != nil && before.SignIn.Machine {
			return sh.result(before.SignIn, func() {
				sh.say(msgNoSignIn, u.Slug)
				sh.showSignIn(&before, c.retryFlags())
			})
		}
		d, err := c.signIn(ctx, sh, at, before)
		if err != nil {
			return err
		}
		return sh.result(d.SignIn, func() { sh.say(msgSignedInTo, u.Slug, plain(d.SignIn.Issuer)) })
	})
}

// signedOut says what has become of a sign-in that was forgotten.
func signedOut(s *control.UpstreamSignIn) i18n.Message {
	if s != nil && s.Machine {
		return msgForgotten
	}
	return msgSignedOut
}

// signIn finishes a sign-in with the given answer, or begins one and waits for its end.
func (c *upstreamSignInCmd) signIn(ctx context.Context, sh *shell, at *conn,
	before control.UpstreamDetail) (d control.UpstreamDetail, err error) {
	if c.Answer != "" {
		answer, err := sh.value(c.Answer)
		if err != nil {
			return d, err
		}
		return api.FinishSignIn.Call(ctx, at.Client,
			control.UpstreamSignInAnswer{Upstream: before.Number, User: c.User, Address: answer})
	}
	started, err := api.StartSignIn.Call(ctx, at.Client, control.UpstreamSignInStart{Upstream: before.Number,
		User: c.User})
	if err != nil {
		return d, err
	}
	if sh.json { // a script gets the address first, and the result on the lines after it
		if err := sh.writeJSON(started, ""); err != nil {
			return d, err
		}
	}
	fmt.Fprintf(sh.stderr, "%s\n\n  %s\n\n%s\n", msgSignInAt.In(sh.lang), plain(started.Address),
		msgSignInElse.In(sh.lang))
	return c.await(ctx, sh, at, before)
}

// await waits until a sign-in is done, by the browser or with an address that is pasted. Before is
// the upstream as it was.
func (c *upstreamSignInCmd) await(ctx context.Context, sh *shell, at *conn,
	before control.UpstreamDetail) (d control.UpstreamDetail, err error) {
	for pastes, ended := 0, false; ; {
		line, err := c.wait(ctx, sh, &ended)
		if err != nil {
			return d, err
		}
		var wrong error
		if line != "" {
			d, wrong = api.FinishSignIn.Call(ctx, at.Client,
				control.UpstreamSignInAnswer{Upstream: before.Number, User: c.User, Address: line})
			if pastes++; wrong == nil || pastes == maxPastes {
				return d, wrong
			}
		}
		d, err = api.ShowUpstream.Call(ctx, at.Client, control.UpstreamOf{Upstream: before.Number, User: c.User})
		switch {
		case err != nil:
			return d, err
		case d.SignIn == nil || before.SignIn == nil:
			return d, msgSignInOver.Errorf(before.Slug, c.retryFlags())
		case !d.SignIn.Since.Equal(before.SignIn.Since) && d.SignIn.SignedIn:
			return d, nil
		case !d.SignIn.Pending && wrong != nil:
			return d, wrong
		case !d.SignIn.Pending:
			return d, msgSignInOver.Errorf(before.Slug, c.retryFlags())
		case wrong != nil:
			_ = sh.fail(wrong)
			fmt.Fprintln(sh.stderr, msgPasteAgain.In(sh.lang))
		}
	}
}

// wait waits a moment for a line that is pasted. At the end of the input it only waits.
func (c *upstreamSignInCmd) wait(ctx context.Context, sh *shell, ended *bool) (line string, err error) {
	if *ended {
		return "", netx.Wait(ctx, signInPoll)
	}
	limited, cancel := context.WithTimeout(ctx, signInPoll)
	defer cancel()
	line, err = sh.readLine(limited)
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, io.EOF):
		*ended = true
	case err != nil && limited.Err() == nil:
		return "", err
	}
	return strings.TrimSpace(line), nil
}
