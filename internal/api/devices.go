package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/control"
	"patchbay/internal/store"
)

// Device is a device as /api/v1/devices lists it.
type Device struct {
	store.Device
	OwnerName string `json:"owner_name,omitempty"`
	BotName   string `json:"bot_name,omitempty"`
	// Online says that it is connected, here or at another instance. One that is not
	// is asleep.
	Online bool `json:"online"`
	// Waiting says that it shows a code. One that has an owner was erased, or
	// something else pretends to be it.
	Waiting bool `json:"waiting,omitempty"`
}

const (
	// devicesPage is how many devices an answer lists at most. They have some 600
	// bytes each, so that it protects both sides from answers of many MiB.
	devicesPage = 1000
	// maxDeviceBody is what a change of a device may have, in bytes.
	maxDeviceBody = 64 << 10
)

// DefaultTransport is what a [DeviceChange] calls the transport that the server
// chooses.
const DefaultTransport = "default"

// NoBot is what a [DeviceChange] names so that no bot answers a device.
const NoBot = "none"

// Devices is the answer of /api/v1/devices.
type Devices struct {
	Devices []Device `json:"devices"`
	// Next, if it is not 0, is to be asked for with ?after= for those that follow.
	Next int64 `json:"next,omitempty"`
}

// deviceOperations are about devices, what they can do and what they tell.
func (s *Server) deviceOperations() {
	s.mux.HandleFunc("GET /api/v1/notices", s.guarded(s.notices))
	s.mux.HandleFunc("GET /api/v1/devices", s.guarded(s.devices))
	s.mux.HandleFunc("GET /api/v1/devices/waiting", s.guarded(s.waiting))
	s.mux.HandleFunc("POST /api/v1/devices/approve", s.guarded(s.approve))
	s.mux.HandleFunc("GET /api/v1/devices/{device}", s.guarded(s.showDevice))
	s.mux.HandleFunc("PATCH /api/v1/devices/{device}", s.guarded(s.changeDevice))
	s.mux.HandleFunc("DELETE /api/v1/devices/{device}", s.guarded(s.removeDevice))
	s.mux.HandleFunc("GET /api/v1/devices/{device}/tools", s.guarded(s.deviceTools))
	s.mux.HandleFunc("POST /api/v1/devices/{device}/tools/{tool}/call", s.guarded(s.callDevice))
	s.mux.HandleFunc("GET /api/v1/devices/{device}/listen", s.guarded(s.listen))
}

// devices lists the caller's devices by number, or everybody's for admins, by pages:
// ?after= is the number before the first, and ?limit= how many there are on a page.
func (s *Server) devices(w http.ResponseWriter, r *http.Request, c control.Caller) {
	var list []store.Device
	var next int64
	var err error
	if owner := c.Owner(); owner != "" {
		list, err = s.Board.Store.Devices.ByOwner(r.Context(), owner)
	} else {
		query := r.URL.Query()
		after, _ := strconv.ParseInt(query.Get("after"), 10, 64) // what is no number is as 0
		limit, _ := strconv.Atoi(query.Get("limit"))
		if limit < 1 || limit > devicesPage {
			limit = devicesPage
		}
		list, err = s.Board.Store.Devices.Page(r.Context(), after, limit)
		if len(list) == limit {
			next = list[len(list)-1].Number
		}
	}
	var out []Device
	if err == nil {
		out, err = s.deviceRows(r.Context(), c, list)
	}
	if err != nil {
		s.broken(w, r, err)
		return
	}
	reply(w, Devices{out, next})
}

// deviceRows adds to devices what else is known about them.
func (s *Server) deviceRows(ctx context.Context, c control.Caller, list []store.Device) ([]Device, error) {
	people, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	bots, err := s.Board.Store.Bots.ByOwner(ctx, c.Owner())
	if err != nil {
		return nil, err
	}
	botNames := make(map[int64]string, len(bots))
	for _, b := range bots {
		botNames[b.Number] = b.Name
	}
	out := make([]Device, len(list))
	for i, d := range list {
		out[i] = Device{
			Device: d, OwnerName: people[d.Owner], BotName: botNames[d.Bot],
			Online: s.awake(d.Number), Waiting: ShowsCode(d),
		}
	}
	return out, nil
}

// ShowsCode says whether a device shows a code now.
func ShowsCode(d store.Device) bool { return d.CodeHash != "" && time.Now().Before(d.CodeExpires) }

// Waiting is the answer of /api/v1/devices/waiting. Which devices show a code is for
// admins alone; the codes are for nobody but who stands before the device.
type Waiting struct {
	Count   int      `json:"count"`
	Devices []Device `json:"devices,omitempty"`
}

