package bot

import (
	"strings"
	"testing"

	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/talk"
)

// A gateway with a certificate of its own is refused, until its fingerprint is set, and again when
// it has another one.
func TestCertificate(t *testing.T) {
	h := newFakeGateway(t, clienttest.Options{TLS: true}, Options{}, nil)
	refused := func(words string, want client.Certificate, code client.Problem) {
		t.Helper()
		a := begin(t, h.bot, said("lingzhu:1:2", "hello"))
		err := a.end()
		f := talk.AsFailure(err)
		if f == nil || f.Code != talk.Offline || f.Told != words || !strings.Contains(f.Cause, want.Shown) {
			t.Errorf("%v", err)
		}
		s, ok := h.bots.Status(storeBot.Number)
		if !ok || s.Connected || s.Code != code || s.Certificate == nil || *s.Certificate != want ||
			s.Problem.IsZero() || s.Command != "" {
			t.Errorf("%+v", s)
		}
	}
	pin := func(fingerprint string) {
		t.Helper()
		var err error
		if h.bot, err = h.bots.Build(storeBot, Settings{URL: h.gate.URL, Token: clienttest.Token,
			TLSFingerprint: fingerprint}); err != nil {
			t.Fatal(err)
		}
	}
	first := h.gate.Fingerprint()
	refused(string(msgCert), client.Certificate{Shown: first}, client.Untrusted)
	if n := len(h.gate.Attempts()); n != 0 {
		t.Errorf("%d connects were sent to it", n)
	}
	pin("sha256:" + strings.ToUpper(first))
	c := h.ask(said("lingzhu:1:2", "hello"))
	if s, _ := h.bots.Status(storeBot.Number); !s.Connected || s.Code != "" || s.Certificate != nil {
		t.Errorf("%+v", s)
	}
	c.delta("Here", "Here")
	c.final("Here")
	if err := c.end(); err != nil {
		t.Error(err)
	}

	h.gate.Renew()
	before := len(h.gate.Attempts())
	c.peer.Cut()
	refused(string(msgNewCert), client.Certificate{Shown: h.gate.Fingerprint(), Pinned: first}, client.Changed)
	if n := len(h.gate.Attempts()); n != before {
		t.Errorf("%d connects were sent to it", n-before)
	}
	pin(h.gate.Fingerprint())
	c = h.ask(said("lingzhu:1:2", "hello"))
	c.final("Here again")
	if err := c.end(); err != nil {
		t.Error(err)
	}
	if _, err := h.bots.Build(storeBot, Settings{URL: h.gate.URL, TLSFingerprint: "x"}); err == nil ||
		!strings.Contains(err.Error(), "tls_fingerprint") {
		t.Errorf("%v", err)
	}
}
