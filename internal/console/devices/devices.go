// Package devices serves the pages about devices: the list, the approval of new ones, and
// everything that can be done with one.
//
//	devices    the list, and approving devices
//	tiles      devices in the list, with what one does most with them
//	device     the page of one device, with live notices
//	voice      how it hears and speaks
//	recordings what is recorded of it
//	settings   its name, bot and transport, and removing it
//	tools      its tools as forms, and calls
//	now        its current state, as it reports it
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
	"patchbay/internal/problem"
)

// pages holds the dependencies of the pages.
type pages struct{ control *control.Service }

// Routes returns the pages below /devices.
func Routes(c *control.Service) []page.Route {
	p := &pages{c}
	return []page.Route{
		{Pattern: "GET /devices", Serve: p.list},
		{Pattern: "GET /devices/live", Serve: p.listLive},
		{Pattern: "GET /devices/approve", Serve: p.approvePage},
		{Pattern: "POST /devices/approve", Access: page.Confirmed, Serve: p.approve},
		{Pattern: "GET /devices/{device}", Serve: p.device},
		{Pattern: "GET /devices/{device}/live", Serve: p.deviceLive},
		{Pattern: "GET /devices/{device}/now", Serve: p.showState},
		{Pattern: "GET /devices/{device}/settings", Serve: p.settings},
		{Pattern: "POST /devices/{device}/settings", Access: page.Confirmed, Serve: p.change},
		{Pattern: "GET /devices/{device}/voice", Serve: p.voice},
		{Pattern: "POST /devices/{device}/voice", Access: page.Confirmed, Serve: p.changeVoice},
		{Pattern: "GET /devices/{device}/recordings", Serve: p.recordings},
		{Pattern: "GET /devices/{device}/recordings/export", Serve: p.exportRecordings},
		{Pattern: "POST /devices/{device}/recordings/delete", Serve: p.removeRecordings},
		{Pattern: "POST /devices/{device}/remove", Serve: p.remove},
		{Pattern: "GET /devices/{device}/tools", Serve: p.tools},
		{Pattern: "POST /devices/{device}/tools/{tool}", Serve: p.call},
		{Pattern: "POST /devices/{device}/play", Serve: p.play, Large: true},
		{Pattern: "GET /devices/{device}/listening", Serve: p.listening},
		{Pattern: "GET /devices/{device}/listen", Serve: p.listen},
	}
}

const (
	// perPage is the number of devices on a page.
	perPage = 50
	// listRefreshInterval is how often an open list is refreshed: the time of the last contact of a
	// device changes without an event.
	listRefreshInterval = 30 * time.Second
)

// deviceList is one page of the list.
type deviceList struct {
	control.Devices
	Rooms []room
	Text  string // search text
	After int64
	// Waiting is the number of devices that show a pairing code; for admins.
	Waiting int
}

// address returns the URL of a page of the list.
func (l *deviceList) address(path string, after int64) string {
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

// loadList loads the page of the list that the request asks for.
func (p *pages) loadList(ctx context.Context, v *page.Visit) (l deviceList, err error) {
	l.Text = strings.TrimSpace(v.FormValue("text"))
	l.After, _ = strconv.ParseInt(v.FormValue("after"), 10, 64) // invalid means 0
	if l.Devices, err = p.control.Devices(ctx, v.Caller(), control.DeviceQuery{After: l.After, Limit: perPage,
		Text: l.Text}); err != nil {
		return l, err
	}
	list, err := p.tiles(v, l.Devices.Devices)
	if err != nil {
		return l, err
	}
	l.Rooms = inRooms(v, list)
	if v.IsAdmin() {
		w, err := p.control.WaitingDevices(ctx, v.Caller(), control.Empty{})
		if err != nil {
			return l, err
		}
		l.Waiting = w.Count
	}
	return l, nil
}

func (p *pages) list(v *page.Visit) {
	l, err := p.loadList(v.Context(), v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, listPage(v, &l))
}

// listLive updates the list.
func (p *pages) listLive(v *page.Visit) {
	v.LiveRefresh(listRefreshInterval, func(ctx context.Context, send page.SendPart) error {
		l, err := p.loadList(ctx, v)
		if err != nil {
			return err
		}
		return send("#devices", listPart(v, &l))
	})
}

// approval holds the submitted approval form and its errors.
type approval struct {
	control.Approval
	Bots    []control.BotStatus
	Rooms   []string         // that there are
	Waiting []control.Device // for admins
	// Errors about the code, the name, the room, or anything else.
	WrongCode, WrongName, WrongRoom, WrongOther string
}

func (p *pages) approvePage(v *page.Visit) {
	p.showApproval(v, http.StatusOK, approval{Approval: control.Approval{Code: v.FormValue("code")}})
}

func (p *pages) showApproval(v *page.Visit, status int, a approval) {
	bots, err := p.control.BotStates(v.Context(), v.Caller())
	if err == nil {
		a.Rooms, err = p.control.Rooms(v.Context(), v.Caller())
	}
	if err == nil && v.IsAdmin() {
		var w control.Waiting
		w, err = p.control.WaitingDevices(v.Context(), v.Operator(), control.Empty{})
		a.Waiting = w.Devices
	}
	if err != nil {
		v.Fail(err)
		return
	}
	if a.Bots = bots; a.Bot == "" && len(bots) == 1 {
		a.Bot = strconv.FormatInt(bots[0].Number, 10)
	}
	v.Render(status, approvePage(v, a))
}

// approve gives the device that shows a pairing code to the visitor.
func (p *pages) approve(v *page.Visit) {
	a := approval{Approval: control.Approval{
		Code: strings.TrimSpace(v.FormValue("code")), Name: strings.TrimSpace(v.FormValue("name")),
		Room: strings.TrimSpace(v.FormValue("room")), Bot: v.FormValue("bot"),
	}}
	d, err := p.control.ApproveDevice(v.Context(), v.Caller(), a.Approval)
	if err == nil {
		v.Redirect(devicePath(d.Number) + "?approved")
		return
	}
	text, status := v.Wrong(err)
	switch e := control.AsError(err); {
	case text == "": // the browser has disconnected
		return
	case errors.Is(err, account.ErrDeviceTaken):
		a.WrongCode = v.Text(msgTaken)
	case errors.Is(err, account.ErrCodeUnknown), errors.Is(err, account.ErrTooManyTries):
		a.WrongCode = text
	case isRoomError(err):
		a.WrongRoom = text
	case errors.Is(err, account.ErrDeviceName), e != nil && e.Code == problem.Invalid:
		a.WrongName = text
	default:
		a.WrongOther = text
	}
	p.showApproval(v, status, a)
}

// isRoomError reports whether the name of a room was refused.
func isRoomError(err error) bool {
	return errors.Is(err, account.ErrRoomLong) || errors.Is(err, account.ErrRoomControl)
}

func devicePath(number int64) string { return "/devices/" + strconv.FormatInt(number, 10) }
