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

	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	// DeviceCodeLife is how long a device may show a code before it gets another.
	DeviceCodeLife = 15 * time.Minute
	// deviceCodeSpare is the minimum time left when a device gets its code again. The device shows
	// the code for at least half a minute before it calls again, and a person has to find the page
	// to type it in.
	deviceCodeSpare = 3 * time.Minute
	// deviceTries is how many wrong codes a person may type within codeWindow. The chance to hit
	// one of 10 waiting devices is then 1 in 5,000 per window. Correct codes do not count, because
	// one person may approve many boards.
	deviceTries = 20
	// deviceNames is how many generated names are tried for a device without a name.
	deviceNames = 100
)

// Reasons why a device is not approved, or not bound.
var (
	ErrCodeUnknown = i18n.Message("no device shows this code").Errorf()
	ErrDeviceTaken = i18n.Message("the device belongs to somebody else, who has to remove it first").Errorf()
	ErrDeviceName  = i18n.Message("another device has this name").Errorf()
	ErrRoomLong    = i18n.Message("the name of a room may have 60 characters at most").Errorf()
	ErrRoomControl = i18n.Message("the name of a room cannot have control characters").Errorf()
	ErrNoBot       = i18n.Message("the owner of the device has no such bot").Errorf()
	ErrDeviceVague = i18n.Message("several devices are called this; say the number of one").Errorf()
)

// DeviceID is the identity that a device claims.
type DeviceID struct{ Kind, Hardware, Client string }

// NewDevice describes how a person wants to own the device that shows a code.
type NewDevice struct {
	Person string // id
	Code   string // six digits; spaces and dashes do not count
	Name   string // empty: keep the current one, or generate one
	Room   string // where it is; empty: keep the current one, or none
	Bot    int64  // one of the person's bots; 0: keep the current one, or none
}

