package account

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	// DeviceCodeLife is how long a device may show a code before it is given another.
	DeviceCodeLife = 15 * time.Minute
	// deviceCodeSpare is what must be left of that when a device is told its code: it
	// shows it for half a minute at least before it calls again, and somebody has to
	// find the place to type it in.
	deviceCodeSpare = 3 * time.Minute
	// deviceTries is how many wrong codes a person may type in codeWindow. The chance to hit
	// one of 10 devices that wait is then 1 in 5,000 a window. Right ones do not count: a box
	// of boards has many.
	deviceTries = 20
	// deviceNames is how many names are tried for a device that is not given one.
	deviceNames = 100
)

// Why a device is not approved, or not bound.
var (
	ErrCodeUnknown = talk.Say{Zh: "没有设备显示这个验证码", En: "no device shows this code"}.Wrong()
	ErrDeviceTaken = talk.Say{Zh: "这个设备属于别人，要由对方先移除", En: "the device belongs to somebody else, who has to remove it first"}.Wrong()
	ErrDeviceName  = talk.Say{Zh: "另一个设备已经叫这个名称", En: "another device has this name"}.Wrong()
	ErrNoBot       = talk.Say{Zh: "设备的主人没有这个机器人", En: "the owner of the device has no such bot"}.Wrong()
	ErrDeviceVague = talk.Say{Zh: "有好几个设备叫这个名称；请说明编号", En: "several devices are called this; say the number of one"}.Wrong()
)

// DeviceID is what a device says who it is.
type DeviceID struct{ Kind, Hardware, Client string }

// NewDevice is how a person wants to have the device that shows a code.
type NewDevice struct {
	Person string // id
	Code   string // six digits; spaces and dashes do not count
	Name   string // empty: the one it has, or one is made
	Bot    int64  // one of the person's; 0: the one it has, or none
}

// DeviceSeen notes a call home. The code is what the device is to show until a
// person types it in; it is empty if the device is approved. A device that calls
// again is told the same code, whatever has been restarted meanwhile, unless that
// code is about to expire.
func (s *Service) DeviceSeen(ctx context.Context, c store.DeviceCall) (d store.Device, code string, err error) {
	if c.At.IsZero() {
		c.At = s.now()
	}
	// Codes of others may be the same, and the device may call twice at a time.
	for range 10 {
		d, err = s.db.Devices.Seen(ctx, c)
		if err != nil || d.Is(c.Client) {
			return d, "", err
		}
		if d.CodeHash != "" && d.CodeExpires.Sub(c.At) >= deviceCodeSpare {
			// A code that cannot be made again is of a secret that holds no more.
			for _, k := range s.box.Keys() {
				if code = deviceCode(k, d, d.CodeExpires); deviceCodeHash(k, code) == d.CodeHash {
					return d, code, nil
				}
			}
		}
		expires := c.At.Add(DeviceCodeLife).Truncate(time.Millisecond)
		for range 10 {
			k := s.box.Key()
			code = deviceCode(k, d, expires)
			hash := deviceCodeHash(k, code)
			err = s.db.Devices.SetCode(ctx, d, hash, expires, c.At)
			if err == nil {
				d.CodeHash, d.CodeExpires = hash, expires
				return d, code, nil
			}
			if !errors.Is(err, store.ErrExists) {
				break
			}
			expires = expires.Add(time.Millisecond)
		}
		if !errors.Is(err, store.ErrNotFound) {
			break
		}
	}
	return d, "", fmt.Errorf("make a code for a device: %w", err)
}

// deviceCode is six digits that follow from the device, who claims it, and when the
// code expires. So only its hash has to be kept.
func deviceCode(k *seal.Key, d store.Device, expires time.Time) string {
	mac, err := hex.DecodeString(k.MAC(fmt.Sprintf("device code|%d|%s|%d", d.Number, d.Claim, expires.UnixMilli())))
	if err != nil {
		panic(err) // MAC makes hex
	}
	return fmt.Sprintf("%06d", binary.BigEndian.Uint64(mac)%1_000_000)
}

func deviceCodeHash(k *seal.Key, code string) string { return k.MAC("device code hash|" + code) }

