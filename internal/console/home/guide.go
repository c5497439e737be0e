package home

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/talk"
)

// way is a road of the guide.
type way struct {
	name        string
	title, told talk.Say
	icon        string // the path of a drawing of 24 by 24
	// waits says for what the light waits.
	waits talk.Say
}

var ways = []way{
	{control.RoadGlasses, sayGlasses, sayGlassesTold, "M3 9h7v5H3zM14 9h7v5h-7zM10 10.5h4", sayGlassesWait},
	{control.RoadBoard, sayBoard, sayBoardTold, "M8 4h8v10H8zM5 11a7 7 0 0 0 14 0M12 18v3", sayBoardWait},
	{control.RoadAgent, sayAgent, sayAgentTold, "M6 8h12v11H6zM12 4v4M9.5 13h.01M14.5 13h.01", sayAgentWait},
}

// guide leads to the roads.
func guide(v *page.Visit) {
	signs := make([]control.Sign, len(ways))
	for i, w := range ways {
		var err error
		if signs[i], err = v.House.Control.Sign(v.Context(), v.Caller(), control.RoadRef{Road: w.name}); err != nil {
			v.Fail(err)
			return
		}
	}
	v.Show(http.StatusOK, guidePage(v, signs))
}

func wayOf(v *page.Visit) (way, bool) {
	i := slices.IndexFunc(ways, func(w way) bool { return w.name == v.PathValue("road") })
	if i < 0 {
		v.Missing()
		return way{}, false
	}
	return ways[i], true
}

// road shows the steps of one.
func road(v *page.Visit) {
	w, ok := wayOf(v)
	if !ok {
		return
	}
	sign, err := v.House.Control.Sign(v.Context(), v.Caller(), control.RoadRef{Road: w.name})
	if err != nil {
		v.Fail(err)
		return
	}
	bots, err := v.House.Control.Bots(v.Context(), v.Caller(), struct{}{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, roadPage(v, w, bots.Bots, sign))
}

// roadLive turns on the light at the end of a road. Nobody tells of turns that came, so it
// looks.
func roadLive(v *page.Visit) {
	w, ok := wayOf(v)
	if !ok {
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		tick := time.NewTicker(signEvery)
		defer tick.Stop()
		shown := changing{send: send}
		for {
			sign, err := v.House.Control.Sign(ctx, v.Caller(), control.RoadRef{Road: w.name})
			if err != nil {
				return err
			}
			if err := shown.now(signPart(v, w, sign), signNow(v, w, sign)); err != nil {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// local says whether nothing but this machine can reach the address by which the browser
// came.
func local(v *page.Visit) bool {
	u, err := url.Parse(v.Origin())
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// hostPort are the parts of the address for programs that want them apart.
func hostPort(v *page.Visit) (host, port string, secure bool) {
	u, err := url.Parse(v.Origin())
	if err != nil {
		return v.Host, "443", true
	}
	host, port, secure = u.Hostname(), u.Port(), u.Scheme == "https"
	switch {
	case port != "":
	case secure:
		port = "443"
	default:
		port = "80"
	}
	return host, port, secure
}

// nodeCommand is what starts OpenClaw's node host.
func nodeCommand(v *page.Visit) string {
	host, port, secure := hostPort(v)
	text := "OPENCLAW_GATEWAY_TOKEN=KEY openclaw node run --host " + host + " --port " + port
	if secure {
		text += " --tls"
	}
	return text
}

// pluginCommands are what the EyeClaw plugin needs on its computer, but for what only the
// page of a new bot can say.
func pluginCommands(v *page.Visit) string {
	return strings.Join([]string{
		"openclaw plugins install @eyeclaw/eyeclaw",
		"openclaw config set plugins.entries.eyeclaw.config.serverUrl " + v.Origin(),
		"openclaw config set gateway.http.endpoints.chatCompletions.enabled true",
	}, "\n")
}

// signSay is a sign of life in words.
func signSay(v *page.Visit, w way, s control.Sign) string {
	switch s.Kind {
	case control.SignTurn:
		if w.name == control.RoadGlasses {
			return v.Say(sayCameQuestion, s.Name)
		}
		return v.Say(sayCameAnswer, s.Name)
	case control.SignKey:
		return v.Say(sayCameKey, s.Name)
	case control.SignDevice:
		return v.Say(sayCameDevice, s.Name)
	case control.SignCode:
		return v.Say(sayCameCode)
	case control.SignBot:
		return v.Say(sayCameBot, s.Name)
	case control.SignNode:
		return v.Say(sayCameNode, s.Name)
	}
	return v.Say(w.waits)
}
