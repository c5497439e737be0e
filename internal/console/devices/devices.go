// Package devices are the pages about devices: which there are, approving new ones, and
// all that can be done with one.
//
//	devices    the list, and approving
//	device     the page of one device, and what it tells while that is open
//	settings   its name, its bot, how it connects, removing it
//	tools      its tools as forms, and calls of them
//	now        how it is at this moment, as it says itself
//	sound      playing files, and listening
package devices

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// pages are the pages.
type pages struct{ control *control.Service }

// Routes are the pages at /devices.
func Routes(c *control.Service) []page.Route {
	p := &pages{c}
	return []page.Route{
		{Pattern: "GET /devices", Serve: p.list},
		{Pattern: "GET /devices/live", Serve: p.listLive},
		{Pattern: "GET /devices/approve", Serve: p.approvePage},
		{Pattern: "POST /devices/approve", Access: page.Fresh, Serve: p.approve},
		{Pattern: "GET /devices/{device}", Serve: p.device},
		{Pattern: "GET /devices/{device}/live", Serve: p.deviceLive},
		{Pattern: "GET /devices/{device}/now", Serve: p.now},
		{Pattern: "GET /devices/{device}/settings", Serve: p.settings},
		{Pattern: "POST /devices/{device}/settings", Access: page.Fresh, Serve: p.change},
		{Pattern: "POST /devices/{device}/remove", Serve: p.remove},
		{Pattern: "GET /devices/{device}/tools", Serve: p.tools},
		{Pattern: "POST /devices/{device}/tools/{tool}", Serve: p.call},
		{Pattern: "POST /devices/{device}/play", Serve: p.play, Large: true},
		{Pattern: "GET /devices/{device}/listening", Serve: p.listening},
		{Pattern: "GET /devices/{device}/listen", Serve: p.listen},
	}
}

const (
	// perPage is how many devices a page lists.
	perPage = 50
	// lookAgain is after how long a list that is open is looked at again by itself: when
	// devices were last heard of is not told.
	lookAgain = 30 * time.Second
)

// listing is a page of the list.
type listing struct {
	control.Devices
	Text  string // what is looked for
	After int64
	// Waiting counts the devices that show a code, for admins.
	Waiting int
}

// address is where some page of the list is.
func (l *listing) address(path string, after int64) string {
	q := url.Values{}
	if l.Text != "" {
		q.Set("text", l.Text)
	}
	if after != 0 {
		q.Set("after", strconv.FormatInt(after, 10))
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// look reads the page of the list that a browser asks for.
func (p *pages) look(ctx context.Context, v *page.Visit) (l listing, err error) {
	l.Text = strings.TrimSpace(v.FormValue("text"))
	l.After, _ = strconv.ParseInt(v.FormValue("after"), 10, 64) // what is no number is as 0
	if l.Devices, err = p.control.Devices(ctx, v.Caller(), control.DeviceQuery{After: l.After, Limit: perPage, Text: l.Text}); err != nil {
		return l, err
	}
	if v.Admin() {
		w, err := p.control.WaitingDevices(ctx, v.Caller())
		if err != nil {
			return l, err
		}
		l.Waiting = w.Count
	}
	return l, nil
}

func (p *pages) list(v *page.Visit) {
	l, err := p.look(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, listPage(v, &l))
}

// listLive keeps the list up to date.
func (p *pages) listLive(v *page.Visit) {
	v.Keep(lookAgain, func(ctx context.Context, send page.Parts) error {
		l, err := p.look(ctx, v)
		if err != nil {
			return err
		}
		return send("#devices", listPart(v, &l))
	})
}

// approval is what was typed to approve a device, and what is wrong with it.
type approval struct {
	control.Approval
	Bots    []control.BotStatus
	Waiting []control.Device // for admins
	// What is wrong with the code, with the name, or with something else.
	WrongCode, WrongName, WrongIt string
}

func (p *pages) approvePage(v *page.Visit) {
	p.showApproval(v, http.StatusOK, approval{Approval: control.Approval{Code: v.FormValue("code")}})
}

func (p *pages) showApproval(v *page.Visit, status int, a approval) {
	bots, err := p.control.Bots(v.Context(), v.Caller(), struct{}{})
	if err == nil && v.Admin() {
		var w control.Waiting
		w, err = p.control.WaitingDevices(v.Context(), v.Operator())
		a.Waiting = w.Devices
	}
	if err != nil {
		v.Fail(err)
		return
	}
	a.Bots = bots.Bots
	v.Show(status, approvePage(v, a))
}

// approve makes the device that shows a code the visitor's.
func (p *pages) approve(v *page.Visit) {
	a := approval{Approval: control.Approval{
		Code: strings.TrimSpace(v.FormValue("code")), Name: strings.TrimSpace(v.FormValue("name")), Bot: v.FormValue("bot"),
	}}
	d, err := p.control.ApproveDevice(v.Context(), v.Caller(), a.Approval)
	if err == nil {
		v.To(devicePath(d.Number) + "?approved")
		return
	}
	text, status := v.Wrong(err)
	switch e := control.AsError(err); {
	case text == "": // the browser has gone
		return
	case errors.Is(err, account.ErrDeviceTaken):
		a.WrongCode = v.Say(sayTaken)
	case errors.Is(err, account.ErrCodeUnknown), errors.Is(err, account.ErrTooManyTries):
		a.WrongCode = text
	case errors.Is(err, account.ErrDeviceName), e != nil && e.Reason == control.Invalid:
		a.WrongName = text
	default:
		a.WrongIt = text
	}
	p.showApproval(v, status, a)
}

func devicePath(number int64) string { return "/devices/" + strconv.FormatInt(number, 10) }
