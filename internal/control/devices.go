package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Device is a device in the list of /api/v1/devices.
type Device struct {
	store.Device
	OwnerName string `json:"owner_name,omitempty"`
	BotName   string `json:"bot_name,omitempty"`
	// Online reports whether it is connected, here or to another instance. Otherwise it is asleep.
	Online bool `json:"online"`
	// Uses is the transport that it connects with: the owner's choice, or the server's default.
	Uses string `json:"uses,omitempty"`
	// Mute is why its bot cannot talk through it, if it is a board: [MuteEngines], [MuteSetting],
	// or empty if it can or there is no bot.
	Mute string `json:"mute,omitempty"`
	// Waiting reports whether it shows a pairing code. A device with an owner that shows one was
	// erased, or something else pretends to be it.
	Waiting bool `json:"waiting,omitempty"`
}

// MaxDevices limits the devices of a response. Each takes some 600 bytes, so both sides are
// protected from responses of many MiB.
const MaxDevices = 1000

// DefaultTransport stands for the server's default transport in a [DeviceChange].
const DefaultTransport = "default"

// NoBot stands for no bot in a [DeviceChange].
const NoBot = "none"

// DeviceRef identifies a device.
type DeviceRef struct {
	Device string `path:"device"` // number, name or hardware address
}

// DeviceQuery selects devices.
type DeviceQuery struct {
	After int64  `query:"after"` // the number after which the page starts
	Limit int    `query:"limit"` // how many a page has at most; 0: [MaxDevices]
	Text  string `query:"text"`  // part of the name, room or hardware address; empty: any
}

// Devices is a page of devices, by number.
type Devices struct {
	Devices []Device `json:"devices"`
	// Next is the value of After for the next page; 0 on the last page.
	Next int64 `json:"next,omitempty"`
}

// Waiting are the devices that show a pairing code. Only admins get the list; nobody gets the
// codes, which only the person at the device can read.
type Waiting struct {
	Count   int      `json:"count"`
	Devices []Device `json:"devices,omitempty"`
}

// Approval approves the device that shows a pairing code.
type Approval struct {
	Code string `json:"code"`           // spaces and dashes do not count
	Name string `json:"name,omitempty"` // empty: the one it has, or one is made
	Room string `json:"room,omitempty"` // where it is; empty: the one it has, or none
	Bot  string `json:"bot,omitempty"`  // number or name of one of the owner's; empty: the one it has, or none
	User string `json:"user,omitempty"` // the new owner, if an admin names one
}

// DeviceChange changes a device; nil fields stay.
type DeviceChange struct {
	Device string  `path:"device" json:"-"` // number, name or hardware address
	Name   *string `json:"name,omitempty"`
	Room   *string `json:"room,omitempty"` // where it is; empty: not known
	// Bot is the number or name of one of the owner's bots, or [NoBot].
	Bot *string `json:"bot,omitempty"`
	// Transport is one of the store's, or [DefaultTransport].
	Transport *string `json:"transport,omitempty"`
}

const (
	msgNoDevice       = i18n.Message("there is no device %q")
	msgNoDeviceBot    = i18n.Message("the owner of the device has no bot %q")
	msgNoDeviceChange = i18n.Message("nothing to change is given: name, room, bot or transport")
	msgTransports     = i18n.Message("transport is %q; it can be %s, %s or %s")
	msgCodeUnknown    = i18n.Message("no device shows this code; it is good for a quarter of an hour, so read it from the device again")
	msgManyCodes      = i18n.Message("too many codes were tried; wait ten minutes")
	msgDeviceTaken    = i18n.Message("the device belongs to somebody else, who has to remove it first (patchbay device rm)")
	msgDeviceName     = i18n.Message("another device of the same owner has this name; choose another name")
	msgDeviceVague    = i18n.Message("several people have a device of this name; use its number")
	msgNotOwnersBot   = i18n.Message("the owner of the device has no such bot")
	msgDeviceGone     = i18n.Message("the device is not there any more")
)

// describeDeviceError converts an error of the accounts about a device into one that a person can
// act on; it returns all others as they are.
func describeDeviceError(err error) error {
	for _, known := range []struct {
		err  error
		code problem.Code
		text i18n.Message
	}{
		{account.ErrCodeUnknown, problem.NotFound, msgCodeUnknown},
		{account.ErrTooManyTries, problem.RateLimited, msgManyCodes},
		{account.ErrDeviceTaken, problem.Conflict, msgDeviceTaken},
		{account.ErrDeviceName, problem.Conflict, msgDeviceName},
		{account.ErrDeviceVague, problem.Conflict, msgDeviceVague},
		{account.ErrNoBot, problem.NotFound, msgNotOwnersBot},
		{store.ErrNotFound, problem.NotFound, msgDeviceGone},
	} {
		if errors.Is(err, known.err) {
			e := problem.New(known.code, known.text).Because(err)
			if known.code == problem.RateLimited {
				e.Retry = 10 * time.Minute
			}
			return e
		}
	}
	return err
}

