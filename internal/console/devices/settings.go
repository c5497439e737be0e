package devices

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/problem"
)

// settingsForm holds the submitted settings form of a device and its errors.
type settingsForm struct {
	Name, Room, Bot, Transport       string
	Bots                             []control.BotStatus
	Rooms                            []string // that there are
	WrongName, WrongRoom, WrongOther string
}

func (p *pages) settings(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	s := settingsForm{Name: d.Name, Room: d.Room, Bot: control.NoBot, Transport: d.Transport}
	if d.Bot != 0 {
		s.Bot = strconv.FormatInt(d.Bot, 10)
	}
	if s.Transport == "" {
		s.Transport = control.DefaultTransport
	}
	p.showSettings(v, http.StatusOK, &d, s)
}

func (p *pages) showSettings(v *page.Visit, status int, d *view, s settingsForm) {
	bots, err := p.control.BotStates(v.Context(), v.Caller())
	if err == nil {
		s.Rooms, err = p.control.Rooms(v.Context(), v.Caller())
	}
	if err != nil {
		v.Fail(err)
		return
	}
	s.Bots = bots
	v.Render(status, settingsPage(v, d, s))
}

// change saves the settings that differ.
func (p *pages) change(v *page.Visit) {
	d, ok := p.find(v)
	if !ok {
		return
	}
	s := settingsForm{Name: strings.TrimSpace(v.FormValue("name")),
		Room: strings.TrimSpace(v.FormValue("room")), Bot: v.FormValue("bot"), Transport: v.FormValue("transport")}
	change := control.DeviceChange{Device: strconv.FormatInt(d.Number, 10),
		Name: &s.Name, Room: &s.Room, Bot: &s.Bot, Transport: &s.Transport}
	_, err := p.control.ChangeDevice(v.Context(), v.Caller(), change)
	if err == nil {
		v.Redirect(d.path("/settings?saved"))
		return
	}
	text, status := v.Wrong(err)
	switch e := control.AsError(err); {
	case text == "": // the browser has disconnected
		return
	case isRoomError(err):
		s.WrongRoom = text
	case errors.Is(err, account.ErrDeviceName), e != nil && e.Code == problem.Invalid:
		s.WrongName = text
	default:
		s.WrongOther = text
	}
	p.showSettings(v, status, &d, s)
}

// remove removes a device.
func (p *pages) remove(v *page.Visit) {
	if _, err := p.control.RemoveDevice(v.Context(), v.Caller(), control.DeviceRef{Device: v.PathValue("device")}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/devices?removed")
}
