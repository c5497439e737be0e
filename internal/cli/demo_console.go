package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgSignIn      = i18n.Message("name %s, password %s")
	msgSignedIn    = i18n.Message("a wrong password is rejected, the right one is accepted")
	msgShows       = i18n.Message("%s displays “%s”")
	msgConsoleNote = i18n.Message("a page takes at most %s; to look around: patchbay serve --demo")
)

const (
	consolePatience = 20 * time.Second // timeout of one page
	consoleLimit    = 4 << 20          // maximum size of a page, in bytes
)

// playConsole signs the owner in to the console with a password, and checks that its pages show the
// results of the demo.
func playConsole(ctx context.Context, st *demoRun) error {
	b, password, err := st.browser(ctx)
	if err != nil {
		return err
	}
	defer b.http.CloseIdleConnections()
	st.line("⇢", st.url+"/  "+msgSignIn.In(st.sh.lang, st.person.Name, password))
	if err := b.signIn(ctx, "not "+password); err == nil {
		return errors.New("a wrong password is let in")
	}
	st.line("⇠", msgSignedIn.In(st.sh.lang))
	for _, p := range []struct{ path, what string }{
		{"/bots", msgLobster.In(st.sh.lang)}, {"/devices", msgKitchen.In(st.sh.lang)}, {"/activity/calls", toolLamp},
		{"/learn/decks", st.learner.deck.Formulas},
	} {
		if err := b.read(ctx, p.path, p.what); err != nil {
			return err
		}
		st.line("⇠", msgShows.In(st.sh.lang, p.path, p.what))
	}
	st.note = msgConsoleNote.In(st.sh.lang, took(b.slowest))
	return nil
}

// browser returns a browser in which the owner is signed in, and the password, which is set anew.
func (st *demoRun) browser(ctx context.Context) (*demoBrowser, string, error) {
	password := strings.ToLower(rand.Text()[:12])
	if _, err := api.SetPersonPassword.Call(ctx, st.at, control.PersonPassword{
		PersonRef: control.PersonRef{Person: st.person.ID}, Password: password}); err != nil {
		return nil, "", err
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, "", err
	}
	b := &demoBrowser{st: st, http: &http.Client{Jar: jar, Timeout: consolePatience}}
	return b, password, b.signIn(ctx, password)
}

// demoBrowser is a minimal browser.
type demoBrowser struct {
	st      *demoRun
	http    *http.Client
	slowest time.Duration // slowest page
}

// signIn submits the sign-in form and follows the redirect to the first page.
func (b *demoBrowser) signIn(ctx context.Context, password string) error {
	form := url.Values{"name": {b.st.person.Name}, "password": {password}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.st.url+"/signin", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, err = b.do(req)
	return err
}

// read loads a page, which must contain a text.
func (b *demoBrowser) read(ctx context.Context, path, what string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.st.url+path, nil)
	if err != nil {
		return err
	}
	begin := time.Now()
	text, err := b.do(req)
	b.slowest = max(b.slowest, time.Since(begin))
	if err == nil && !strings.Contains(html.UnescapeString(text), what) {
		err = fmt.Errorf("the page %s does not show %q", path, what)
	}
	return err
}

func (b *demoBrowser) do(req *http.Request) (string, error) {
	resp, err := b.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, consoleLimit))
	switch at := resp.Request.URL.Path; {
	case err != nil:
		return "", err
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s is answered %s", at, resp.Status)
	case at == "/signin":
		return "", fmt.Errorf("%s is sent to the sign-in page", req.URL.Path)
	}
	return string(text), nil
}
