// Package engines serves the pages where administrators set up the speech engines.
//
//	setup   from a key to hearing, speaking and a bot
//	list    the engines in their order
//	engine  the settings and the tests of one
package engines

import (
	"net/http"
	"net/url"
	"strconv"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// home is the path of the list.
const home = "/settings/voice"

// pages holds the dependencies of the pages.
type pages struct {
	*control.Service
}

// Routes returns the pages.
func Routes(c *control.Service) []page.Route {
	p := pages{c}
	return []page.Route{
		{Pattern: "GET /settings/voice", Access: page.Admins, Serve: p.list},
		{Pattern: "POST /settings/voice/setup", Access: page.AdminsConfirmed, Serve: p.setUp},
		{Pattern: "GET /settings/voice/new", Access: page.Admins, Serve: p.addPage},
		{Pattern: "POST /settings/voice/new", Access: page.AdminsConfirmed, Serve: p.add},
		{Pattern: "GET /settings/voice/engines/{engine}", Access: page.Admins, Serve: p.engine},
		{Pattern: "POST /settings/voice/engines/{engine}", Access: page.AdminsConfirmed, Serve: p.change},
		{Pattern: "POST /settings/voice/engines/{engine}/move", Access: page.Admins, Serve: p.move},
		{Pattern: "POST /settings/voice/engines/{engine}/remove", Access: page.Admins, Serve: p.remove},
		{Pattern: "POST /settings/voice/engines/{engine}/check", Access: page.Admins, Serve: p.check},
		{Pattern: "POST /settings/voice/engines/{engine}/say", Access: page.Admins, Serve: p.say},
		{Pattern: "POST /settings/voice/engines/{engine}/hear", Access: page.Admins, Serve: p.hear, Large: true},
	}
}

// overview is the content of the list.
type overview struct {
	Engines  []control.Engine
	Services []control.VoiceService
	Usage    control.VoiceUsage
	Latency  control.VoiceLatency
	// Setup is the submitted form without its key, Wrong its error, and Set what it has made.
	Setup control.VoiceSetup
	Wrong string
	Set   *control.VoiceSet
}

// list shows the engines, and the form that sets up what is missing.
func (p pages) list(v *page.Visit) { p.show(v, http.StatusOK, &overview{}) }

func (p pages) show(v *page.Visit, status int, o *overview) {
	list, err := p.ListEngines(v.Context(), v.Operator(), control.Empty{})
	if err != nil {
		v.Fail(err)
		return
	}
	services, err := p.VoiceServices(v.Context(), v.Operator(), control.Empty{})
	if err != nil {
		v.Fail(err)
		return
	}
	if o.Usage, err = p.VoiceUsage(v.Context(), v.Operator(), control.VoiceUsageQuery{}); err != nil {
		v.Fail(err)
		return
	}
	if o.Latency, err = p.VoiceLatency(v.Context(), v.Operator(), control.VoiceLatencyQuery{}); err != nil {
		v.Fail(err)
		return
	}
	o.Engines, o.Services = list.Engines, services.Services
	v.Render(status, listPage(v, o))
}

// other and wyoming are choices beside the services.
const (
	other   = "other"
	wyoming = "wyoming"
)

// setUp makes what a conversation needs, and shows it.
func (p pages) setUp(v *page.Visit) {
	in := control.VoiceSetup{Service: v.FormValue("service"), Key: v.FormValue("key"), URL: v.FormValue("url"),
		Model: v.FormValue("model")}
	o := &overview{Setup: in}
	o.Setup.Key = ""
	switch in.Service {
	case other:
		in.Service = ""
		if in.URL == "" { // it would look for Wyoming servers
			o.Wrong = v.Text(msgNeedsAddress)
			p.show(v, http.StatusUnprocessableEntity, o)
			return
		}
	case wyoming:
		in = control.VoiceSetup{Wyoming: v.PostForm["wyoming"]}
	}
	set, err := p.SetUpVoice(v.Context(), v.Operator(), in)
	if err != nil {
		wrong(v, err, func(status int, text string) {
			o.Wrong = text
			p.show(v, status, o)
		})
		return
	}
	o.Set = &set
	p.show(v, http.StatusOK, o)
}

// move puts an engine to another place.
func (p pages) move(v *page.Visit) {
	place, err := strconv.Atoi(v.FormValue("place"))
	if err != nil {
		v.NotFound()
		return
	}
	if _, err := p.MoveEngine(v.Context(), v.Operator(), control.EngineMove{Engine: v.PathValue("engine"),
		Place: place}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(home)
}

// place returns the place of an engine among those that can be moved, 1 for the first, and how many
// there are.
func (o *overview) place(number int64) (at, last int) {
	for _, e := range o.Engines {
		if !e.Configured {
			last++
		}
		if e.Number == number {
			at = last
		}
	}
	return at, last
}

// engineURL returns the path of an engine, which has no number if it is of the configuration.
func engineURL(e *control.Engine) string {
	if e.Configured {
		return home + "/engines/" + url.PathEscape(e.Name)
	}
	return home + "/engines/" + strconv.FormatInt(e.Number, 10)
}

// light returns the status light of an engine and its text.
func light(v *page.Visit, e *control.Engine) (page.State, string) {
	if !e.Enabled {
		return "", v.Text(msgOff)
	}
	switch e.State {
	case control.EngineReady:
		return page.On, v.Text(msgReady)
	case control.EngineFailing:
		return page.Bad, v.Text(msgFailing)
	case control.EnginePaused:
		return page.Wait, v.Text(msgPaused, v.FormatClock(e.Until))
	case control.EngineSpent:
		return page.Wait, v.Text(msgSpent)
	case control.EngineRefused:
		return page.Bad, v.Text(msgRefused)
	case control.EngineBroken:
		return page.Bad, v.Text(msgBroken)
	}
	return "", v.Text(msgUnused)
}

// uses returns what an engine is used for.
func uses(v *page.Visit, listens, speaks bool) string {
	switch {
	case listens && speaks:
		return v.Text(msgBoth)
	case listens:
		return v.Text(msgListens)
	case speaks:
		return v.Text(msgSpeaks)
	}
	return v.Text(msgNeither)
}

// wrong shows a form again with its error. For a missing object or an internal error it responds
// with an error page.
func wrong(v *page.Visit, err error, show func(status int, text string)) {
	text, status := v.Wrong(err)
	switch {
	case text == "": // the browser has disconnected
	case status == http.StatusNotFound || status == http.StatusInternalServerError:
		v.Fail(err)
	default:
		show(status, text)
	}
}
