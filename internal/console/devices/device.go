package devices

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
)

// view is a device with its tools.
type view struct {
	control.Device
	Tools []hub.Listing // by name
	Now   *liveState    // nil if it was not read
}

// path returns the URL of a page of the device.
func (d *view) path(rest string) string { return devicePath(d.Number) + rest }

// tool returns the tool with a name of the device; nil if there is none.
func (d *view) tool(name string) *hub.Listing {
	i := slices.IndexFunc(d.Tools, func(l hub.Listing) bool { return l.Tool.Name == name })
	if i < 0 {
		return nil
	}
	return &d.Tools[i]
}

// offersNothing is the settingsKind of a sleeping device.
const offersNothing = "nothing"

// settingsKind identifies what can be read from and set on the device right away. For a sleeping
// device that is nothing; a board that wakes announces its tools a moment later.
func (d *view) settingsKind() string {
	if !d.Online {
		return offersNothing
	}
	names := "status"
	for _, name := range []string{toolInfo, toolVolume, toolBrightness, toolTheme} {
		if isUsable(d.tool(name)) {
			names += "," + name
		}
	}
	return names
}

// state returns the status light of a device and its text.
func state(d *control.Device) (page.State, i18n.Message) {
	switch {
	case d.Waiting:
		return page.Wait, msgShowsCode
	case d.Online:
		return page.On, msgAwake
	}
	return "", msgAsleep
}

// modelName returns the product name of a device, or else how the device describes itself.
func modelName(d *control.Device) string {
	for _, s := range []string{d.Article, d.Family} {
		if s != "" {
			return s
		}
	}
	return d.Kind
}

// find returns the device that the path names. If it returns false, it has responded.
func (p *pages) find(v *page.Visit) (view, bool) {
	d, err := p.control.Device(v.Context(), v.Caller(), control.DeviceRef{Device: v.PathValue("device")})
	var out view
	if err == nil {
		out, err = p.withTools(v, d)
	}
	if err != nil {
		v.Fail(err)
		return out, false
	}
	return out, true
}

// withTools adds the tools of a device.
func (p *pages) withTools(v *page.Visit, d control.Device) (out view, err error) {
	out.Device = d
	out.Tools, err = p.control.KnownTools(v.Caller(), d.Device)
	return out, err
}

func (p *pages) device(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	if v.URL.Query().Has("now") { // without JavaScript the state is read at once
		n := p.readState(v, &d)
		d.Now = &n
	}
	v.Render(http.StatusOK, devicePage(v, &d))
}

const (
	// maxNotices is the number of notices on a page.
	maxNotices = 20
	// maxNoticeText is how much of a notice's text is shown, in bytes.
	maxNoticeText = 500
	// minRefreshPause is the shortest time between two refreshes of a device: changes come in
	// bursts.
	minRefreshPause = 300 * time.Millisecond
)

// deviceLive updates the page of a device: whether it is awake, its tools, and its notices.
func (p *pages) deviceLive(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	v.Live(func(ctx context.Context, send page.Send) error {
		h := p.control.Hub
		changes, forget := h.WatchTools()
		defer forget()
		notices, forgetNotices := h.SubscribeNotices(v.Session.Person.ID)
		defer forgetNotices()
		live := &deviceLive{send: send, sent: map[string]string{}, settingsKind: v.URL.Query().Get("offers"),
			toolsMark: v.URL.Query().Get("tools")}
		provider := hub.DeviceProviderID(d.Number)
		var recent []hub.Notice
		again := time.NewTimer(0)
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-changes:
				again.Reset(minRefreshPause)
			case n, open := <-notices:
				if !open {
					return nil
				}
				if n.Provider != provider || live.toolsMark != "" { // the page of the tools has no notices
					continue
				}
				recent = append([]hub.Notice{n}, recent[:min(len(recent), maxNotices-1)]...)
				if err := live.put("#notices", noticesPart(v, recent)); err != nil {
					return err
				}
				if n.Method == noticePlayed || n.Method == noticeUnplayed {
					if err := send(patch("#now-again", "outerHTML", refreshButton(&d))); err != nil {
						return err
					}
				}
			case <-again.C:
				if err := p.refresh(ctx, v, d.Number, live); err != nil {
					return err
				}
			}
		}
	})
}

// deviceLive holds what the page of a device shows.
type deviceLive struct {
	send         page.Send
	sent         map[string]string
	settingsKind string // as of the page load or the last update
	toolsMark    string // the same; empty: the page does not list the tools
}

// put sends a part if it differs from the one sent before.
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

// refresh sends what has changed about a device.
func (p *pages) refresh(ctx context.Context, v *page.Visit, number int64, l *deviceLive) error {
	row, err := p.control.Device(ctx, v.Caller(), control.DeviceRef{Device: devicePath(number)[len("/devices/"):]})
	if err != nil {
		return err
	}
	d, err := p.withTools(v, row)
	if err != nil {
		return err
	}
	if err := l.put("#presence", presence(v, &d)); err != nil {
		return err
	}
	if l.toolsMark != "" {
		before := l.toolsMark
		if l.toolsMark = d.toolsMark(); l.toolsMark == before {
			return nil
		}
		return l.send(patch("#tools", "outerMorph", toolsPart(v, &d)))
	}
	if err := l.put("#doing", actionsPart(v, &d)); err != nil {
		return err
	}
	before := l.settingsKind
	switch l.settingsKind = d.settingsKind(); {
	case l.settingsKind == before:
		return nil
	case before == offersNothing || l.settingsKind == offersNothing:
		return l.send(patch("#now", "outerHTML", stateLoader(v, &d)))
	}
	return l.send(patch("#now-again", "outerHTML", refreshButton(&d)))
}

// noticePlayed and noticeUnplayed are the methods of the notices that somebody starts or stops
// listening to or viewing a device's surroundings.
const noticePlayed, noticeUnplayed = "patchbay/listening_started", "patchbay/listening_ended"

// noticeText describes a notice.
func noticeText(v *page.Visit, n *hub.Notice) string {
	var params struct {
		Via   string `json:"via"`
		Bytes int64  `json:"bytes"`
		activeListener
	}
	if len(n.Params) > 0 {
		json.Unmarshal(n.Params, &params) //nolint:errcheck // missing fields stay empty
	}
	switch n.Method {
	case "patchbay/awake":
		return v.Text(msgWoke, transportName(v, params.Via))
	case "patchbay/asleep":
		return v.Text(msgSlept)
	case "patchbay/conversation_started":
		return v.Text(msgTalks)
	case "patchbay/conversation_ended":
		return v.Text(msgQuiet)
	case "patchbay/photo":
		return v.Text(msgPhotoCame, page.FormatSize(params.Bytes))
	case noticePlayed:
		return v.Text(msgEars[params.What], params.Name)
	case noticeUnplayed:
		return v.Text(msgNoEars[params.What], params.Name)
	}
	text := n.Method
	if len(n.Params) > 0 && string(n.Params) != "{}" && string(n.Params) != "null" {
		text += " " + string(n.Params)
	}
	if len(text) > maxNoticeText {
		text = text[:maxNoticeText] + "…"
	}
	return text
}

// transportName returns the common name of a transport.
func transportName(v *page.Visit, name string) string {
	switch name {
	case "websocket":
		return "WebSocket"
	case "mqtt":
		return "MQTT"
	case "":
		return v.Text(msgUnknownWay)
	}
	return name
}
