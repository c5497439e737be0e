package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
)

// probeLimit is the timeout of a probe.
const probeLimit = 5 * time.Second

const (
	msgCheckServer  = i18n.Message("server")
	msgServing      = i18n.Message("runs at %s")
	msgNotReady     = i18n.Message("%s is not ready: %s")
	msgGone         = i18n.Message("%s does not answer; it may have crashed")
	msgNotServing   = i18n.Message("does not run; %s is free")
	msgCannotListen = i18n.Message("cannot listen on %s: %v")
	adviceServe     = i18n.Message("Start it with: patchbay serve%s")
)

// server checks the server that runs on the data directory, or whether one could run.
func (d *doctor) server(ctx context.Context) {
	at, err := app.FindRunning(d.settings.Data)
	switch {
	case errors.Is(err, app.ErrNotRunning):
		d.port()
	case err != nil:
		d.fail(msgCheckServer.With(), d.errorText(err), adviceServe, d.retryFlags)
	default:
		d.ready(ctx, at.URL)
	}
}

// port checks that a server could listen.
func (d *doctor) port() {
	l, err := net.Listen("tcp", d.settings.Listen)
	if err != nil {
		cause, advice := app.ExplainListen("--listen", err)
		d.fail(msgCheckServer.With(), msgCannotListen.In(d.sh.lang, d.settings.Listen, cause), i18n.Message("%v."),
			advice)
		return
	}
	l.Close()
	d.warn(msgCheckServer.With(), msgNotServing.In(d.sh.lang, d.settings.Listen), adviceServe, d.retryFlags)
}

// ready checks that a running server is ready.
func (d *doctor) ready(ctx context.Context, address string) {
	var answer struct {
		Ready   bool     `json:"ready"`
		Failing []string `json:"failing"`
	}
	client := &http.Client{Timeout: probeLimit, Transport: localTransport()}
	err := probe(ctx, client, address+"/readyz", &answer)
	switch {
	case err != nil:
		d.fail(msgCheckServer.With(), msgGone.In(d.sh.lang, address), adviceServe, d.retryFlags)
	case !answer.Ready:
		d.fail(msgCheckServer.With(), msgNotReady.In(d.sh.lang, address, join(answer.Failing)), adviceLook)
	default:
		d.ok(msgCheckServer.With(), msgServing, address)
	}
}

// probe fetches a small JSON document.
func probe(ctx context.Context, client *http.Client, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return unwrapURL(err)
	}
	defer resp.Body.Close()
	const maxProbe = 64 << 10
	if json.NewDecoder(io.LimitReader(resp.Body, maxProbe)).Decode(into) != nil {
		return i18n.Message("no answer of Patchbay (%s)").Errorf(resp.Status)
	}
	return nil
}

const (
	msgCheckPublic   = i18n.Message("public_url")
	msgPublicUnset   = i18n.Message("is not set")
	msgPublicPrivate = i18n.Message("%s is an address of this machine or network only")
	msgPublicPlain   = i18n.Message("%s is not encrypted")
	msgPublicAway    = i18n.Message("%s cannot be reached from here: %s")
	msgPublicGood    = i18n.Message("server\x04%s answers")
	advicePublic     = i18n.Message("The platform of the glasses calls from outside: set an https address that leads here.")
	adviceAway       = i18n.Message("Try it from outside; some routers do not lead back in.")
)

// publicURL checks that the public URL leads to the server, as far as that can be tested from
// inside.
func (d *doctor) publicURL(ctx context.Context) {
	address := d.settings.PublicURL
	if address == "" {
		d.warn(msgCheckPublic.With(), msgPublicUnset.In(d.sh.lang), advicePublic)
		return
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		d.fail(msgCheckPublic.With(), d.errorText(err), advicePublic)
		return
	case isPrivate(u.Hostname()):
		d.warn(msgCheckPublic.With(), msgPublicPrivate.In(d.sh.lang, address), advicePublic)
		return
	case u.Scheme != "https":
		d.warn(msgCheckPublic.With(), msgPublicPlain.In(d.sh.lang, address), advicePublic)
		return
	}
	if err := probe(ctx, &http.Client{Timeout: probeLimit}, address+"/healthz", &struct{}{}); err != nil {
		d.warn(msgCheckPublic.With(), msgPublicAway.In(d.sh.lang, address, singleLine(d.errorText(err))), adviceAway)
		return
	}
	d.ok(msgCheckPublic.With(), msgPublicGood, address)
}

// isPrivate reports whether a host cannot be reached from the internet.
func isPrivate(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsUnspecified()
	}
	host = strings.ToLower(host)
	return host == "localhost" || !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") ||
		strings.HasSuffix(host, ".local")
}
