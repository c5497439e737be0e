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
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Device is a device as /api/v1/devices lists it.
type Device struct {
	store.Device
	OwnerName string `json:"owner_name,omitempty"`
	BotName   string `json:"bot_name,omitempty"`
	// Online says that it is connected, here or at another instance. One that is not
	// is asleep.
	Online bool `json:"online"`
	// Uses is the transport that it connects by: what its owner chose, or what the server
	// chooses otherwise.
	Uses string `json:"uses,omitempty"`
	// Waiting says that it shows a code. One that has an owner was erased, or
	// something else pretends to be it.
	Waiting bool `json:"waiting,omitempty"`
}

// MaxDevices is how many devices an answer lists at most. They have some 600 bytes
// each, so that it protects both sides from answers of many MiB.
const MaxDevices = 1000

// DefaultTransport is what a [DeviceChange] calls the transport that the server
// chooses.
const DefaultTransport = "default"

// NoBot is what a [DeviceChange] names so that no bot answers a device.
const NoBot = "none"

// DeviceRef names a device.
type DeviceRef struct {
	Device string `path:"device"` // number, name or hardware address
}

// DeviceQuery says which devices are wanted.
type DeviceQuery struct {
	After int64  `query:"after"` // the number before the first
	Limit int    `query:"limit"` // how many at most; 0: [MaxDevices]
	Text  string `query:"text"`  // in the name or the hardware address; empty: any
}

// Devices are some of somebody's devices, by number.
type Devices struct {
	Devices []Device `json:"devices"`
	// Next, if it is not 0, is to be asked for with After for those that follow.
	Next int64 `json:"next,omitempty"`
}

// Waiting are the devices that show a code. Which ones do is for admins alone; the
// codes are for nobody but who stands before the device.
type Waiting struct {
	Count   int      `json:"count"`
	Devices []Device `json:"devices,omitempty"`
}

// Approval says how somebody wants to have the device that shows a code.
type Approval struct {
	Code string `json:"code"`           // spaces and dashes do not count
	Name string `json:"name,omitempty"` // empty: the one it has, or one is made
	Bot  string `json:"bot,omitempty"`  // number or name of one of the owner's; empty: the one it has, or none
	User string `json:"user,omitempty"` // whose device it is to be, if an admin says so
}

// DeviceChange is what is to be changed about a device; what is nil stays.
type DeviceChange struct {
	Name *string `json:"name,omitempty"`
	// Bot is the number or the name of one of the owner's bots, or [NoBot].
	Bot *string `json:"bot,omitempty"`
	// Transport is one of the store's, or [DefaultTransport].
	Transport *string `json:"transport,omitempty"`
}

var (
	sayNoDevice       = talk.Say{Zh: "没有设备 %q。", En: "there is no device %q"}
	sayNoDeviceBot    = talk.Say{Zh: "设备的主人没有机器人 %q。", En: "the owner of the device has no bot %q"}
	sayNoDeviceChange = talk.Say{Zh: "没有说要改什么：name、bot 或 transport。",
		En: "nothing to change is given: name, bot or transport"}
	sayWhose = talk.Say{Zh: "这里有 %d 个人；请说明设备归谁（user，或 --user 用户名）。",
		En: "there are %d people; say whose device it is to be (user, or --user NAME)"}
	sayNamesOthers = talk.Say{Zh: "要指定别人，需要权限为 admin 的密钥。",
		En: "a key with scope admin is needed to name somebody else"}
	sayNobody      = talk.Say{Zh: "没有叫 %q 的人。", En: "there is nobody named %q"}
	sayTransports  = talk.Say{Zh: "连接方式不能是 %q；可以是 %s、%s 或 %s。", En: "transport is %q; it can be %s, %s or %s"}
	sayCodeUnknown = talk.Say{Zh: "没有设备显示这个验证码。验证码一刻钟内有效，请再看一眼设备。",
		En: "no device shows this code; it is good for a quarter of an hour, so read it from the device again"}
	sayManyCodes   = talk.Say{Zh: "试过的验证码太多了，请等十分钟。", En: "too many codes were tried; wait ten minutes"}
	sayDeviceTaken = talk.Say{Zh: "这个设备是别人的，要由主人先移除（patchbay device rm）。",
		En: "the device belongs to somebody else, who has to remove it first (patchbay device rm)"}
	sayDeviceName = talk.Say{Zh: "同一个主人已有同名的设备，请换一个名字。",
		En: "another device of the same owner has this name; choose another name"}
	sayDeviceVague = talk.Say{Zh: "几个人都有叫这个名字的设备，请用编号。",
		En: "several people have a device of this name; use its number"}
	sayNotOwnersBot = talk.Say{Zh: "设备的主人没有这个机器人。", En: "the owner of the device has no such bot"}
	sayDeviceGone   = talk.Say{Zh: "这个设备已经不在了。", En: "the device is not there any more"}
)

