package upstream

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/tool"
)

// fakeTokens are the tokens of a sign-in that a test ends.
type fakeTokens struct {
	mu  sync.Mutex
	err error
}

func (f *fakeTokens) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *fakeTokens) Token(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return "token", f.err
}

func (f *fakeTokens) Refused(context.Context, Refusal) (string, error) { return "", nil }
func (f *fakeTokens) Redact(text string) string                        { return text }
func (f *fakeTokens) Reload()                                          {}

// A sign-in that ends also ends the connection. Then the server is left alone until its owner has
// signed in again, which connects at once.
func TestSignInEnds(t *testing.T) {
	var requests atomic.Int32
	peer := streamableServer(newPeer(), nil)
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		peer.ServeHTTP(w, r)
	}))
	times := fastTimings()
	times.maxAuthBackoff = time.Hour
	r := newRig(t, Settings{URL: srv.URL}, times)
	tokens := &fakeTokens{}
	r.m.opt.Tokens = func(Spec) Tokens { return tokens }
	r.ready()

	tokens.set(&SignInError{Message: i18n.Message("It has ended.").With(), Told: "needs its owner"})
	r.spec.SignIns++
	r.m.Set([]Spec{r.spec})
	st := r.state(Failed)
	if st.Err == nil || st.Err.SignIn == nil || time.Until(st.NextTry) < 50*time.Minute {
		t.Errorf("after the sign-in has ended: %+v, %v", st, st.Err)
	}
	before := requests.Load()
	r.fails(tool.Offline, "echo", "{}")
	if _, err := Check(t.Context(), r.spec, r.m.opt); err == nil || requests.Load() != before {
		t.Errorf("%d requests were sent without a sign-in, %v", requests.Load()-before, err)
	}

	tokens.set(nil)
	r.spec.SignIns++
	r.m.Set([]Spec{r.spec})
	r.state(Ready)
}