// ApproveDevice makes a person the owner of the device that shows a code, or lets a
// device of theirs in again that was erased. The error is one of [ErrCodeUnknown],
// [ErrTooManyTries], [ErrDeviceTaken], [ErrDeviceName] and [ErrNoBot] if the person
// can do something about it, or says what is wrong with the name.
func (s *Service) ApproveDevice(ctx context.Context, n NewDevice) (store.Device, error) {
	var d store.Device
	who := store.Wearer{Publisher: n.Person, UserID: "device codes"}
	err := s.guess(ctx, who, deviceTries, []error{ErrCodeUnknown, ErrDeviceTaken}, func() (err error) {
		d, err = s.approve(ctx, n, s.now())
		return err
	})
	return d, err
}

// ApproveShown is [Service.ApproveDevice] for a code that [Service.DeviceSeen] has
// just returned, where devices are let in without asking anybody. It does not count
// as a guess.
func (s *Service) ApproveShown(ctx context.Context, n NewDevice) (store.Device, error) {
	return s.approve(ctx, n, s.now())
}

func (s *Service) approve(ctx context.Context, n NewDevice, now time.Time) (store.Device, error) {
	code := strings.NewReplacer(" ", "", "-", "").Replace(n.Code)
	if len(code) != 6 || strings.Trim(code, "0123456789") != "" {
		return store.Device{}, ErrCodeUnknown
	}
	if n.Name = strings.TrimSpace(n.Name); n.Name != "" {
		if err := CheckName(n.Name); err != nil {
			return store.Device{}, err
		}
	}
	if err := s.ownBot(ctx, n.Person, n.Bot); err != nil {
		return store.Device{}, err
	}
	a := store.DeviceApproval{Owner: n.Person, Name: n.Name, Bot: n.Bot, At: now}
	d, err := store.Device{}, store.ErrNotFound
	for _, k := range s.box.Keys() {
		a.CodeHash = deviceCodeHash(k, code)
		if d, err = s.db.Devices.ByCode(ctx, a.CodeHash, now); !errors.Is(err, store.ErrNotFound) {
			break
		}
	}
	if err != nil {
		return store.Device{}, approval(err)
	}
	invent := n.Name == "" && d.Name == ""
	for i := range deviceNames {
		if invent {
			a.Name = deviceName(d, i)
		}
		d, err := s.db.Devices.Approve(ctx, a)
		if !invent || !errors.Is(err, store.ErrExists) {
			return d, approval(err)
		}
	}
	return store.Device{}, ErrDeviceName
}

// approval is what an error of the store means for the one who approves.
func approval(err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		return ErrCodeUnknown
	case errors.Is(err, store.ErrOccupied):
		return ErrDeviceTaken
	case errors.Is(err, store.ErrExists):
		return ErrDeviceName
	}
	return err
}

// deviceName is a name for a device that its owner did not name: what it is, and
// the end of its hardware address, which is on a label.
func deviceName(d store.Device, try int) string {
	name := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return -1
		}
		return r
	}, d.Article)
	if r := []rune(name); len(r) > 40 {
		name = string(r[:40])
	}
	if name = strings.TrimSpace(name); name == "" {
		name = d.Kind
	}
	end := strings.ReplaceAll(d.Hardware, ":", "")
	name += " " + end[max(0, len(end)-4):]
	if try > 0 {
		name += " " + strconv.Itoa(try+1)
	}
	return name
}

// ownBot says whether a bot, if there is one, is the person's.
func (s *Service) ownBot(ctx context.Context, person string, bot int64) error {
	if bot == 0 {
		return nil
	}
	b, err := s.db.Bots.ByNumber(ctx, bot)
	if errors.Is(err, store.ErrNotFound) || err == nil && b.Owner != person {
		return ErrNoBot
	}
	return err
}

// BindDevice has one of its owner's bots answer a device; 0 means none. No such
// device is [store.ErrNotFound].
func (s *Service) BindDevice(ctx context.Context, number, bot int64) error {
	d, err := s.db.Devices.ByNumber(ctx, number)
	if err != nil {
		return err
	}
	if err := s.ownBot(ctx, d.Owner, bot); err != nil {
		return err
	}
	return s.db.Devices.Bind(ctx, number, bot)
}

// RenameDevice gives a device another name. The error is [ErrDeviceName] if its
// owner has another of that name.
func (s *Service) RenameDevice(ctx context.Context, number int64, name string) error {
	name = strings.TrimSpace(name)
	if err := CheckName(name); err != nil {
		return err
	}
	err := s.db.Devices.Rename(ctx, number, name)
	if errors.Is(err, store.ErrExists) {
		return ErrDeviceName
	}
	return err
}