// DeviceError finds the words for what a person can do something about in an error of
// the accounts that concerns a device; nil for all others.
func DeviceError(err error) *Error {
	for _, known := range []struct {
		err    error
		reason Reason
		say    talk.Say
	}{
		{account.ErrCodeUnknown, Missing, sayCodeUnknown}, {account.ErrTooManyTries, TooMany, sayManyCodes},
		{account.ErrDeviceTaken, Conflict, sayDeviceTaken}, {account.ErrDeviceName, Conflict, sayDeviceName},
		{account.ErrDeviceVague, Conflict, sayDeviceVague}, {account.ErrNoBot, Missing, sayNotOwnersBot},
		{store.ErrNotFound, Missing, sayDeviceGone},
	} {
		if errors.Is(err, known.err) {
			return &Error{Reason: known.reason, Say: known.say, Cause: err}
		}
	}
	return nil
}

// describeDeviceError is an error about a device, in words if there are some.
func describeDeviceError(err error) error {
	if e := DeviceError(err); e != nil {
		return e
	}
	return err
}

// FindDevice finds a device of the caller.
func (s *Service) FindDevice(ctx context.Context, c Caller, ref string) (store.Device, error) {
	d, err := s.Accounts.FindDevice(ctx, c.Owner(), ref)
	if errors.Is(err, store.ErrNotFound) {
		return d, Fail(Missing, sayNoDevice, ref)
	}
	if err != nil {
		return d, describeDeviceError(err)
	}
	return d, nil
}

// Awake reports whether a device is connected: then some instance holds it.
func (s *Service) Awake(number int64) bool {
	_, held, _ := s.Hub.FindProvider(hub.DeviceProviderID(number))
	return held
}

// ShowsCode reports whether a device shows a code now.
func ShowsCode(d store.Device) bool { return d.CodeHash != "" && time.Now().Before(d.CodeExpires) }

// Devices lists the caller's devices by number, by pages.
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

// Device shows one device of the caller.
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

// deviceRows adds to devices what else is known about them.
func (s *Service) deviceRows(ctx context.Context, c Caller, list []store.Device) ([]Device, error) {
	people, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	bots, err := botNames(ctx, s.Hub.Store, c.Owner())
	if err != nil {
		return nil, err
	}
	out := make([]Device, len(list))
	for i, d := range list {
		out[i] = Device{Device: d, OwnerName: people[d.Owner], BotName: bots[d.Bot], Uses: s.transport(d),
			Online: s.Awake(d.Number), Waiting: ShowsCode(d)}
	}
	return out, nil
}

// transport is how a device connects; empty if nobody knows.
func (s *Service) transport(d store.Device) string {
	if s.Transport == nil {
		return d.Transport
	}
	return s.Transport(d.Transport)
}

// WaitingDevices counts the devices that show a code, and lists them for admins.
func (s *Service) WaitingDevices(ctx context.Context, c Caller) (Waiting, error) {
	list, err := s.Hub.Store.Devices.Waiting(ctx, time.Now())
	out := Waiting{Count: len(list)}
	if err == nil && c.Admin {
		out.Devices, err = s.deviceRows(ctx, c, list)
	}
	return out, err
}

// ApproveDevice makes the device that shows a code the caller's, or, if an admin says
// so, somebody else's. Whoever talks to it then is bound by no key.
func (s *Service) ApproveDevice(ctx context.Context, c Caller, a Approval) (Device, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return Device{}, err
	}
	owner, err := s.deviceOwner(ctx, c, a.User)
	if err != nil {
		return Device{}, err
	}
	if a.Name != "" {
		if err := validDeviceName(a.Name); err != nil {
			return Device{}, err
		}
	}
	bot, err := s.deviceBot(ctx, owner, a.Bot)
	if err != nil {
		return Device{}, err
	}
	d, err := s.Accounts.ApproveDevice(ctx, account.NewDevice{Person: owner, Code: a.Code, Name: a.Name, Bot: bot})
	if err != nil {
		return Device{}, describeDeviceError(err)
	}
	s.Logger.InfoContext(ctx, "a device was approved", "device", d.Number, "person", c.Person, "key", c.Key)
	s.RecordAdminEvent(ctx, c, EventDeviceApproved, aboutDevice(d))
	return s.deviceRow(ctx, c, d)
}