func (s *Server) waiting(w http.ResponseWriter, r *http.Request, c control.Caller) {
	list, err := s.Board.Store.Devices.Waiting(r.Context(), time.Now())
	out := Waiting{Count: len(list)}
	if err == nil && c.Admin {
		out.Devices, err = s.deviceRows(r.Context(), c, list)
	}
	if err != nil {
		s.broken(w, r, err)
		return
	}
	reply(w, out)
}

// Approval is the body of /api/v1/devices/approve.
type Approval struct {
	Code string `json:"code"`           // spaces and dashes do not count
	Name string `json:"name,omitempty"` // empty: the one it has, or one is made
	Bot  string `json:"bot,omitempty"`  // number or name of one of the owner's; empty: the one it has, or none
	User string `json:"user,omitempty"` // whose device it is to be, if an admin says so
}

// approve makes the device that shows a code the caller's.
func (s *Server) approve(w http.ResponseWriter, r *http.Request, c control.Caller) {
	var a Approval
	if !readBody(w, r, &a, `{"code":"123456"}`) {
		return
	}
	people, ok := s.about(w, r, c, a.User)
	if !ok {
		return
	}
	if len(people) != 1 {
		fail(w, http.StatusBadRequest, fmt.Sprintf("there are %d people; say whose device it is to be (user, or --user NAME)", len(people)))
		return
	}
	if a.Name != "" && !s.goodName(w, a.Name) {
		return
	}
	bot, ok := s.botOf(w, r, people[0].ID, a.Bot)
	if !ok {
		return
	}
	d, err := s.Accounts.ApproveDevice(r.Context(), account.NewDevice{Person: people[0].ID, Code: a.Code, Name: a.Name, Bot: bot})
	if err != nil {
		s.deviceFails(w, r, err)
		return
	}
	s.replyDevice(w, r, c, d)
}

func (s *Server) showDevice(w http.ResponseWriter, r *http.Request, c control.Caller) {
	if d, ok := s.device(w, r, c); ok {
		s.replyDevice(w, r, c, d)
	}
}

// DeviceChange is the body of PATCH /api/v1/devices/{device}; what is null stays.
type DeviceChange struct {
	Name *string `json:"name,omitempty"`
	// Bot is the number or the name of one of the owner's bots, or [NoBot].
	Bot *string `json:"bot,omitempty"`
	// Transport is one of the store's, or [DefaultTransport].
	Transport *string `json:"transport,omitempty"`
}

// changeDevice renames and binds a device, and says how it is to connect. Nothing is
// changed if something of it makes no sense.
func (s *Server) changeDevice(w http.ResponseWriter, r *http.Request, c control.Caller) {
	d, ok := s.device(w, r, c)
	if !ok {
		return
	}
	var change DeviceChange
	if !readBody(w, r, &change, `{"name":"kitchen","bot":"1","transport":"default"}`) {
		return
	}
	if change == (DeviceChange{}) {
		fail(w, http.StatusBadRequest, "nothing to change is given: name, bot or transport")
		return
	}
	steps, ok := s.deviceSteps(w, r, d, change)
	if !ok {
		return
	}
	for _, step := range steps {
		if err := step(); err != nil {
			s.deviceFails(w, r, err)
			return
		}
	}
	d, err := s.Board.Store.Devices.ByNumber(r.Context(), d.Number)
	if err != nil {
		s.deviceFails(w, r, err)
		return
	}
	s.replyDevice(w, r, c, d)
}

// deviceSteps are what has to be done for a change. If it is false, the caller has
// been told why not.
func (s *Server) deviceSteps(w http.ResponseWriter, r *http.Request, d store.Device, change DeviceChange) (steps []func() error, ok bool) {
	if change.Transport != nil {
		transport, err := ParseTransport(*change.Transport)
		if err != nil {
			fail(w, http.StatusBadRequest, err.Error())
			return nil, false
		}
		steps = append(steps, func() error { return s.Board.Store.Devices.SetTransport(r.Context(), d.Number, transport) })
	}
	if change.Bot != nil {
		bot, ok := s.botOf(w, r, d.Owner, *change.Bot)
		if !ok {
			return nil, false
		}
		steps = append(steps, func() error { return s.Accounts.BindDevice(r.Context(), d.Number, bot) })
	}
	if change.Name != nil {
		if !s.goodName(w, *change.Name) {
			return nil, false
		}
		// First, since it is what can fail still.
		steps = slices.Insert(steps, 0, func() error { return s.Accounts.RenameDevice(r.Context(), d.Number, *change.Name) })
	}
	return steps, true
}

