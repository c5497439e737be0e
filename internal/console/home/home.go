// Package home is the first page, and the guide for whoever has nothing plugged in yet.
//
//	home    what matters at a glance
//	guide   three roads to the first answer, each with a light that turns on at its end
package home

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Routes are the pages.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /{$}", Serve: first},
		{Pattern: "GET /home/live", Serve: firstLive},
		{Pattern: "GET /guide", Serve: guide},
		{Pattern: "GET /guide/{road}", Serve: road},
		{Pattern: "GET /guide/{road}/live", Serve: roadLive},
	}
}

const (
	// botsShown is how many bots the first page shows.
	botsShown = 6
	// lookEvery is how often the first page looks at what nobody tells of: turns, calls,
	// reviews, models that have gone.
	lookEvery = 2 * time.Second
	// signEvery is how often the guide looks for a sign of life.
	signEvery = time.Second
)

// first is the first page.
func first(v *page.Visit) {
	g, err := v.House.Control.Glance(v.Context(), v.Caller(), struct{}{})
	switch {
	case err != nil:
		v.Fail(err)
	case g.Nothing():
		v.To("/guide")
	default:
		v.Show(http.StatusOK, firstPage(v, &g))
	}
}

// firstLive keeps the first page up to date.
func firstLive(v *page.Visit) {
	changes, forget := v.House.Control.Board.Watch()
	defer forget()
	v.Live(func(ctx context.Context, send page.Send) error {
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		shown := changing{send: send}
		for {
			plugs := v.House.Control.Board.Plugs()
			g, err := v.House.Control.Glance(ctx, v.Caller(), struct{}{})
			if err != nil {
				return err
			}
			if err := shown.now(glance(v, &g), firstNow(v, &g)); err != nil {
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

// changing sends a part of a page when it is another than before.
type changing struct {
	send page.Send
	was  []byte
}

// now takes what the part is now, and how it is sent.
func (c *changing) now(part, sent templ.Component) error {
	var is bytes.Buffer
	if err := part.Render(context.Background(), &is); err != nil {
		return err
	}
	if bytes.Equal(is.Bytes(), c.was) {
		return nil
	}
	c.was = is.Bytes()
	return c.send(sent)
}

// online counts the bots that could be asked now.
func online(list []control.BotStatus) (n int) {
	for _, b := range list {
		if b.Online && b.State != control.BotUnasked {
			n++
		}
	}
	return n
}

// troubled are the bots that have a trouble to tell of.
func troubled(list []control.BotStatus) (out []control.BotStatus) {
	for _, b := range list {
		if b.Trouble != "" {
			out = append(out, b)
		}
	}
	return out
}

// botURL is the page of a bot, or one of its pages.
func botURL(number int64, rest string) templ.SafeURL {
	return templ.SafeURL("/bots/" + strconv.FormatInt(number, 10) + rest)
}

// upstreamURL is the page of an upstream.
func upstreamURL(u *control.Upstream) templ.SafeURL {
	if u.Kind == "shim" {
		return templ.SafeURL("/gateway/shims/" + strconv.FormatInt(u.Number, 10))
	}
	return templ.SafeURL("/tools/upstreams/" + strconv.FormatInt(u.Number, 10))
}

// outcomes says how turns and calls have ended.
var outcomes = map[string]talk.Say{
	"done": sayDone, "failed": sayFailed, "hung_up": sayHungUp, "trouble": sayTrouble, "refused": sayRefused, "asked": sayAsked,
}

func outcome(v *page.Visit, o string) string {
	if s, ok := outcomes[o]; ok {
		return v.Say(s)
	}
	return o
}

// doors says where turns have come from.
var doors = map[string]talk.Say{
	"lingzhu": sayFromGlasses, "xiaozhi": sayFromBoard, control.DoorConsole: sayFromHere, control.DoorCommand: sayFromCommand,
	"mcp": sayFromProgram, "openclaw": sayFromOpenClaw, "learn": sayFromLearn,
}

func door(v *page.Visit, name string) string {
	if s, ok := doors[name]; ok {
		return v.Say(s)
	}
	return name
}

// called is what a call called: its tool.
func called(c *store.Call) string {
	if c.Tool == "" {
		return c.Provider
	}
	return c.Tool
}

// storageTold says what is wrong with the server's disk.
var storageTold = map[string]talk.Say{"disk_full": sayDiskFull, "disk_errors": sayDiskErrors, "storage": sayDiskErrors, "disk_low": sayDiskLow}

// needsSomebody says whether there is something to do.
func needsSomebody(g *control.Glance) bool {
	return g.Storage != "" || g.Pairings > 0 || g.Waiting > 0 || len(g.Upstreams) > 0 || len(troubled(g.Bots)) > 0
}