// FindDevice returns a device of the caller.
func (s *Service) FindDevice(ctx context.Context, c Caller, ref string) (store.Device, error) {
	d, err := s.Accounts.FindDevice(ctx, c.Owner(), ref)
	if errors.Is(err, store.ErrNotFound) {
		return d, problem.New(problem.NotFound, msgNoDevice, ref)
	}
	return d, describeDeviceError(err)
}

// Awake reports whether a device is connected to some instance.
func (s *Service) Awake(number int64) bool {
	_, held, _ := s.Hub.FindProvider(hub.DeviceProviderID(number))
	return held
}

// showsCode reports whether a device shows a pairing code now.
func showsCode(d store.Device) bool { return d.CodeHash != "" && time.Now().Before(d.CodeExpires) }

// Devices lists the caller's devices by number, in pages.
func (s *Service) Devices(ctx context.Context, c Caller, q DeviceQuery) (Devices, error) {
	if q.Limit < 1 || q.Limit > MaxDevices {
		q.Limit = MaxDevices
	}
	list, err := s.Hub.Store.Devices.Search(ctx, store.DeviceSearch{Owner: c.Owner(), Text: strings.TrimSpace(q.Text),
		After: q.After, Limit: q.Limit + 1})
	if err != nil {
		return Devices{}, err
	}
	var next int64
	if len(list) > q.Limit {
		list = list[:q.Limit]
		next = list[len(list)-1].Number
	}
	rows, err := s.deviceRows(ctx, c, list)
	return Devices{rows, next}, err
}

// Device returns one device of the caller.
func (s *Service) Device(ctx context.Context, c Caller, in DeviceRef) (Device, error) {
	d, err := s.FindDevice(ctx, c, in.Device)
	if err != nil {
		return Device{}, err
	}
	return s.deviceRow(ctx, c, d)
}

func (s *Service) deviceRow(ctx context.Context, c Caller, d store.Device) (Device, error) {
	rows, err := s.deviceRows(ctx, c, []store.Device{d})
	if err != nil {
		return Device{}, err
	}
	return rows[0], nil
}

// deviceRows completes devices with what the hub and the plugs know about them.
func (s *Service) deviceRows(ctx context.Context, c Caller, list []store.Device) ([]Device, error) {
	people, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	bots, err := s.Hub.Store.Bots.Usable(ctx, c.Owner())
	if err != nil {
		return nil, err
	}
	byNumber := make(map[int64]store.Bot, len(bots))
	for _, b := range bots {
		byNumber[b.Number] = b
	}
	out := make([]Device, len(list))
	for i, d := range list {
		b := byNumber[d.Bot]
		out[i] = Device{Device: d, OwnerName: people[d.Owner], BotName: b.Name, Uses: s.transport(d),
			Online: s.Awake(d.Number), Mute: s.mute(b), Waiting: showsCode(d)}
	}
	return out, nil
}

// mute returns why a bot cannot talk through boards; empty: it can, or there is none.
func (s *Service) mute(b store.Bot) string {
	if b.Number == 0 || s.Voice.Mute == nil {
		return ""
	}
	return s.Voice.Mute(b.Kind)
}

// transport returns the transport of a device; empty if it is not known.
func (s *Service) transport(d store.Device) string {
	if s.Transport == nil {
		return d.Transport
	}
	return s.Transport(d.Transport)
}

// WaitingDevices counts the devices that show a pairing code, and lists them for admins.
func (s *Service) WaitingDevices(ctx context.Context, c Caller, _ Empty) (Waiting, error) {
	list, err := s.Hub.Store.Devices.Waiting(ctx, time.Now())
	out := Waiting{Count: len(list)}
	if err == nil && c.Admin {
		out.Devices, err = s.deviceRows(ctx, c, list)
	}
	return out, err
}

// ApproveDevice gives the device that shows a pairing code to the caller or, if an admin names
// somebody, to that person. Its turns are not restricted by a key.
func (s *Service) ApproveDevice(ctx context.Context, c Caller, a Approval) (Device, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return Device{}, err
	}
	owner, err := s.singlePerson(ctx, c, a.User)
	if err != nil {
		return Device{}, err
	}
	if a.Name != "" {
		if err := validDeviceName(a.Name); err != nil {
			return Device{}, err
		}
	}
	if err := validRoom(a.Room); err != nil {
		return Device{}, err
	}
	bot, err := s.deviceBot(ctx, owner.ID, a.Bot)
	if err != nil {
		return Device{}, err
	}
	d, err := s.Accounts.ApproveDevice(ctx, account.NewDevice{Person: owner.ID, Code: a.Code, Name: a.Name,
		Room: a.Room, Bot: bot})
	if err != nil {
		return Device{}, describeDeviceError(err)
	}
	s.Logger.InfoContext(ctx, "a device was approved", "device", d.Number, "person", c.Person, "key", c.Key)
	s.RecordAdminEvent(ctx, c, EventDeviceApproved, aboutDevice(d))
	return s.deviceRow(ctx, c, d)
}

