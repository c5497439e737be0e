package tools

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/problem"
)

// refreshInterval is how often an open page reads the state of connections.
const refreshInterval = 2 * time.Second

// upstreamRows is one page of servers.
type upstreamRows struct {
	Rows  []control.Upstream
	After int64
	More  bool
}

func loadUpstreams(ctx context.Context, v *page.Visit) (l upstreamRows, err error) {
	l.After, _ = strconv.ParseInt(v.URL.Query().Get("after"), 10, 64)
	l.Rows, l.More, err = v.Instance.Control.UpstreamsOf(ctx, v.Caller(), l.After, pageSize, control.KindServer,
		control.KindDialsIn, control.KindCloud)
	return l, err
}

func upstreams(v *page.Visit) {
	l, err := loadUpstreams(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, upstreamsPage(v, &l))
}

func upstreamsLive(v *page.Visit) {
	v.LiveRefresh(refreshInterval, func(ctx context.Context, send page.SendPart) error {
		l, err := loadUpstreams(ctx, v)
		if err != nil {
			return err
		}
		return send("#upstreams", upstreamList(v, &l))
	})
}

func upstreamURL(id int64) string { return "/tools/upstreams/" + strconv.FormatInt(id, 10) }

// findUpstream returns the server that the path names.
func findUpstream(ctx context.Context, v *page.Visit) (d control.UpstreamDetail, err error) {
	id, err := strconv.ParseInt(v.PathValue("upstream"), 10, 64)
	if err != nil {
		return d, problem.New(problem.NotFound, msgNoServer)
	}
	d, err = v.Instance.Control.ShowUpstream(ctx, v.Caller(), control.UpstreamOf{Upstream: id})
	if err == nil && d.Kind == control.KindShim {
		err = problem.New(problem.NotFound, msgNoServer)
	}
	return d, err
}

func upstreamPage(v *page.Visit) {
	d, err := findUpstream(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	showUpstream(v, &d, "")
}

func upstreamLive(v *page.Visit) {
	v.LiveRefresh(refreshInterval, func(ctx context.Context, send page.SendPart) error {
		d, err := findUpstream(ctx, v)
		if err != nil {
			return err
		}
		if err := send("#health", health(v, &d)); err != nil {
			return err
		}
		return send("#signin", signIn(v, &d))
	})
}

// rotateUpstream creates a new token, which only this response shows.
func rotateUpstream(v *page.Visit) {
	d, err := findUpstream(v.Context(), v)
	var r control.RotatedUpstream
	if err == nil {
		r, err = v.Instance.Control.RotateUpstream(v.Context(), v.Caller(), control.UpstreamRef{Upstream: d.Number})
	}
	if err != nil {
		v.Fail(err)
		return
	}
	showUpstream(v, &d, r.Token)
}

func removeUpstream(v *page.Visit) {
	d, err := findUpstream(v.Context(), v)
	if err == nil {
		_, err = v.Instance.Control.RemoveUpstream(v.Context(), v.Caller(), control.UpstreamRef{Upstream: d.Number})
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/tools/upstreams")
}

// connectionLight returns the status light of a server's connection and its text.
func connectionLight(v *page.Visit, u *control.Upstream) (page.State, string) {
	switch u.State {
	case control.UpstreamReady:
		return page.On, v.Text(msgReady)
	case control.UpstreamConnecting:
		return page.Wait, v.Text(msgConnecting)
	case control.UpstreamWaiting:
		if u.Kind == control.KindDialsIn {
			return page.Wait, v.Text(msgAwaited)
		}
		return page.Wait, v.Text(msgTriesAgain)
	case control.UpstreamFailed, control.UpstreamUnapproved:
		return page.Off, v.Text(msgNeedsAction)
	case control.UpstreamIdle:
		return page.On, v.Text(msgResting)
	case control.UpstreamElsewhere:
		return page.On, v.Text(msgElsewhere)
	}
	return page.Wait, v.Text(msgUnknown)
}

// kindWords returns the name of an upstream's kind.
func kindWords(v *page.Visit, u *control.Upstream) string {
	switch {
	case u.Kind == control.KindDialsIn:
		return v.Text(msgKindEndpoint)
	case u.Kind == control.KindCloud:
		return v.Text(msgKindCloud)
	case u.Transport == byAPI:
		return v.Text(msgKindAPI)
	case u.Transport == "stdio":
		return v.Text(msgKindCommand)
	}
	return v.Text(msgKindURL)
}
