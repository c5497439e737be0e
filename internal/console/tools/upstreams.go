package tools

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// lookEvery is how often an open page looks how connections are.
const lookEvery = 2 * time.Second

// listed is a page of servers.
type listed struct {
	Rows  []control.Upstream
	After int64
	More  bool
}

func servers(ctx context.Context, v *page.Visit) (l listed, err error) {
	l.After, _ = strconv.ParseInt(v.URL.Query().Get("after"), 10, 64)
	l.Rows, l.More, err = v.House.Control.UpstreamsOf(ctx, v.Caller(), l.After, pageSize, control.KindServer, control.KindDialsIn, control.KindCloud)
	return l, err
}

func upstreams(v *page.Visit) {
	l, err := servers(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, upstreamsPage(v, &l))
}

func upstreamsLive(v *page.Visit) {
	v.Keep(lookEvery, func(ctx context.Context, send page.Parts) error {
		l, err := servers(ctx, v)
		if err != nil {
			return err
		}
		return send("#upstreams", upstreamList(v, &l))
	})
}

func upstreamURL(id int64) string { return "/tools/upstreams/" + strconv.FormatInt(id, 10) }

// theUpstream finds the server that a page is about.
func theUpstream(ctx context.Context, v *page.Visit) (d control.UpstreamDetail, err error) {
	id, err := strconv.ParseInt(v.PathValue("upstream"), 10, 64)
	if err != nil {
		return d, control.Fail(control.Missing, sayNoServer)
	}
	d, err = v.House.Control.ShowUpstream(ctx, v.Caller(), control.UpstreamRef{Upstream: id})
	if err == nil && d.Kind == control.KindShim {
		err = control.Fail(control.Missing, sayNoServer)
	}
	return d, err
}

func upstreamPage(v *page.Visit) {
	d, err := theUpstream(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, upstreamView(v, &d, ""))
}

func upstreamLive(v *page.Visit) {
	v.Keep(lookEvery, func(ctx context.Context, send page.Parts) error {
		d, err := theUpstream(ctx, v)
		if err != nil {
			return err
		}
		return send("#health", health(v, &d))
	})
}

// rotateUpstream makes a new token, which is shown by this answer alone.
func rotateUpstream(v *page.Visit) {
	d, err := theUpstream(v.Context(), v)
	var r control.RotatedUpstream
	if err == nil {
		r, err = v.House.Control.RotateUpstream(v.Context(), v.Caller(), control.UpstreamRef{Upstream: d.Number})
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, upstreamView(v, &d, r.Token))
}

func removeUpstream(v *page.Visit) {
	d, err := theUpstream(v.Context(), v)
	if err == nil {
		_, err = v.House.Control.RemoveUpstream(v.Context(), v.Caller(), control.UpstreamRef{Upstream: d.Number})
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.To("/tools/upstreams")
}

// connectionLight is how the connection of a server is, as a light.
func connectionLight(v *page.Visit, u *control.Upstream) (page.State, string) {
	switch u.State {
	case control.UpstreamReady:
		return page.On, v.Say(sayReady)
	case control.UpstreamConnecting:
		return page.Wait, v.Say(sayConnecting)
	case control.UpstreamWaiting:
		if u.Kind == control.KindDialsIn {
			return page.Wait, v.Say(sayAwaited)
		}
		return page.Wait, v.Say(sayTriesAgain)
	case control.UpstreamFailed:
		return page.Off, v.Say(sayTrouble)
	case control.UpstreamElsewhere:
		return page.On, v.Say(sayElsewhere)
	}
	return page.Wait, v.Say(sayUnknown)
}

// kindWords is what an upstream is, in words.
func kindWords(v *page.Visit, u *control.Upstream) string {
	switch {
	case u.Kind == control.KindDialsIn:
		return v.Say(sayKindEndpoint)
	case u.Kind == control.KindCloud:
		return v.Say(sayKindCloud)
	case u.Transport == "stdio":
		return v.Say(sayKindCommand)
	}
	return v.Say(sayKindURL)
}
