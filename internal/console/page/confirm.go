package page

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
)

// maxPendingForm is the maximum size in bytes of a form that waits for the password: it travels to
// the browser and back.
const maxPendingForm = 64 << 10

// Confirmation holds what the page shows that asks for the password again.
type Confirmation struct {
	Next    string // where the browser goes afterwards, or if the password is not entered
	Pending string // sealed form that is submitted afterwards; empty means none
	Lost    bool   // a form was sent that will not be submitted
	Wrong   string // error about the password

	// provider is the name of the OpenID provider at which the person can prove who they are, or
	// empty. passwordless means that they have no password, or none that is good.
	provider     string
	passwordless bool
	code, app    bool // a code is needed too, which an app may show
}

// RequireConfirmation reports whether the password was entered recently. If not, it has responded
// with the page that asks for the password. That page leads back to next, or submits the form of
// this request afterwards, as if the password had been asked for first.
func (v *Visit) RequireConfirmation(next string) bool {
	if v.Session.Fresh(time.Now()) {
		return true
	}
	if v.Method != http.MethodPost {
		v.Redirect(confirmPath(next, false))
		return false
	}
	form, ok := v.pendingForm()
	if !ok {
		v.Redirect(confirmPath(next, true))
		return false
	}
	sealed, err := v.Instance.Accounts.Hold(v.Session, account.Pending{Path: v.URL.RequestURI(), Form: form})
	if err != nil {
		v.Fail(err)
		return false
	}
	v.AskPassword(http.StatusOK, Confirmation{Next: next, Pending: sealed})
	return false
}

// confirmPath returns the URL of the page that asks for the password and then leads to next.
func confirmPath(next string, lost bool) string {
	q := url.Values{"next": {next}}
	if lost {
		q.Set("lost", "yes")
	}
	return "/confirm?" + q.Encode()
}

// pendingForm returns the form of a request. It returns false for requests that cannot wait for the
// password: those with files, and those that are too large.
func (v *Visit) pendingForm() (form string, ok bool) {
	if kind, _, err := mime.ParseMediaType(v.Header.Get("Content-Type")); err == nil && kind == "multipart/form-data" {
		// A browser does not read the response before it has sent the whole request.
		io.Copy(io.Discard, http.MaxBytesReader(v.W, v.Body, maxDiscardedFile)) //nolint:errcheck // the content is not used
		return "", false
	}
	if v.ParseForm() != nil {
		return "", false
	}
	form = v.PostForm.Encode()
	return form, len(form) <= maxPendingForm
}

// maxDiscardedFile is how many bytes of an unwanted file are read. A browser that sends more only
// sees the connection close.
const maxDiscardedFile = 256 << 20

// AskPassword shows the page that asks for the password. A script that requested a part of a page
// gets the whole page.
func (v *Visit) AskPassword(status int, c Confirmation) {
	if v.IsPartial() {
		v.W.Header().Set("HX-Retarget", "body")
		v.W.Header().Set("HX-Reswap", "outerHTML")
	}
	if p := v.Instance.Control.OIDC; p != nil {
		linked, err := v.Instance.Accounts.IsLinked(v.Context(), v.Session.Person.ID, p.Issuer)
		if err != nil {
			v.Fail(err)
			return
		}
		if linked {
			c.provider, c.passwordless = p.Name, p.Only || v.Session.Person.Password == ""
		}
	}
	steps, err := v.Instance.Accounts.SecondSteps(v.Context(), v.Session.Person.ID)
	if err != nil {
		v.Fail(err)
		return
	}
	c.code, c.app = steps.Any(), steps.App
	v.Render(status, confirmPage(v, c))
}

// confirmText chooses between a text for those who have a password, and for others.
func confirmText(c Confirmation, password, other i18n.Message) i18n.Message {
	if c.passwordless {
		return other
	}
	return password
}

// Resume submits a form that waited for the password, with the session of token. Its response is
// the response to this request.
func (v *Visit) Resume(p account.Pending, token string) {
	to, err := url.ParseRequestURI(p.Path)
	if err != nil {
		v.Fail(err)
		return
	}
	r := v.Request.Clone(v.Context())
	r.Method, r.URL, r.RequestURI = http.MethodPost, to, p.Path
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(p.Form)), int64(len(p.Form))
	r.Form, r.PostForm, r.MultipartForm = nil, nil, nil
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Del("HX-Request") // the browser shows the response as a page of its own
	r.Header.Del("Cookie")
	for _, c := range v.Cookies() {
		if c.Name == v.tokenCookie() {
			c.Value = token
		}
		r.AddCookie(c)
	}
	v.Instance.mux.ServeHTTP(v.W, r)
}
