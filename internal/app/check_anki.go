package app

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
)

const (
	msgCheckAnki    = i18n.Message("programs for Anki")
	msgAnkiGood     = i18n.Message("%s answers as AnkiConnect")
	msgAnkiConfig   = i18n.Message("%s is set (learn.anki_listen); no server runs")
	msgAnkiSilent   = i18n.Message("%s does not answer as AnkiConnect: %s")
	msgAnkiOpen     = i18n.Message("%s can be reached by other machines without encryption, and so can the keys that are sent there")
	msgAnkiOther    = i18n.Message("another program answers")
	adviceAnki      = i18n.Message("Quit Anki, which may use the port, and start the server again; or give learn.anki_listen another port.")
	adviceAnkiLocal = i18n.Message("Set learn.anki_listen to 127.0.0.1:8765; other machines use /anki of the server, by https.")
)

// checkAnki checks the port for programs for Anki, if there is one.
func (e *examination) checkAnki(ctx context.Context) {
	address := e.settings.Learn.AnkiListen
	if address == "" {
		return
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return // the check of the settings reports it
	}
	at := host
	ip, err := netip.ParseAddr(host)
	if host == "" || err == nil && ip.IsUnspecified() {
		at = "127.0.0.1"
	}
	url := "http://" + net.JoinHostPort(at, port)
	switch {
	case !e.isRunning():
		e.OK(msgCheckAnki.With(), msgAnkiConfig.With(url))
		return
	case !netx.IsLoopback(host):
		e.Warn(msgCheckAnki.With(), msgAnkiOpen.With(url), adviceAnkiLocal.With())
	}
	if why := asksAnki(ctx, url); why != nil {
		e.Fail(msgCheckAnki.With(), msgAnkiSilent.With(url, why), adviceAnki.With())
		return
	}
	e.OK(msgCheckAnki.With(), msgAnkiGood.With(url))
}

// asksAnki returns why an address does not answer as programs for Anki expect; nil if it does.
func asksAnki(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := (&http.Client{Transport: LocalTransport(), Timeout: probeTimeout}).Do(req)
	if err != nil {
		return Explain(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 100))
	if err != nil {
		return err
	}
	if !strings.HasPrefix(string(text), "AnkiConnect") || resp.Header.Get("X-Request-Id") == "" {
		return msgAnkiOther.Errorf()
	}
	return nil
}
