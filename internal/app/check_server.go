package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/bus"
	"patchbay/internal/check"
	"patchbay/internal/config"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/oauth"
)

// ConnectRunning returns a client for the server that runs on a data folder, or nil if none
// responds there.
func ConnectRunning(ctx context.Context, c *config.Config, lang i18n.Lang) (*api.Client, error) {
	at, err := FindRunning(c.Data)
	if errors.Is(err, ErrNotRunning) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := api.NewClient(at.URL, at.Key, lang)
	r.HTTP.Transport = LocalTransport()
	_, err = api.Status.Call(ctx, r, control.Empty{})
	if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, api.ErrUnauthorized) {
		return nil, nil // it crashed, and another program may have its port now
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// LocalTransport connects to a server on this machine by its address, which is not in the server's
// certificate. The key is valid for this server only while it runs, so it does not matter who else
// may listen there.
func LocalTransport() *http.Transport {
	return &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
}

// probeTimeout is the timeout of a request to the server by its addresses.
const probeTimeout = 5 * time.Second

const (
	msgCheckServer  = i18n.Message("server")
	msgServing      = i18n.Message("runs at %s")
	msgNotReady     = i18n.Message("%s is not ready: %s")
	msgGone         = i18n.Message("%s does not answer; it may have crashed")
	msgNotServing   = i18n.Message("does not run; %s is free")
	msgNoListening  = i18n.Message("cannot listen on %s: %v")
	msgAdviceListen = i18n.Message("%v.")
)

// ExamineReady only checks that a server runs on the data folder and is ready. It is for container
// platforms, which ask every few seconds: it opens neither the database nor other connections.
func ExamineReady(ctx context.Context, c *config.Config, r *check.Report) {
	r.Explain = Explain
	if _, err := FindRunning(c.Data); err != nil {
		r.Error(msgCheckServer.With(), err, check.AdviceServe.With(r.Flags))
		return
	}
	e := &examination{Report: r, settings: c}
	e.checkServer(ctx)
}

// checkServer checks the server that runs on the data folder, or whether one could run.
func (e *examination) checkServer(ctx context.Context) {
	name := msgCheckServer.With()
	var err error
	e.running, err = FindRunning(e.settings.Data)
	switch {
	case errors.Is(err, ErrNotRunning):
		e.checkPort()
		return
	case err != nil:
		e.Error(name, err, check.AdviceServe.With(e.Flags))
		return
	}
	var answer struct {
		Ready   bool     `json:"ready"`
		Failing []string `json:"failing"`
	}
	client := &http.Client{Timeout: probeTimeout, Transport: LocalTransport()}
	switch err := fetchJSON(ctx, client, e.running.URL+"/readyz", &answer); {
	case err != nil:
		e.Fail(name, msgGone.With(e.running.URL), check.AdviceServe.With(e.Flags))
	case !answer.Ready:
		e.Fail(name, msgNotReady.With(e.running.URL, strings.Join(answer.Failing, ", ")), check.AdviceLog.With())
	default:
		e.OK(name, msgServing.With(e.running.URL))
	}
}

// checkPort checks that a server could listen.
func (e *examination) checkPort() {
	name := msgCheckServer.With()
	l, err := net.Listen("tcp", e.settings.Listen)
	if err != nil {
		cause, advice := ExplainListen("--listen", err)
		e.Fail(name, msgNoListening.With(e.settings.Listen, cause), msgAdviceListen.With(advice))
		return
	}
	l.Close()
	e.Warn(name, msgNotServing.With(e.settings.Listen), check.AdviceServe.With(e.Flags))
}

// fetchJSON fetches a small JSON document.
func fetchJSON(ctx context.Context, client *http.Client, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	const maxDocument = 64 << 10
	if json.NewDecoder(io.LimitReader(resp.Body, maxDocument)).Decode(into) != nil {
		return i18n.Message("no answer of Patchbay (%s)").Errorf(resp.Status)
	}
	return nil
}

const (
	msgCheckPublic   = i18n.Message("public_url")
	msgPublicUnset   = i18n.Message("is not set")
	msgPublicPrivate = i18n.Message("%s is an address of this machine or network only")
	msgPublicPlain   = i18n.Message("%s is not encrypted")
	msgPublicOther   = i18n.Message("%s leads to another server, or its configuration says another public_url (%q), so programs cannot sign in by OAuth")
	msgPublicAway    = i18n.Message("%s cannot be reached from here: %s")
	msgPublicGood    = i18n.Message("server\x04%s answers")
	advicePublic     = i18n.Message("The platform of the glasses calls from outside: set an https address that leads here.")
)

// checkPublicURL checks that the public URL leads to the server, as far as that can be tested from
// inside.
func (e *examination) checkPublicURL(ctx context.Context) {
	name, address := msgCheckPublic.With(), e.settings.PublicURL
	if address == "" {
		e.Warn(name, msgPublicUnset.With(), advicePublic.With())
		return
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		e.Error(name, err, advicePublic.With())
		return
	case isPrivate(u.Hostname()):
		e.Warn(name, msgPublicPrivate.With(address), advicePublic.With())
		return
	case u.Scheme != "https":
		e.Warn(name, msgPublicPlain.With(address), advicePublic.With())
		return
	}
	if err := fetchJSON(ctx, &http.Client{Timeout: probeTimeout}, address+"/healthz", &struct{}{}); err != nil {
		e.Warn(name, msgPublicAway.With(address, e.Explained(err)), check.AdviceOutside.With())
		return
	}
	var server struct {
		Issuer string `json:"issuer"`
	}
	if err := fetchJSON(ctx, &http.Client{Timeout: probeTimeout}, address+oauth.ServerMetadataPath,
		&server); err != nil || server.Issuer != address {
		e.Warn(name, msgPublicOther.With(address, server.Issuer), advicePublic.With())
		return
	}
	e.OK(name, msgPublicGood.With(address))
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

// consoleAddress returns the address of the console, as far as known, and whether passwords travel
// to it in the clear.
func (e *examination) consoleAddress() (address string, unencrypted bool) {
	c := e.settings
	address = cmp.Or(c.PublicURL, e.running.URL, "http://"+c.Listen)
	host, _, err := net.SplitHostPort(c.Listen)
	ip := net.ParseIP(host)
	here := err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
	return address, !strings.HasPrefix(address, "https:") && !c.ServesTLS() && (!here || c.PublicURL != "")
}

// checkBus checks whether this instance reaches the others.
func (e *examination) checkBus(ctx context.Context) {
	if e.settings.Bus.URL == "" {
		return
	}
	var running *bus.Running
	if e.server != nil {
		if s, err := api.Status.Call(ctx, e.server, control.Empty{}); err == nil {
			running = &bus.Running{Cut: slices.Contains(s.Failing, failingBus), Others: len(s.Others)}
		}
	}
	bus.Check(ctx, e.Report, busOptions(e.base, e.log), running)
}
