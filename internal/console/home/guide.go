package home

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/eyeclaw/connector"
)

// setupPath is one path of the setup guide.
type setupPath struct {
	name        string
	title, told i18n.Message
	icon        string // SVG path of a 24 by 24 drawing
	// waiting says what the light waits for.
	waiting i18n.Message
}

var setupPaths = []setupPath{
	{control.GuideGlasses, msgGlasses, msgGlassesTold, mapIcons[control.MapGlasses], msgGlassesWait},
	{control.GuideBoard, msgBoard, msgBoardTold, mapIcons[control.MapBoard], msgBoardWait},
	{control.GuideAgent, msgAgent, msgAgentTold, mapIcons[control.MapBot], msgAgentWait},
	{control.GuideProgram, msgPrograms, msgProgramsTold, mapIcons[control.MapProgram], msgProgramWait},
}

// botsShown is the number of bots that a setup path offers.
const botsShown = 6

// guide shows the setup paths.
func guide(v *page.Visit) {
	bots, err := v.Instance.Control.BotStates(v.Context(), v.Caller())
	if err != nil {
		v.Fail(err)
		return
	}
	signs := make([]control.LastActivity, len(setupPaths))
	for i, w := range setupPaths {
		if signs[i], err = v.Instance.Control.LastActivity(v.Context(), v.Caller(),
			control.SetupPathRef{Path: w.name}); err != nil {
			v.Fail(err)
			return
		}
	}
	v.Render(http.StatusOK, guidePage(v, bots, signs))
}

func findSetupPath(v *page.Visit) (setupPath, bool) {
	i := slices.IndexFunc(setupPaths, func(w setupPath) bool { return w.name == v.PathValue("path") })
	if i < 0 {
		v.NotFound()
		return setupPath{}, false
	}
	return setupPaths[i], true
}

// setupPage shows the steps of a setup path.
func setupPage(v *page.Visit) {
	w, ok := findSetupPath(v)
	if !ok {
		return
	}
	sign, err := v.Instance.Control.LastActivity(v.Context(), v.Caller(), control.SetupPathRef{Path: w.name})
	if err != nil {
		v.Fail(err)
		return
	}
	bots, err := v.Instance.Control.BotStates(v.Context(), v.Caller())
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, setupPathPage(v, w, bots, sign))
}

// setupLive turns on the light at the end of a setup path. Turns raise no event for that, so it
// polls.
func setupLive(v *page.Visit) {
	w, ok := findSetupPath(v)
	if !ok {
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		tick := time.NewTicker(activityPollInterval)
		defer tick.Stop()
		shown := changedPart{send: send}
		for {
			sign, err := v.Instance.Control.LastActivity(ctx, v.Caller(), control.SetupPathRef{Path: w.name})
			if err != nil {
				return err
			}
			if err := shown.sendIfChanged(activityPart(v, w, sign), activityPatch(v, w, sign)); err != nil {
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

// hostPort returns the parts of the address for programs that need them separately.
func hostPort(v *page.Visit) (host, port string, secure bool) {
	u, err := url.Parse(v.BaseURL())
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

// nodeCommand returns the command that starts OpenClaw's node host.
func nodeCommand(v *page.Visit) string {
	host, port, secure := hostPort(v)
	text := "OPENCLAW_GATEWAY_TOKEN=KEY openclaw node run --host " + host + " --port " + port
	if secure {
		text += " --tls"
	}
	return text
}

// pluginCommands returns the commands that set up our plugin at the computer of OpenClaw; the page
// of a new bot has them with the bot's key.
func pluginCommands(v *page.Visit) string {
	return strings.Join(connector.Commands(v.BaseURL(), "KEY"), "\n")
}

// programAddress is where AI programs connect.
func programAddress(v *page.Visit) string { return v.BaseURL() + "/mcp" }

// claudeCommand and cursorSettings add the server to two widespread programs, which sign in.
func claudeCommand(v *page.Visit) string {
	return "claude mcp add --scope user --transport http patchbay " + programAddress(v)
}

func cursorSettings(v *page.Visit) string {
	return `{"mcpServers": {"patchbay": {"url": "` + programAddress(v) + `"}}}`
}

// lastActivityText describes the last activity of a setup path.
func lastActivityText(v *page.Visit, w setupPath, s control.LastActivity) string {
	switch s.Kind {
	case control.SignTurn:
		if w.name == control.GuideGlasses {
			return v.Text(msgCameQuestion, s.Name)
		}
		return v.Text(msgCameAnswer, s.Name)
	case control.SignKey:
		if w.name == control.GuideProgram {
			return v.Text(msgCameProgram, s.Name)
		}
		return v.Text(msgCameKey, s.Name)
	case control.SignMade:
		return v.Text(msgMadeKey, s.Name)
	case control.SignDevice:
		return v.Text(msgCameDevice, s.Name)
	case control.SignCode:
		return v.Text(msgCameCode)
	case control.SignBot:
		return v.Text(msgCameBot, s.Name)
	case control.SignNode:
		return v.Text(msgCameNode, s.Name)
	}
	return v.Text(w.waiting)
}

// foundInterval is how often an open guide searches again. What somebody starts meanwhile shows up.
const foundInterval = 15 * time.Second

// foundLive fills in what is found while the guide is shown.
func foundLive(v *page.Visit) {
	v.Live(func(ctx context.Context, send page.Send) error {
		shown := changedPart{send: send}
		for {
			found, err := v.Instance.Control.Discover(ctx, v.Operator(), control.Empty{})
			if err != nil {
				return err
			}
			if err := shown.sendIfChanged(foundPart(v, &found), foundPatch(v, &found)); err != nil {
				return err
			}
			if netx.Wait(ctx, foundInterval) != nil {
				return nil
			}
		}
	})
}

// foundURL returns the page that adds a bot for what was found.
func foundURL(d control.Discovery) templ.SafeURL {
	kind, _ := d.BotSettings()
	return templ.SafeURL("/bots/new?" + url.Values{"kind": {kind}, "found": {d.Address}}.Encode())
}

// foundTitle names what was found.
func foundTitle(v *page.Visit, d control.Discovery) string {
	switch {
	case d.Kind == control.FoundWyoming && d.Listens && d.Speaks:
		return v.Text(msgFoundBoth, d.Name)
	case d.Kind == control.FoundWyoming && d.Listens:
		return v.Text(msgFoundListens, d.Name)
	case d.Kind == control.FoundWyoming:
		return v.Text(msgFoundSpeaks, d.Name)
	case d.Kind == control.FoundOpenClaw && d.Network:
		return v.Text(msgFoundGateway, d.Name)
	case d.Kind == control.FoundOpenClaw:
		return v.Text(msgFoundGatewayHere)
	}
	return d.Name
}

// modelsShown is the number of models that are named.
const modelsShown = 3

// foundAbout says more of what was found.
func foundAbout(v *page.Visit, d control.Discovery) string {
	switch {
	case d.Kind == control.FoundModel && len(d.Models) == 0:
		return v.Text(msgFoundNoModels)
	case d.Kind == control.FoundModel:
		return v.Text(msgFoundModels, len(d.Models), strings.Join(d.Models[:min(len(d.Models), modelsShown)], ", "))
	case d.Network:
		return v.Text(msgFoundNetwork)
	}
	return ""
}

// answering returns the bots with an agent or a model: those that the light of the path waits for.
func answering(bots []control.BotStatus) []control.BotStatus {
	return slices.DeleteFunc(slices.Clone(bots), func(b control.BotStatus) bool { return b.Kind == "echo" })
}
