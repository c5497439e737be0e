package shim

import (
	"strings"
	"testing"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/client"
	"patchbay/internal/plug/openclaw/client/clienttest"
)

// Devices join a gateway with a certificate of its own once its fingerprint is set, and not a
// gateway that has another one.
func TestCertificate(t *testing.T) {
	g := clienttest.Start(t, clienttest.Options{TLS: true})
	m := newManager(t, newFakeSource(speaker(1)), nil)
	s := spec(g)
	m.Set([]Spec{s})
	first := g.Fingerprint()
	st := await(t, m, "board:1", Untrusted)
	if st.Code != client.Untrusted || st.Certificate == nil || *st.Certificate != (client.Certificate{Shown: first}) ||
		!strings.Contains(st.Message.In(i18n.English), first) || st.Command != "" {
		t.Errorf("%+v", st)
	}
	s.Pin, s.Version = first, 2
	m.Set([]Spec{s})
	p := g.Peer()
	approve(t, p)
	if st := await(t, m, "board:1", Ready); st.Code != "" || st.Certificate != nil {
		t.Errorf("%+v", st)
	}
	g.Renew()
	p.Cut()
	st = await(t, m, "board:1", Changed)
	text := st.Message.In(i18n.English)
	if st.Code != client.Changed || st.Certificate == nil || st.Certificate.Pinned != first ||
		st.Certificate.Shown != g.Fingerprint() || !strings.Contains(text, first) ||
		!strings.Contains(text, g.Fingerprint()) {
		t.Errorf("%+v", st)
	}
	if n := len(g.Attempts()); n != 1 {
		t.Errorf("%d connects were sent", n)
	}
	s.Pin, s.Version = g.Fingerprint(), 3
	m.Set([]Spec{s})
	approve(t, g.Peer())
	await(t, m, "board:1", Ready)
}