// ChangeDevice renames and binds a device and sets its room and transport. Renaming changes the
// names of its tools, which rules refer to. If a part is invalid, nothing changes.
func (s *Service) ChangeDevice(ctx context.Context, c Caller, change DeviceChange) (Device, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return Device{}, err
	}
	d, err := s.FindDevice(ctx, c, change.Device)
	if err != nil {
		return Device{}, err
	}
	if change.Name == nil && change.Room == nil && change.Bot == nil && change.Transport == nil {
		return Device{}, problem.New(problem.Invalid, msgNoDeviceChange)
	}
	steps, err := s.deviceSteps(ctx, d, change)
	if err != nil {
		return Device{}, err
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return Device{}, describeDeviceError(err)
		}
	}
	if d, err = s.Hub.Store.Devices.ByNumber(ctx, d.Number); err != nil {
		return Device{}, describeDeviceError(err)
	}
	s.RecordAdminEvent(ctx, c, EventDeviceChanged, aboutDevice(d))
	return s.deviceRow(ctx, c, d)
}

// aboutDevice describes a device in admin events.
func aboutDevice(d store.Device) string {
	return fmt.Sprintf("#%d %s (%s)", d.Number, d.Name, d.Hardware)
}

// deviceSteps returns the steps of a change.
func (s *Service) deviceSteps(ctx context.Context, d store.Device,
	change DeviceChange) (steps []func() error, err error) {
	if change.Transport != nil {
		transport, ok := parseTransport(*change.Transport)
		if !ok {
			return nil, problem.New(problem.Invalid, msgTransports, *change.Transport, store.TransportSocket,
				store.TransportMQTT, DefaultTransport)
		}
		steps = append(steps, func() error { return s.Hub.Store.Devices.SetTransport(ctx, d.Number, transport) })
	}
	if change.Bot != nil {
		bot, err := s.deviceBot(ctx, d.Owner, *change.Bot)
		if err != nil {
			return nil, err
		}
		steps = append(steps, func() error { return s.Accounts.BindDevice(ctx, d.Number, bot) })
	}
	if change.Room != nil {
		if err := validRoom(*change.Room); err != nil {
			return nil, err
		}
		steps = append(steps, func() error { return s.Accounts.SetDeviceRoom(ctx, d.Number, *change.Room) })
	}
	if change.Name != nil {
		if err := validDeviceName(*change.Name); err != nil {
			return nil, err
		}
		// First, because it can still fail.
		steps = slices.Insert(steps, 0, func() error { return s.Accounts.RenameDevice(ctx, d.Number, *change.Name) })
	}
	return steps, nil
}

// parseTransport parses a transport as owners write it.
func parseTransport(text string) (string, bool) {
	switch text {
	case store.TransportSocket, store.TransportMQTT:
		return text, true
	case DefaultTransport, "":
		return "", true
	}
	return "", false
}

// deviceBot returns a bot that the owner of a device may ask by number or name; 0 for none.
func (s *Service) deviceBot(ctx context.Context, owner, ref string) (int64, error) {
	if ref == "" || ref == NoBot {
		return 0, nil
	}
	b, err := s.Hub.Registry.FindUsable(ctx, owner, ref)
	if errors.Is(err, store.ErrNotFound) {
		return 0, problem.New(problem.NotFound, msgNoDeviceBot, ref)
	}
	if err != nil {
		return 0, err
	}
	return b.Number, nil
}

// validDeviceName reports whether a name is valid for a device. Invalid ones are refused here, so
// other errors of the account are internal.
func validDeviceName(name string) error {
	if err := account.CheckName(strings.TrimSpace(name)); err != nil {
		return InputProblem(problem.Invalid, err)
	}
	return nil
}

// validRoom reports whether a name is valid for a room.
func validRoom(room string) error {
	if err := account.CheckRoom(strings.TrimSpace(room)); err != nil {
		return InputProblem(problem.Invalid, err)
	}
	return nil
}

// maxRooms is how many rooms a form suggests. It protects the page.
const maxRooms = 100

// Rooms lists the rooms of the caller's devices, in alphabetical order of the caller's language.
func (s *Service) Rooms(ctx context.Context, c Caller) ([]string, error) {
	rooms, err := s.Hub.Store.Devices.Rooms(ctx, c.Owner(), maxRooms)
	slices.SortFunc(rooms, c.Lang.Compare)
	return rooms, err
}

// RemovedDevice is the response to the removal of a device.
type RemovedDevice struct {
	ID      int64 `json:"id"`
	Removed bool  `json:"removed"`
}

// RemoveDevice removes a device. When it calls home again, it belongs to whoever enters its pairing
// code.
func (s *Service) RemoveDevice(ctx context.Context, c Caller, in DeviceRef) (RemovedDevice, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return RemovedDevice{}, err
	}
	d, err := s.FindDevice(ctx, c, in.Device)
	if err != nil {
		return RemovedDevice{}, err
	}
	if err := s.Hub.Store.Devices.Remove(ctx, d.Number); err != nil {
		return RemovedDevice{}, describeDeviceError(err)
	}
	s.Logger.InfoContext(ctx, "a device was removed", "device", d.Number, "person", c.Person, "key", c.Key)
	s.RecordAdminEvent(ctx, c, EventDeviceRemoved, aboutDevice(d))
	return RemovedDevice{d.Number, true}, nil
}