// deviceOwner is whose a device is to be: whom the caller names, which only admins do
// of others, or the caller. The command line acts for the only person there is.
func (s *Service) deviceOwner(ctx context.Context, c Caller, name string) (id string, err error) {
	if name != "" {
		p, err := s.Hub.Store.People.ByName(ctx, name)
		switch {
		case err != nil && !errors.Is(err, store.ErrNotFound):
			return "", err
		case !c.Admin && (err != nil || p.ID != c.Person):
			return "", Fail(Refused, sayNamesOthers)
		case err != nil:
			return "", Fail(Missing, sayNobody, name)
		}
		return p.ID, nil
	}
	if c.Person != "" {
		return c.Person, nil
	}
	people, err := s.Hub.Store.People.All(ctx)
	if err != nil {
		return "", err
	}
	if len(people) != 1 {
		return "", Fail(Invalid, sayWhose, len(people))
	}
	return people[0].ID, nil
}

// ChangeDevice renames and binds a device, and says how it is to connect. With its name,
// those of its tools change, which rules are about. Nothing is
// changed if something of it makes no sense.
func (s *Service) ChangeDevice(ctx context.Context, c Caller, ref string, change DeviceChange) (Device, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return Device{}, err
	}
	d, err := s.FindDevice(ctx, c, ref)
	if err != nil {
		return Device{}, err
	}
	if change == (DeviceChange{}) {
		return Device{}, Fail(Invalid, sayNoDeviceChange)
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

// aboutDevice names a device in the journal.
func aboutDevice(d store.Device) string {
	return fmt.Sprintf("#%d %s (%s)", d.Number, d.Name, d.Hardware)
}

// deviceSteps are what has to be done for a change.
func (s *Service) deviceSteps(ctx context.Context, d store.Device,
	change DeviceChange) (steps []func() error, err error) {
	if change.Transport != nil {
		transport, ok := parseTransport(*change.Transport)
		if !ok {
			return nil, Fail(Invalid, sayTransports, *change.Transport, store.TransportSocket, store.TransportMQTT,
				DefaultTransport)
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
	if change.Name != nil {
		if err := validDeviceName(*change.Name); err != nil {
			return nil, err
		}
		// First, since it is what can fail still.
		steps = slices.Insert(steps, 0, func() error { return s.Accounts.RenameDevice(ctx, d.Number, *change.Name) })
	}
	return steps, nil
}

var sayTransport = talk.Say{Zh: "transport 是 %q；它可以是 %s、%s 或 %s", En: "transport is %q; it can be %s, %s or %s"}

// ParseTransport reads a transport as owners write it.
func ParseTransport(text string) (string, error) {
	transport, ok := parseTransport(text)
	if !ok {
		return "", sayTransport.Wrong(text, store.TransportSocket, store.TransportMQTT, DefaultTransport)
	}
	return transport, nil
}

func parseTransport(text string) (string, bool) {
	switch text {
	case store.TransportSocket, store.TransportMQTT:
		return text, true
	case DefaultTransport, "":
		return "", true
	}
	return "", false
}

// deviceBot finds one of an owner's bots by number or name; it is 0 for none.
func (s *Service) deviceBot(ctx context.Context, owner, ref string) (int64, error) {
	if ref == "" || ref == NoBot {
		return 0, nil
	}
	b, err := s.Hub.Registry.Find(ctx, owner, ref)
	if errors.Is(err, store.ErrNotFound) {
		return 0, Fail(Missing, sayNoDeviceBot, ref)
	}
	if err != nil {
		return 0, err
	}
	return b.Number, nil
}

// validDeviceName reports whether a name can be a device's. Those that cannot never come as
// far as the account, so that its other errors are our own fault.
func validDeviceName(name string) error {
	if err := account.CheckName(strings.TrimSpace(name)); err != nil {
		return said(Invalid, err)
	}
	return nil
}

// RemoveDevice takes a device out. If it calls again, whoever types in its code has it.
func (s *Service) RemoveDevice(ctx context.Context, c Caller, ref string) (number int64, err error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return 0, err
	}
	d, err := s.FindDevice(ctx, c, ref)
	if err != nil {
		return 0, err
	}
	if err := s.Hub.Store.Devices.Remove(ctx, d.Number); err != nil {
		return 0, describeDeviceError(err)
	}
	s.Logger.InfoContext(ctx, "a device was removed", "device", d.Number, "person", c.Person, "key", c.Key)
	s.RecordAdminEvent(ctx, c, EventDeviceRemoved, aboutDevice(d))
	return d.Number, nil
}
