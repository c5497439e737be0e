package console

import (
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"patchbay/internal/plug/mcp/sim"
	"patchbay/internal/plug/mcp/upstream/signin/signintest"
)

// A person adds a tool server that wants a sign-in, signs in from its page, and is led back to it.
func TestToolServerIsSignedInTo(t *testing.T) { everyLook(t, toolServerIsSignedInTo) }

func toolServerIsSignedInTo(t *testing.T, l look) {
	h := l.server(t)
	tools, err := sim.Start()
	must(t, err)
	t.Cleanup(func() { must(t, tools.Close()) })
	to, err := url.Parse(strings.TrimSuffix(tools.URL, "/mcp"))
	must(t, err)
	as := signintest.New(t, httputil.NewSingleHostReverseProxy(to))

	b := h.adaBrowser(l)
	b.Open("/tools/upstreams/new?way=url")
	b.Type("[name=name]", "notion")
	b.Type("[name=url]", as.URL+"/mcp")
	b.Click("form button.main")
	b.WaitVisible("#signin form[action$='/signin'] button.main")
	l.right(t, b)
	b.Click("#signin form[action$='/signin'] button")
	b.WaitVisible("a.button.main[rel=noreferrer]")
	l.right(t, b)
	b.AllowProblem(as.URL)
	b.Click("a.button.main[rel=noreferrer]")
	b.WaitText("h1", "notion")
	b.WaitText("#signin", as.URL)
	b.WaitText("#health", l.in("已连接", "connected"))
	l.right(t, b)
	b.AcceptDialogs()
	b.Click("#signin form[action$='/signout'] button")
	b.WaitVisible("#signin form[action$='/signin'] button.main")
	l.right(t, b)
}
