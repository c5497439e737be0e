package devices

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/board"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/talk"
)

// view is a device, and what it can do.
type view struct {
	control.Device
	Tools []board.Listing // by name
	Now   *now            // nil: it has not been asked
}

// path is the address of something about the device.
func (d *view) path(rest string) string { return devicePath(d.Number) + rest }

// tool finds a tool by the name that it has at the device; nil if it has none.
func (d *view) tool(name string) *board.Listing {
	i := slices.IndexFunc(d.Tools, func(l board.Listing) bool { return l.Tool.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Tools[i]
}

// offersNothing is said of a device that sleeps.
const offersNothing = "nothing"

// offers names what of a device can be asked and set at once, which is nothing while it
// sleeps: a board that wakes tells a moment later which tools it has.
func (d *view) offers() string {
	if !d.Online {
		return offersNothing
	}
	names := "status"
	for _, name := range []string{toolInfo, toolVolume, toolBrightness, toolTheme} {
		if usable(d.tool(name)) {
			names += "," + name
		}
	}
	return names
}

// state is how a device is, as a light shows it.
func state(d *control.Device) (page.State, talk.Say) {
	switch {
	case d.Waiting:
		return page.Wait, sayShowsCode
	case d.Online:
		return page.On, sayAwake
	}
	return "", sayAsleep
}

// what says what a device is: as which it is sold, or what else it says of itself.
func what(d *control.Device) string {
	for _, s := range []string{d.Article, d.Family} {
		if s != "" {
			return s
		}
	}
	return d.Kind
}

// find finds the device that the address names. If it is false, the browser has been
// answered.
func (p *pages) find(v *page.Visit) (view, bool) {
	d, err := p.control.Device(v.Context(), v.Caller(), control.DeviceRef{Device: v.PathValue("device")})
	var out view
	if err == nil {
		out, err = p.known(v, d)
	}
	if err != nil {
		v.Fail(err)
		return out, false
	}
	return out, true
}

// known adds to a device what it can do.
func (p *pages) known(v *page.Visit, d control.Device) (out view, err error) {
	out.Device = d
	out.Tools, err = p.control.KnownTools(v.Caller(), d.Device)
	return out, err
}

func (p *pages) device(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	if v.URL.Query().Has("now") { // without a script, it is asked at once
		n := p.ask(v, &d)
		d.Now = &n
	}
	v.Show(http.StatusOK, devicePage(v, &d))
}

const (
	// toldMost is how many notices a page shows.
	toldMost = 20
	// maxTold is how much of what a notice says is shown, in bytes.
	maxTold = 500
	// showerPause is the shortest time between two looks at a device: what changes
	// about it comes in showers.
	showerPause = 300 * time.Millisecond
)

// deviceLive keeps the page of a device up to date: whether it is awake, what it can
// do, and what it tells by itself.
func (p *pages) deviceLive(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		hub := p.control.Board
		changes, forget := hub.Watch()
		defer forget()
		notices, forgetNotices := hub.Notices(v.Who.Person.ID)
		defer forgetNotices()
		live := &deviceLive{send: send, sent: map[string]string{}, offers: v.URL.Query().Get("offers")}
		outlet := board.DeviceOutlet(d.Number)
		var told []board.Notice
		again := time.NewTimer(0)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-changes:
				again.Reset(showerPause)
			case n, open := <-notices:
				if !open {
					return nil
				}
				if n.Outlet != outlet {
					continue
				}
				told = append([]board.Notice{n}, told[:min(len(told), toldMost-1)]...)
				if err := live.put("#notices", toldPart(v, told)); err != nil {
					return err
				}
				if n.Method == noticeHeard || n.Method == noticeUnheard {
					if err := send(patch("#now-again", "outerHTML", nowAgain(&d))); err != nil {
						return err
					}
				}
			case <-again.C:
				if err := p.lookAt(ctx, v, d.Number, live); err != nil {
					return err
				}
			}
		}
	})
}

// deviceLive is what a page of a device has been sent.
type deviceLive struct {
	send   page.Send
	sent   map[string]string
	offers string // what there was to set when the page was made, or was told since
}

// put sends a part if it is another one than before.
func (l *deviceLive) put(target string, part templ.Component) error {
	var b bytes.Buffer
	if err := part.Render(context.Background(), &b); err != nil {
		return err
	}
	text := b.String()
	if l.sent[target] == text {
		return nil
	}
	l.sent[target] = text
	return l.send(patch(target, "outerMorph", templ.Raw(text)))
}

// lookAt sends what is new about a device.
func (p *pages) lookAt(ctx context.Context, v *page.Visit, number int64, l *deviceLive) error {
	row, err := p.control.Device(ctx, v.Caller(), control.DeviceRef{Device: devicePath(number)[len("/devices/"):]})
	if err != nil {
		return err
	}
	d, err := p.known(v, row)
	if err != nil {
		return err
	}
	if err := l.put("#presence", presence(v, &d)); err != nil {
		return err
	}
	if err := l.put("#doing", doing(v, &d)); err != nil {
		return err
	}
	before := l.offers
	switch l.offers = d.offers(); {
	case l.offers == before:
		return nil
	case before == offersNothing || l.offers == offersNothing:
		return l.send(patch("#now", "outerHTML", nowComes(v, &d)))
	}
	return l.send(patch("#now-again", "outerHTML", nowAgain(&d)))
}

// The notices that somebody begins to hear or see what is near a device, and has ended.
const noticeHeard, noticeUnheard = "patchbay/heard", "patchbay/unheard"

// words says what a notice means.
func words(v *page.Visit, n *board.Notice) string {
	var params struct {
		Via   string `json:"via"`
		Bytes int64  `json:"bytes"`
		ear
	}
	if len(n.Params) > 0 {
		json.Unmarshal(n.Params, &params) //nolint:errcheck // what it does not say is empty
	}
	switch n.Method {
	case "patchbay/awake":
		return v.Say(sayWoke, via(v, params.Via))
	case "patchbay/asleep":
		return v.Say(saySlept)
	case "patchbay/talk":
		return v.Say(sayTalks)
	case "patchbay/quiet":
		return v.Say(sayQuiet)
	case "patchbay/photo":
		return v.Say(sayPhotoCame, page.Size(params.Bytes))
	case noticeHeard:
		return v.Say(sayEars[params.What], params.Name)
	case noticeUnheard:
		return v.Say(sayNoEars[params.What], params.Name)
	}
	text := n.Method
	if len(n.Params) > 0 && string(n.Params) != "{}" && string(n.Params) != "null" {
		text += " " + string(n.Params)
	}
	if len(text) > maxTold {
		text = text[:maxTold] + "…"
	}
	return text
}

// via is a way to connect as people know it.
func via(v *page.Visit, name string) string {
	switch name {
	case "websocket":
		return "WebSocket"
	case "mqtt":
		return "MQTT"
	case "":
		return v.Say(sayUnknownWay)
	}
	return name
}