// DeviceSeen records a discovery request of a device. It returns the code that the device shows
// until a person types it in, or "" if the device is approved. A device that calls again gets the
// same code, even after a restart, unless that code is about to expire.
func (s *Service) DeviceSeen(ctx context.Context, c store.DeviceCall) (d store.Device, code string, err error) {
	if c.At.IsZero() {
		c.At = s.now()
	}
	// Another device may have the same code, and the device may call twice at the same time.
	for range 10 {
		d, err = s.db.Devices.Seen(ctx, c)
		if err != nil || d.IsApprovedClient(c.Client) {
			return d, "", err
		}
		if d.CodeHash != "" && d.CodeExpires.Sub(c.At) >= deviceCodeSpare {
			// A code that none of the keys reproduces was made with a secret that is no longer
			// valid.
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

// deviceCode derives six digits from the device, its claim, and the expiry of the code, so that
// only the hash is stored.
func deviceCode(k *seal.Key, d store.Device, expires time.Time) string {
	mac, err := hex.DecodeString(k.MAC(fmt.Sprintf("device code|%d|%s|%d", d.Number, d.Claim, expires.UnixMilli())))
	if err != nil {
		panic(err) // MAC returns hex
	}
	return fmt.Sprintf("%06d", binary.BigEndian.Uint64(mac)%1_000_000)
}

func deviceCodeHash(k *seal.Key, code string) string { return k.MAC("device code hash|" + code) }

// ApproveDevice makes a person the owner of the device that shows a code, or approves the person's
// own device again after it was erased. Errors that the person can correct are [ErrCodeUnknown],
// [ErrTooManyTries], [ErrDeviceTaken], [ErrDeviceName], [ErrNoBot], and those of [CheckName] and
// [CheckRoom].
func (s *Service) ApproveDevice(ctx context.Context, n NewDevice) (store.Device, error) {
	var d store.Device
	who := store.Wearer{Publisher: n.Person, UserID: "device codes"}
	err := s.guess(ctx, who, deviceTries, []error{ErrCodeUnknown, ErrDeviceTaken}, func() (err error) {
		d, err = s.approve(ctx, n, s.now())
		return err
	})
	return d, err
}

// ApproveByCode is like [Service.ApproveDevice] for a code that [Service.DeviceSeen] has just
// returned, where devices are approved automatically. It does not count as a guess.
func (s *Service) ApproveByCode(ctx context.Context, n NewDevice) (store.Device, error) {
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
	n.Room = strings.TrimSpace(n.Room)
	if err := CheckRoom(n.Room); err != nil {
		return store.Device{}, err
	}
	if err := s.usableBot(ctx, n.Person, n.Bot); err != nil {
		return store.Device{}, err
	}
	a := store.DeviceApproval{Owner: n.Person, Name: n.Name, Room: n.Room, Bot: n.Bot, At: now}
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

// approval translates an error of the store for the person who approves.
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

// deviceName generates a name for an unnamed device: its type and the end of its hardware address,
// which is printed on a label.
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

// usableBot returns [ErrNoBot] unless the person may ask the bot, or it is 0.
func (s *Service) usableBot(ctx context.Context, person string, bot int64) error {
	if bot == 0 {
		return nil
	}
	may, err := s.db.Bots.MayAsk(ctx, bot, person)
	if err == nil && !may {
		err = ErrNoBot
	}
	return err
}

// BindDevice sets which of the bots that its owner may ask answers a device; 0 means none. For an
// unknown device the error is [store.ErrNotFound].
func (s *Service) BindDevice(ctx context.Context, number, bot int64) error {
	d, err := s.db.Devices.ByNumber(ctx, number)
	if err != nil {
		return err
	}
	if err := s.usableBot(ctx, d.Owner, bot); err != nil {
		return err
	}
	return s.db.Devices.Bind(ctx, number, bot)
}

// RenameDevice renames a device. The error is [ErrDeviceName] if its owner has another device of
// that name.
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

// SetDeviceRoom changes the room of a device; empty removes it. For an unknown device the error is
// [store.ErrNotFound].
func (s *Service) SetDeviceRoom(ctx context.Context, number int64, room string) error {
	room = strings.TrimSpace(room)
	if err := CheckRoom(room); err != nil {
		return err
	}
	return s.db.Devices.SetRoom(ctx, number, room)
}

// CheckRoom requires the name of a room to be short and printable, as [CheckName] does. It may be
// empty.
func CheckRoom(room string) error {
	switch err := CheckName(room); {
	case errors.Is(err, ErrNameLong):
		return ErrRoomLong
	case errors.Is(err, ErrNameControl):
		return ErrRoomControl
	}
	return nil
}

// FindDevice finds an owner's device by its name, its number, or its hardware address in any
// spelling of MAC addresses, in this order. An empty owner means the devices of all owners, without
// those that have none. The error is [store.ErrNotFound] if nothing matches, or [ErrDeviceVague] if
// several do.
func (s *Service) FindDevice(ctx context.Context, owner, ref string) (store.Device, error) {
	ref = strings.TrimSpace(ref)
	number, _ := strconv.ParseInt(ref, 10, 64) // 0 matches no device
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

// macAddress returns a MAC address as devices write it, in lower case with colons, or "" for any
// other text.
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

// The credentials below are not stored: each check computes them again. Each is bound to the
// device's number, hardware address, client id and secret version, so that it ends when the device
// is removed or erased, or its credentials are revoked. Credentials for WebSocket and MQTT have no
// other expiry, because a device gets new ones only when it is turned on.

// madeWithAnyKey reports whether a credential was made with one of the installation's keys: the
// current one, or an older one that is still valid.
func (s *Service) madeWithAnyKey(credential string, with func(*seal.Key) string) bool {
	same := 0
	for _, k := range s.box.Keys() {
		same |= subtle.ConstantTimeCompare([]byte(with(k)), []byte(credential))
	}
	return same == 1
}

// signature returns a keyed hash of the text of a credential. The key is derived for one purpose of
// one device.
func signature(k *seal.Key, purpose string, d store.Device, text string) []byte {
	key := k.MAC(fmt.Sprintf("device %s|%d|%d", purpose, d.Number, d.SecretVersion))
	h := hmac.New(sha256.New, []byte(key))
	h.Write([]byte(text))
	return h.Sum(nil)
}

// SocketToken returns the token with which an approved device connects by WebSocket.
func (s *Service) SocketToken(d store.Device) string {
	return socketToken(s.box.Key(), d, strconv.FormatInt(s.now().Unix(), 10))
}

func socketToken(k *seal.Key, d store.Device, at string) string {
	return base64.RawURLEncoding.EncodeToString(signature(k, "socket", d, d.Client+"|"+d.Hardware+"|"+at)) + "." + at
}

// CheckSocket returns the device that a token was issued to. A refusal is [ErrNoKey] or
// [ErrUnknown], for which [Refused] is true.
func (s *Service) CheckSocket(ctx context.Context, id DeviceID, token string) (store.Device, error) {
	if token == "" {
		return store.Device{}, ErrNoKey
	}
	d, known, err := s.approved(ctx, id)
	if err != nil {
		return store.Device{}, err
	}
	_, at, _ := strings.Cut(token, ".")
	if same := s.madeWithAnyKey(token, func(k *seal.Key) string { return socketToken(k, d, at) }); !same || !known {
		return store.Device{}, ErrUnknown
	}
	return d, nil
}

// approved returns the device with the claimed identity, and whether it is approved with that
// client id. If it is not, the result must not be used for anything but computing its credentials,
// which keeps the response time the same.
func (s *Service) approved(ctx context.Context, id DeviceID) (d store.Device, known bool, err error) {
	d, err = s.db.Devices.ByHardware(ctx, id.Kind, id.Hardware)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Device{}, false, nil
	case err != nil:
		return store.Device{}, false, fmt.Errorf("look up a device: %w", err)
	}
	return d, d.IsApprovedClient(id.Client), nil
}

// DeviceApproved reports whether a device is approved with this client id.
func (s *Service) DeviceApproved(ctx context.Context, id DeviceID) (bool, error) {
	_, known, err := s.approved(ctx, id)
	return known, err
}

// MQTTLogin is a device's login at the MQTT broker.
type MQTTLogin struct{ ClientID, Username, Password string }

// mqttGroup begins every MQTT client id, in the format of the boards' own cloud.
const mqttGroup = "GID_patchbay"

const mqttSeparator = "@@@"

// MQTTLogin returns the login of an approved device. The address, which is part of the user name,
// may be empty.
func (s *Service) MQTTLogin(d store.Device, address string) MQTTLogin {
	text, err := json.Marshal(struct {
		IP string `json:"ip"`
		At int64  `json:"at"`
	}{address, s.now().Unix()})
	if err != nil {
		panic(err) // a string and a number always marshal
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

// MQTTClientID returns the client id of a device's [MQTTLogin].
func MQTTClientID(d store.Device) string {
	return mqttGroup + mqttSeparator + strings.ReplaceAll(d.Hardware, ":", "_") + mqttSeparator + d.Client
}

// MQTTDevice returns the device that the client id of an [MQTTLogin] was made for.
func MQTTDevice(kind, clientID string) (DeviceID, bool) {
	parts := strings.Split(clientID, mqttSeparator)
	if len(parts) != 3 || parts[0] != mqttGroup {
		return DeviceID{}, false
	}
	return DeviceID{kind, strings.ReplaceAll(parts[1], "_", ":"), parts[2]}, true
}

// CheckMQTT returns the device of a kind that a login was made for. A refusal is [ErrNoKey] or
// [ErrUnknown], for which [Refused] is true.
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
	if same := s.madeWithAnyKey(l.Password, func(k *seal.Key) string { return mqttPassword(k, d, l) }); !same ||
		!known {
		return store.Device{}, ErrUnknown
	}
	return d, nil
}

// VisionToken returns the token with which a device sends photos in one session, valid for life.
func (s *Service) VisionToken(d store.Device, session string, life time.Duration) string {
	return visionToken(s.box.Key(), d, session, strconv.FormatInt(s.now().Add(life).Unix(), 10))
}

func visionToken(k *seal.Key, d store.Device, session, expires string) string {
	sum := signature(k, "vision", d, d.Client+"|"+d.Hardware+"|"+expires+"|"+session)
	return base64.RawURLEncoding.EncodeToString(sum) + "." + expires + "." + session
}

// CheckVision returns the device and the session that a token was issued to. A refusal is
// [ErrNoKey], [ErrUnknown] or [ErrExpired], for which [Refused] is true.
func (s *Service) CheckVision(ctx context.Context, id DeviceID,
	token string) (d store.Device, session string, err error) {
	if token == "" {
		return store.Device{}, "", ErrNoKey
	}
	d, known, err := s.approved(ctx, id)
	if err != nil {
		return store.Device{}, "", err
	}
	_, rest, _ := strings.Cut(token, ".")
	expires, session, _ := strings.Cut(rest, ".")
	if same := s.madeWithAnyKey(token, func(k *seal.Key) string {
		return visionToken(k, d, session,
			expires)
	}); !same || !known {
		return store.Device{}, "", ErrUnknown
	}
	if at, err := strconv.ParseInt(expires, 10, 64); err != nil || s.now().Unix() >= at {
		return store.Device{}, "", ErrExpired
	}
	return d, session, nil
}