// FindDevice finds an owner's device by what a person calls it: its name, its number,
// or its hardware address in any spelling of MAC addresses. A name goes before a
// number, and a number before an address. An empty owner means everybody's devices,
// but not those that nobody owns. The error is [store.ErrNotFound] if there is none,
// or [ErrDeviceVague].
func (s *Service) FindDevice(ctx context.Context, owner, ref string) (store.Device, error) {
	ref = strings.TrimSpace(ref)
	number, _ := strconv.ParseInt(ref, 10, 64) // 0 is nobody's
	hardware := macAddress(ref)
	found, err := s.db.Devices.Find(ctx, owner, store.DeviceRef{Name: ref, Number: number, Hardware: hardware})
	if err != nil {
		return store.Device{}, err
	}
	for _, fits := range []func(store.Device) bool{
		func(d store.Device) bool { return d.Name == ref && ref != "" },
		func(d store.Device) bool { return d.Number == number },
		func(d store.Device) bool { return d.Hardware == hardware },
	} {
		switch i := slices.IndexFunc(found, fits); {
		case i < 0:
		case slices.ContainsFunc(found[i+1:], fits):
			return store.Device{}, ErrDeviceVague
		default:
			return found[i], nil
		}
	}
	return store.Device{}, store.ErrNotFound
}

// macAddress writes a MAC address as devices do, in lower case with colons. It is
// empty for everything else.
func macAddress(s string) string {
	digits := strings.NewReplacer(":", "", "-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(s))
	if len(digits) != 12 || strings.Trim(digits, "0123456789abcdef") != "" {
		return ""
	}
	var pairs []string
	for pair := range slices.Chunk([]byte(digits), 2) {
		pairs = append(pairs, string(pair))
	}
	return strings.Join(pairs, ":")
}

// The credentials below say nothing that is kept: they are checked by making them
// again. Each is bound to the device's number, to its hardware address and client
// id, and to the version of its secrets, so that it ends when the device is removed,
// erased, or its credentials are revoked. Those of sockets and of MQTT do not expire
// otherwise, because a device only gets new ones when it is turned on.

// made says whether a credential is one that is made with a key of the installation: with
// the one that seals, or with an older one that holds still.
func (s *Service) made(credential string, with func(*seal.Key) string) bool {
	same := 0
	for _, k := range s.box.Keys() {
		same |= subtle.ConstantTimeCompare([]byte(with(k)), []byte(credential))
	}
	return same == 1
}

// signature is a keyed hash over what a credential says, under a key for one
// purpose of one device.
func signature(k *seal.Key, purpose string, d store.Device, text string) []byte {
	key := k.MAC(fmt.Sprintf("device %s|%d|%d", purpose, d.Number, d.SecretVersion))
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(text))
	return h.Sum(nil)
}

// SocketToken is the token with which an approved device connects by WebSocket.
func (s *Service) SocketToken(d store.Device) string {
	return socketToken(s.box.Key(), d, strconv.FormatInt(s.now().Unix(), 10))
}

func socketToken(k *seal.Key, d store.Device, at string) string {
	return base64.RawURLEncoding.EncodeToString(signature(k, "socket", d, d.Client+"|"+d.Hardware+"|"+at)) + "." + at
}

// CheckSocket finds the device that a token was issued to. A refusal is [ErrNoKey]
// or [ErrUnknown], for which [Refused] is true.
func (s *Service) CheckSocket(ctx context.Context, id DeviceID, token string) (store.Device, error) {
	if token == "" {
		return store.Device{}, ErrNoKey
	}
	d, known, err := s.approved(ctx, id)
	if err != nil {
		return store.Device{}, err
	}
	_, at, _ := strings.Cut(token, ".")
	if same := s.made(token, func(k *seal.Key) string { return socketToken(k, d, at) }); !same || !known {
		return store.Device{}, ErrUnknown
	}
	return d, nil
}

// approved finds the device that somebody says to be, and whether it is approved
// with that client id. If not, the device is of no use, but making its credentials
// takes as long.
func (s *Service) approved(ctx context.Context, id DeviceID) (d store.Device, known bool, err error) {
	d, err = s.db.Devices.ByHardware(ctx, id.Kind, id.Hardware)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Device{}, false, nil
	case err != nil:
		return store.Device{}, false, fmt.Errorf("look up a device: %w", err)
	}
	return d, d.Is(id.Client), nil
}

