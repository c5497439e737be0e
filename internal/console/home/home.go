// Package home serves the first page and the setup guide for people who have nothing connected yet.
//
//	home    the overview
//	guide   three setup paths to the first answer, each with a light that turns on at its end
package home

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/console/toolwords"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// Routes returns the pages.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /{$}", Serve: first},
		{Pattern: "GET /home/live", Serve: firstLive},
		{Pattern: "GET /guide", Serve: guide},
		{Pattern: "GET /guide/found", Access: page.Admins, Serve: foundLive},
		{Pattern: "GET /guide/{path}", Serve: setupPage},
		{Pattern: "GET /guide/{path}/live", Serve: setupLive},
	}
}

const (
	// refreshInterval is how often the first page reads what changes without an event: turns,
	// calls, reviews, failed models.
	refreshInterval = 2 * time.Second
	// activityPollInterval is how often the guide checks for activity.
	activityPollInterval = time.Second
)

// first shows the first page.
func first(v *page.Visit) {
	g, err := v.Instance.Control.Overview(v.Context(), v.Caller(), struct{}{})
	switch {
	case err != nil:
		v.Fail(err)
	case g.IsEmpty():
		v.Redirect("/guide")
	default:
		v.Render(http.StatusOK, firstPage(v, &g))
	}
}

// firstLive updates the first page.
func firstLive(v *page.Visit) {
	changes, forget := v.Instance.Control.ToolChanges()
	defer forget()
	v.Live(func(ctx context.Context, send page.Send) error {
		tick := time.NewTicker(refreshInterval)
		defer tick.Stop()
		shown := changedPart{send: send}
		for {
			plugs := v.Instance.Control.BotChanges()
			g, err := v.Instance.Control.Overview(ctx, v.Caller(), struct{}{})
			if err != nil {
				return err
			}
			if err := shown.sendIfChanged(overview(v, &g), firstPatch(v, &g)); err != nil {
				return err
			}
			select {
			case <-changes:
			case <-plugs:
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}

// changedPart sends a part of a page when it has changed.
type changedPart struct {
	send page.Send
	last []byte
}

// sendIfChanged compares part with the one before, and sends sent if they differ.
func (c *changedPart) sendIfChanged(part, sent templ.Component) error {
	var is bytes.Buffer
	if err := part.Render(context.Background(), &is); err != nil {
		return err
	}
	if bytes.Equal(is.Bytes(), c.last) {
		return nil
	}
	c.last = is.Bytes()
	return c.send(sent)
}

// failingBots returns the bots that have an error.
func failingBots(list []control.BotStatus) (out []control.BotStatus) {
	for _, b := range list {
		if b.Problem != "" {
			out = append(out, b)
		}
	}
	return out
}

// botURL returns the URL of a page of a bot.
func botURL(number int64, rest string) templ.SafeURL {
	return templ.SafeURL("/bots/" + strconv.FormatInt(number, 10) + rest)
}

// upstreamURL returns the URL of an upstream's page.
func upstreamURL(u *control.Upstream) templ.SafeURL {
	if u.Kind == "shim" {
		return templ.SafeURL("/gateway/shims/" + strconv.FormatInt(u.Number, 10))
	}
	return templ.SafeURL("/tools/upstreams/" + strconv.FormatInt(u.Number, 10))
}

// outcomes maps outcomes of turns and calls to texts.
var outcomes = map[string]i18n.Message{
	"done": msgDone, "failed": msgFailed, "disconnected": msgDisconnected, "tool_error": msgToolFailed,
	"refused": msgRefused, "asked": msgAsked,
}

func outcome(v *page.Visit, o string) string {
	if s, ok := outcomes[o]; ok {
		return v.Text(s)
	}
	return o
}

// calledTool returns the name of the tool of a call, for people.
func calledTool(v *page.Visit, c *control.Call) string {
	return cmp.Or(toolwords.Own(v.Lang, c.Kind, c.Title), c.Tool, c.Provider)
}

// storageText maps the states of the server's disk to texts.
var storageText = map[string]i18n.Message{"disk_full": msgDiskFull, "disk_errors": msgDiskErrors,
	"storage":  msgDiskErrors,
	"disk_low": msgDiskLow}

// needsAttention reports whether there is anything to do.
func needsAttention(g *control.Overview) bool {
	return g.Storage != "" || g.Approvals > 0 || g.Pairings > 0 || g.Waiting > 0 || g.NeedsVoice ||
		len(g.Upstreams) > 0 ||
		len(failingBots(g.Bots)) > 0
}
