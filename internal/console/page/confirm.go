package page

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/account"
)

// pendingMost bounds a form that waits for the password, in bytes: it goes to the
// browser and back.
const pendingMost = 64 << 10

// Confirmation is what the page has that asks for the password once more.
type Confirmation struct {
	Next    string // where the browser goes then, or if the password is not typed
	Pending string // the form that is carried out then, sealed; empty: none
	Lost    bool   // there was a form, which is not carried out
	Wrong   string // with the password
}

// Confirmed says whether the password was typed a short time ago. If not, the browser
// was sent to where it is, and comes back to next; or what was sent with this request
// is carried out after that, as if the page had asked for the password before.
func (v *Visit) Confirmed(next string) bool {
	if v.Who.Fresh(time.Now()) {
		return true
	}
	if v.Method != http.MethodPost {
		v.To(confirmPath(next, false))
		return false
	}
	form, ok := v.sent()
	if !ok {
		v.To(confirmPath(next, true))
		return false
	}
	sealed, err := v.House.Accounts.Hold(v.Who, account.Pending{Path: v.URL.RequestURI(), Form: form})
	if err != nil {
		v.Fail(err)
		return false
	}
	v.AskPassword(http.StatusOK, Confirmation{Next: next, Pending: sealed})
	return false
}

// confirmPath is the page that asks for the password and leads on to next.
func confirmPath(next string, lost bool) string {
	q := url.Values{"next": {next}}
	if lost {
		q.Set("lost", "yes")
	}
	return "/confirm?" + q.Encode()
}

// sent is the form of a request. It is false for what does not wait for the password:
// files, and what is too large.
func (v *Visit) sent() (form string, ok bool) {
	if kind, _, err := mime.ParseMediaType(v.Header.Get("Content-Type")); err == nil && kind == "multipart/form-data" {
		// A browser does not hear an answer before it has sent everything.
		io.Copy(io.Discard, http.MaxBytesReader(v.W, v.Body, fileMost)) //nolint:errcheck // it is of no use
		return "", false
	}
	if v.ParseForm() != nil {
		return "", false
	}
	form = v.PostForm.Encode()
	return form, len(form) <= pendingMost
}

// fileMost bounds what is read of a file that is not wanted, in bytes. The browser of
// who sends more is told nothing but that the connection is gone.
const fileMost = 256 << 20

// AskPassword asks for the password. A script that wanted a part of a page gets the
// whole one.
func (v *Visit) AskPassword(status int, c Confirmation) {
	if v.Partial() {
		v.W.Header().Set("HX-Retarget", "body")
		v.W.Header().Set("HX-Reswap", "outerHTML")
	}
	v.Show(status, confirmPage(v, c))
}

// Resume carries out a form that waited for the password, as whoever has signed in with
// token. What it answers is the answer to this request.
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
	r.Header.Del("HX-Request") // the browser shows whatever comes as a page
	r.Header.Del("Cookie")
	for _, c := range v.Cookies() {
		if c.Name == v.tokenCookie() {
			c.Value = token
		}
		r.AddCookie(c)
	}
	v.House.mux.ServeHTTP(v.W, r)
}
