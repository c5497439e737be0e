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
	"patchbay/internal/talk"
)

// probeLimit is the timeout of a probe.
const probeLimit = 5 * time.Second

var (
	sayCheckServer  = talk.Say{Zh: "服务", En: "server"}
	sayServing      = talk.Say{Zh: "运行在 %s", En: "runs at %s"}
	sayNotReady     = talk.Say{Zh: "%s 没有就绪：%s", En: "%s is not ready: %s"}
	sayGone         = talk.Say{Zh: "%s 没有应答，进程可能已崩溃", En: "%s does not answer; it may have crashed"}
	sayNotServing   = talk.Say{Zh: "没有运行，%s 空闲", En: "does not run; %s is free"}
	sayCannotListen = talk.Say{Zh: "无法监听 %s：%v", En: "cannot listen on %s: %v"}
	adviceServe     = talk.Say{Zh: "启动：patchbay serve%s", En: "Start it with: patchbay serve%s"}
)

// server checks the server that runs on the data directory, or whether one could run.
func (d *doctor) server(ctx context.Context) {
	at, err := app.FindRunning(d.settings.Data)
	switch {
	case errors.Is(err, app.ErrNotRunning):
		d.port()
	case err != nil:
		d.fail(sayCheckServer, d.errorText(err), adviceServe, d.retryFlags)
	default:
		d.ready(ctx, at.URL)
	}
}

// port checks that a server could listen.
func (d *doctor) port() {
	l, err := net.Listen("tcp", d.settings.Listen)
	if err != nil {
		cause, advice := app.ExplainListen("--listen", err)
		d.fail(sayCheckServer, sayCannotListen.In(d.sh.lang, d.settings.Listen, cause), talk.Say{Zh: "%v。", En: "%v."},
			advice)
		return
	}
	l.Close()
	d.warn(sayCheckServer, sayNotServing.In(d.sh.lang, d.settings.Listen), adviceServe, d.retryFlags)
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
		d.fail(sayCheckServer, sayGone.In(d.sh.lang, address), adviceServe, d.retryFlags)
	case !answer.Ready:
		d.fail(sayCheckServer, sayNotReady.In(d.sh.lang, address, join(answer.Failing)), adviceLook)
	default:
		d.ok(sayCheckServer, sayServing, address)
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
		return talk.Say{Zh: "不是 Patchbay 的回答（%s）", En: "no answer of Patchbay (%s)"}.Wrong(resp.Status)
	}
	return nil
}

var (
	sayCheckPublic   = talk.Say{Zh: "公网地址", En: "public_url"}
	sayPublicUnset   = talk.Say{Zh: "未设置", En: "is not set"}
	sayPublicPrivate = talk.Say{Zh: "%s 只在本机或内网可达", En: "%s is an address of this machine or network only"}
	sayPublicPlain   = talk.Say{Zh: "%s 未加密", En: "%s is not encrypted"}
	sayPublicAway    = talk.Say{Zh: "从本机访问 %s 失败：%s", En: "%s cannot be reached from here: %s"}
	sayPublicGood    = talk.Say{Zh: "%s 有应答", En: "%s answers"}
	advicePublic     = talk.Say{Zh: "眼镜的平台从外网访问：请设置一个能到达本服务的 https 地址。",
		En: "The platform of the glasses calls from outside: set an https address that leads here."}
	adviceAway = talk.Say{Zh: "从外网试一试；有的路由器不允许从内网访问自己的公网地址。",
		En: "Try it from outside; some routers do not lead back in."}
)

// publicURL checks that the public URL leads to the server, as far as that can be tested from
// inside.
func (d *doctor) publicURL(ctx context.Context) {
	address := d.settings.PublicURL
	if address == "" {
		d.warn(sayCheckPublic, sayPublicUnset.In(d.sh.lang), advicePublic)
		return
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		d.fail(sayCheckPublic, d.errorText(err), advicePublic)
		return
	case isPrivate(u.Hostname()):
		d.warn(sayCheckPublic, sayPublicPrivate.In(d.sh.lang, address), advicePublic)
		return
	case u.Scheme != "https":
		d.warn(sayCheckPublic, sayPublicPlain.In(d.sh.lang, address), advicePublic)
		return
	}
	if err := probe(ctx, &http.Client{Timeout: probeLimit}, address+"/healthz", &struct{}{}); err != nil {
		d.warn(sayCheckPublic, sayPublicAway.In(d.sh.lang, address, singleLine(d.errorText(err))), adviceAway)
		return
	}
	d.ok(sayCheckPublic, sayPublicGood, address)
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