// ParseTransport reads a transport as owners write it.
func ParseTransport(text string) (string, error) {
	switch text {
	case store.TransportSocket, store.TransportMQTT:
		return text, nil
	case DefaultTransport, "":
		return "", nil
	}
	return "", fmt.Errorf("transport is %q; it can be %s, %s or %s", text, store.TransportSocket, store.TransportMQTT, DefaultTransport)
}

func (s *Server) removeDevice(w http.ResponseWriter, r *http.Request, c control.Caller) {
	d, ok := s.device(w, r, c)
	if !ok {
		return
	}
	if err := s.Board.Store.Devices.Remove(r.Context(), d.Number); err != nil {
		s.deviceFails(w, r, err)
		return
	}
	reply(w, map[string]any{"id": d.Number, "removed": true})
}

// device finds the device that a request names. Those of others look as if they did
// not exist. If it is false, the caller has been told.
func (s *Server) device(w http.ResponseWriter, r *http.Request, c control.Caller) (store.Device, bool) {
	d, err := s.Accounts.FindDevice(r.Context(), c.Owner(), r.PathValue("device"))
	if errors.Is(err, store.ErrNotFound) {
		fail(w, http.StatusNotFound, fmt.Sprintf("there is no device %q", r.PathValue("device")))
		return d, false
	}
	if err != nil {
		s.deviceFails(w, r, err)
		return d, false
	}
	return d, true
}

// botOf finds one of an owner's bots by number or name; it is 0 for none.
func (s *Server) botOf(w http.ResponseWriter, r *http.Request, owner, ref string) (int64, bool) {
	if ref == "" || ref == NoBot {
		return 0, true
	}
	b, err := s.Board.Registry.Find(r.Context(), owner, ref)
	if errors.Is(err, store.ErrNotFound) {
		fail(w, http.StatusNotFound, fmt.Sprintf("the owner of the device has no bot %q", ref))
		return 0, false
	}
	if err != nil {
		s.broken(w, r, err)
		return 0, false
	}
	return b.Number, true
}

// goodName says whether a name can be a device's. Those that cannot never come as far
// as the account, so that its other errors are our own fault.
func (s *Server) goodName(w http.ResponseWriter, name string) bool {
	if err := account.CheckName(strings.TrimSpace(name)); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return false
	}
	return true
}

// deviceFails answers a device that is not approved, found or changed.
func (s *Server) deviceFails(w http.ResponseWriter, r *http.Request, err error) {
	status, text := DeviceTrouble(err)
	if status == 0 {
		s.broken(w, r, err)
		return
	}
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "600")
	}
	fail(w, status, text)
}

// DeviceTrouble says what a person can do about an error of the accounts that
// concerns a device, and the status that goes with it, which is 0 for all others.
func DeviceTrouble(err error) (status int, text string) {
	switch {
	case errors.Is(err, account.ErrCodeUnknown):
		return http.StatusNotFound, "no device shows this code; it is good for a quarter of an hour, so read it from the device again"
	case errors.Is(err, account.ErrTooManyTries):
		return http.StatusTooManyRequests, "too many codes were tried; wait ten minutes"
	case errors.Is(err, account.ErrDeviceTaken):
		return http.StatusConflict, "the device belongs to somebody else, who has to remove it first (patchbay device rm)"
	case errors.Is(err, account.ErrDeviceName):
		return http.StatusConflict, "another device of the same owner has this name; choose another name"
	case errors.Is(err, account.ErrDeviceVague):
		return http.StatusConflict, "several people have a device of this name; use its number"
	case errors.Is(err, account.ErrNoBot):
		return http.StatusNotFound, "the owner of the device has no such bot"
	case errors.Is(err, store.ErrNotFound):
		return http.StatusNotFound, "the device is not there any more"
	}
	return 0, ""
}

func (s *Server) replyDevice(w http.ResponseWriter, r *http.Request, c control.Caller, d store.Device) {
	rows, err := s.deviceRows(r.Context(), c, []store.Device{d})
	if err != nil {
		s.broken(w, r, err)
		return
	}
	reply(w, rows[0])
}

// readBody reads a small body of JSON. If it is false, the caller has been told what
// is wanted.
func readBody(w http.ResponseWriter, r *http.Request, into any, wanted string) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxDeviceBody))
	if err != nil || json.Unmarshal(body, into) != nil {
		fail(w, http.StatusBadRequest, "the body is not what is wanted: "+wanted)
		return false
	}
	return true
}