// DeviceApproved says whether a device is approved with this client id.
func (s *Service) DeviceApproved(ctx context.Context, id DeviceID) (bool, error) {
	_, known, err := s.approved(ctx, id)
	return known, err
}

// MQTTLogin is with what a device connects to the MQTT broker.
type MQTTLogin struct{ ClientID, Username, Password string }

// mqttGroup begins every MQTT client id, as the boards' own cloud has it.
const mqttGroup = "GID_patchbay"

const mqttSeparator = "@@@"

// MQTTLogin makes the login of an approved device. The address, which is told in
// the user name, may be empty.
func (s *Service) MQTTLogin(d store.Device, address string) MQTTLogin {
	text, err := json.Marshal(struct {
		IP string `json:"ip"`
		At int64  `json:"at"`
	}{address, s.now().Unix()})
	if err != nil {
		panic(err) // a text and a number
	}
	l := MQTTLogin{
		ClientID: MQTTClientID(d),
		Username: base64.StdEncoding.EncodeToString(text),
	}
	l.Password = mqttPassword(s.box.Key(), d, l)
	return l
}

func mqttPassword(k *seal.Key, d store.Device, l MQTTLogin) string {
	return base64.StdEncoding.EncodeToString(signature(k, "mqtt", d, l.ClientID+"|"+l.Username))
}

// MQTTClientID is the client id of an [MQTTLogin] of a device.
func MQTTClientID(d store.Device) string {
	return mqttGroup + mqttSeparator + strings.ReplaceAll(d.Hardware, ":", "_") + mqttSeparator + d.Client
}

// MQTTDevice is the device that a client id of an [MQTTLogin] is made for.
func MQTTDevice(kind, clientID string) (DeviceID, bool) {
	parts := strings.Split(clientID, mqttSeparator)
	if len(parts) != 3 || parts[0] != mqttGroup {
		return DeviceID{}, false
	}
	return DeviceID{kind, strings.ReplaceAll(parts[1], "_", ":"), parts[2]}, true
}

// CheckMQTT finds the device of a kind that a login was made for. A refusal is
// [ErrNoKey] or [ErrUnknown], for which [Refused] is true.
func (s *Service) CheckMQTT(ctx context.Context, kind string, l MQTTLogin) (store.Device, error) {
	if l.Password == "" {
		return store.Device{}, ErrNoKey
	}
	id, ok := MQTTDevice(kind, l.ClientID)
	if !ok {
		return store.Device{}, ErrUnknown
	}
	d, known, err := s.approved(ctx, id)
	if err != nil {
		return store.Device{}, err
	}
	if same := s.made(l.Password, func(k *seal.Key) string { return mqttPassword(k, d, l) }); !same || !known {
		return store.Device{}, ErrUnknown
	}
	return d, nil
}

// VisionToken is the token with which a device sends photos in one session, for as
// long as life.
func (s *Service) VisionToken(d store.Device, session string, life time.Duration) string {
	return visionToken(s.box.Key(), d, session, strconv.FormatInt(s.now().Add(life).Unix(), 10))
}

func visionToken(k *seal.Key, d store.Device, session, expires string) string {
	sum := signature(k, "vision", d, d.Client+"|"+d.Hardware+"|"+expires+"|"+session)
	return base64.RawURLEncoding.EncodeToString(sum) + "." + expires + "." + session
}

// CheckVision finds the device and the session that a token was issued to. A refusal
// is [ErrNoKey], [ErrUnknown] or [ErrExpired], for which [Refused] is true.
func (s *Service) CheckVision(ctx context.Context, id DeviceID, token string) (d store.Device, session string, err error) {
	if token == "" {
		return store.Device{}, "", ErrNoKey
	}
	d, known, err := s.approved(ctx, id)
	if err != nil {
		return store.Device{}, "", err
	}
	_, rest, _ := strings.Cut(token, ".")
	expires, session, _ := strings.Cut(rest, ".")
	if same := s.made(token, func(k *seal.Key) string { return visionToken(k, d, session, expires) }); !same || !known {
		return store.Device{}, "", ErrUnknown
	}
	if at, err := strconv.ParseInt(expires, 10, 64); err != nil || s.now().Unix() >= at {
		return store.Device{}, "", ErrExpired
	}
	return d, session, nil
}
