package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
)

// Transports that an owner may choose for a device. Empty leaves the choice to the server.
const (
	TransportSocket = "websocket"
	TransportMQTT   = "mqtt"
)

// MaxUnownedDevices limits the remembered devices without an owner. Anybody who can reach the
// server can create them, so the least recently seen one is deleted for a new one, and is created
// again when it connects again. At about 2 KB each they take 2 MB.
const MaxUnownedDevices = 1000

// MaxCatalog is the maximum size of a device's tool catalog, in bytes of JSON. A board has about 30
// tools of 500 bytes. The limit protects the disk, and the memory of a server that holds the
// catalogs of all devices.
const MaxCatalog = 256 << 10

// Device is a device that connects to the server by itself, such as a board.
//
// A device is identified by its kind and hardware address, which is printed on boxes and sent
// unencrypted. Its client id, which it keeps until it is erased, proves that it is still the same
// installation. An owner therefore approves the pair: a connection with another client id is a
// claim on the device. Owner, name, bot and approved client do not change, and the approved client
// keeps working, until the owner approves the claim too or removes the device.
type Device struct {
	Number   int64  `json:"id"` // never reused
	Kind     string `json:"kind"`
	Hardware string `json:"hardware"` // hardware address; unique within the kind
	// Client is the approved client id; empty: none.
	Client string `json:"-"`
	// Claim is a client id that connected and is not approved; empty: none.
	Claim     string          `json:"-"`
	Owner     string          `json:"owner,omitempty"` // person id; empty: not approved
	Name      string          `json:"name,omitempty"`  // unique per owner
	Room      string          `json:"room,omitempty"`  // where it is; empty: not known
	Bot       int64           `json:"bot,omitempty"`   // 0: none
	Transport string          `json:"transport,omitempty"`
	Family    string          `json:"family,omitempty"`  // firmware family
	Article   string          `json:"article,omitempty"` // product name
	Version   string          `json:"version,omitempty"` // firmware version
	Language  string          `json:"language,omitempty"`
	Features  json.RawMessage `json:"features,omitempty"` // a JSON object, as the device reported it
	Settings  json.RawMessage `json:"-"`                  // format of the sound, as its owner set it; a JSON object
	Voice     json.RawMessage `json:"-"`                  // how it hears and speaks, as its owner set it; a JSON object
	// CodeHash is the hash of the pairing code that approves the claim; empty: none.
	CodeHash    string    `json:"-"`
	CodeExpires time.Time `json:"code_expires_at,omitzero"`
	// SecretVersion is part of every credential of the device. Incrementing it invalidates all that
	// were issued.
	SecretVersion int64     `json:"-"`
	Created       time.Time `json:"created_at"`
	Approved      time.Time `json:"approved_at,omitzero"`
	Seen          time.Time `json:"last_seen"`
	Address       string    `json:"address,omitempty"` // IP address of its last contact
}

// IsApprovedClient reports whether a client id is the one that the device's owner approved.
func (d Device) IsApprovedClient(client string) bool {
	return d.Owner != "" && client != "" && d.Client == client
}

// DeviceCall is what a device reports when it contacts the server.
type DeviceCall struct {
	Kind, Hardware, Client             string // all required
	Family, Article, Version, Language string
	Features                           json.RawMessage // a JSON object; empty: {}
	Address                            string
	At                                 time.Time
}

// DeviceApproval is an owner's approval of a pending device.
type DeviceApproval struct {
	CodeHash string
	Owner    string
	Name     string // empty: unchanged
	Room     string // empty: unchanged
	Bot      int64  // 0: unchanged
	At       time.Time
}

// Devices accesses the table of devices.
type Devices struct{ db *DB }

const deviceColumns = `number, kind, hardware, client, claim, owner, name, room, bot, transport, family, article, version,
	language, features, settings, voice, code_hash, code_expires, secret_version, created_at, approved_at, seen_at, address`

func readDevice(s scanner) (d Device, err error) {
	var (
		owner, code               sql.NullString
		bot                       sql.NullInt64
		features, settings, voice string
		expires, approved         sql.NullInt64
		created, seen             int64
	)
	err = s.Scan(&d.Number, &d.Kind, &d.Hardware, &d.Client, &d.Claim, &owner, &d.Name, &d.Room, &bot, &d.Transport,
		&d.Family, &d.Article, &d.Version, &d.Language,
		&features, &settings, &voice, &code, &expires, &d.SecretVersion, &created, &approved, &seen, &d.Address)
	d.Owner, d.Bot, d.CodeHash = owner.String, bot.Int64, code.String
	d.Features, d.Settings, d.Voice = json.RawMessage(features), json.RawMessage(settings), json.RawMessage(voice)
	d.CodeExpires, d.Approved = fromNullMillis(expires), fromNullMillis(approved)
	d.Created, d.Seen = fromMillis(created), fromMillis(seen)
	return d, err
}

// Seen records a contact of a device and returns the device, creating it the first time. The
// reported data is stored if the client id is the approved one or the device has no owner.
// Otherwise only the claim is recorded.
func (t Devices) Seen(ctx context.Context, c DeviceCall) (Device, error) {
	if len(c.Features) == 0 {
		c.Features = json.RawMessage(`{}`)
	}
	for {
		d, err := t.seenOnce(ctx, c)
		if !errors.Is(err, ErrExists) {
			return d, err
		}
		// Another first contact at the same moment inserted the row; retry.
		if ctx.Err() != nil {
			return d, ctx.Err()
		}
	}
}

func (t Devices) seenOnce(ctx context.Context, c DeviceCall) (d Device, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) error {
		var err error
		d, err = readDevice(tx.QueryRowContext(ctx, t.db.locking(`SELECT `+deviceColumns+
			` FROM devices WHERE kind = $1 AND hardware = $2`, "FOR UPDATE"), c.Kind, c.Hardware))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			d, err = insertDevice(ctx, tx, c)
			return err
		case err != nil:
			return err
		}
		if !d.IsApprovedClient(c.Client) && d.Claim != c.Client {
			// A pairing code belongs to the claim it was issued for.
			d.Claim, d.CodeHash, d.CodeExpires = c.Client, "", time.Time{}
		}
		if d.Owner == "" || d.IsApprovedClient(c.Client) {
			d.describe(c)
		}
		_, err = tx.ExecContext(ctx,
			`UPDATE devices SET claim = $1, code_hash = $2, code_expires = $3, family = $4, article = $5, version = $6,
			language = $7, features = $8, address = $9, seen_at = $10 WHERE number = $11`,
			sanitizeArgs([]any{d.Claim, nullString(d.CodeHash), nullMillis(d.CodeExpires), d.Family, d.Article,
				d.Version,
				d.Language, string(d.Features), d.Address, millis(d.Seen), d.Number})...)
		return err
	})
	return d, err
}

// describe copies the reported data into the device.
func (d *Device) describe(c DeviceCall) {
	d.Family, d.Article, d.Version, d.Language = sanitizeText(c.Family), sanitizeText(c.Article),
		sanitizeText(c.Version), sanitizeText(c.Language)
	d.Features, d.Address, d.Seen = c.Features, c.Address, fromMillis(millis(c.At))
}

// insertDevice inserts a new device, and deletes the least recently seen unowned one if there are
// too many.
func insertDevice(ctx context.Context, tx *sql.Tx, c DeviceCall) (Device, error) {
	d := Device{Kind: c.Kind, Hardware: c.Hardware, Claim: c.Client, Settings: json.RawMessage(`{}`),
		Voice: json.RawMessage(`{}`), SecretVersion: 1,
		Created: fromMillis(millis(c.At))}
	d.describe(c)
	if err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'device' RETURNING value`).
		Scan(&d.Number); err != nil {
		return d, err
	}
	if _, err := tx.ExecContext(ctx,
		`DELETE FROM devices WHERE number = (SELECT number FROM devices WHERE owner IS NULL ORDER BY seen_at, number LIMIT 1)
		AND (SELECT COUNT(*) FROM devices WHERE owner IS NULL) >= $1`, MaxUnownedDevices); err != nil {
		return d, err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO devices (`+deviceColumns+`) VALUES
		($1, $2, $3, '', $4, NULL, '', '', NULL, '', $5, $6, $7, $8, $9, $10, $11, NULL, NULL, $12, $13, NULL, $14, $15)`,
		sanitizeArgs([]any{d.Number, d.Kind, d.Hardware, d.Claim, d.Family, d.Article, d.Version, d.Language,
			string(d.Features), string(d.Settings), string(d.Voice), d.SecretVersion, millis(d.Created), millis(d.Seen),
			d.Address})...)
	return d, err
}

// SetCode stores the hash of a pairing code for the claim of a device, as it was read. It returns
// [ErrExists] if another device has the same code, and [ErrNotFound] if the device's claim or code
// has changed meanwhile.
func (t Devices) SetCode(ctx context.Context, d Device, hash string, expires, now time.Time) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx,
			`UPDATE devices SET code_hash = NULL, code_expires = NULL WHERE code_hash = $1 AND code_expires <= $2`,
			hash, millis(now)); err != nil {
			return err
		}
		return changed(tx.ExecContext(ctx, `UPDATE devices SET code_hash = $1, code_expires = $2
			WHERE number = $3 AND claim = $4 AND claim <> '' AND COALESCE(code_hash, '') = $5`,
			hash, millis(expires), d.Number, d.Claim, d.CodeHash))
	})
}

// Approve makes the claim that has the given code the client of its device, and the person its
// owner. It returns [ErrNotFound] if no device has that code or the person or bot does not exist,
// [ErrOccupied] if the device has another owner, and [ErrExists] if the owner has another device of
// that name. Approving a different client invalidates the credentials of the former one.
func (t Devices) Approve(ctx context.Context, a DeviceApproval) (d Device, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) error {
		var err error
		d, err = readDevice(tx.QueryRowContext(ctx, t.db.locking(`SELECT `+deviceColumns+` FROM devices
			WHERE code_hash = $1 AND code_expires > $2 AND claim <> ''`, "FOR UPDATE"), a.CodeHash, millis(a.At)))
		if err != nil {
			return err
		}
		if d.Owner != "" && d.Owner != a.Owner {
			return ErrOccupied
		}
		if d.Client != "" && d.Client != d.Claim {
			d.SecretVersion++
		}
		if a.Name != "" {
			d.Name = sanitizeText(a.Name)
		}
		if a.Room != "" {
			d.Room = sanitizeText(a.Room)
		}
		if a.Bot != 0 {
			d.Bot = a.Bot
		}
		d.Owner, d.Client, d.Claim, d.CodeHash, d.CodeExpires, d.Approved = a.Owner, d.Claim, "", "", time.Time{},
			fromMillis(millis(a.At))
		_, err = tx.ExecContext(ctx,
			`UPDATE devices SET owner = $1, name = $2, room = $3, bot = $4, client = $5, claim = '', code_hash = NULL,
			code_expires = NULL, secret_version = $6, approved_at = $7 WHERE number = $8`,
			d.Owner, d.Name, d.Room, nullNumber(d.Bot), d.Client, d.SecretVersion, millis(d.Approved), d.Number)
		if err != nil {
			return err
		}
		return bumpDevicesVersion(ctx, tx)
	})
	if err != nil {
		return Device{}, err
	}
	return d, nil
}

func nullNumber(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: n != 0} }

// ByHardware returns the device with a hardware address.
func (t Devices) ByHardware(ctx context.Context, kind, hardware string) (Device, error) {
	return one(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE kind = $1 AND hardware = $2`, kind,
		hardware)
}

// ByNumber returns a device, or [ErrNotFound].
func (t Devices) ByNumber(ctx context.Context, number int64) (Device, error) {
	return one(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE number = $1`, number)
}

// ByCode returns the device whose pairing code has this hash and has not expired.
func (t Devices) ByCode(ctx context.Context, hash string, now time.Time) (Device, error) {
	return one(ctx, t.db, readDevice, `SELECT `+deviceColumns+
		` FROM devices WHERE code_hash = $1 AND code_expires > $2`, hash, millis(now))
}

// Page lists owned devices with numbers greater than after, by number. The last number of a page is
// the cursor for the next.
func (t Devices) Page(ctx context.Context, after int64, limit int) ([]Device, error) {
	return all(ctx, t.db, readDevice, `SELECT `+deviceColumns+
		` FROM devices WHERE number > $1 AND owner IS NOT NULL ORDER BY number LIMIT $2`, after, limit)
}

// Count returns the number of an owner's devices.
func (t Devices) Count(ctx context.Context, owner string) (int, error) {
	return one(ctx, t.db, func(s scanner) (n int, err error) { return n, s.Scan(&n) },
		`SELECT COUNT(*) FROM devices WHERE owner = $1`, owner)
}

// Counts returns the number of devices of each owner who has some.
func (t Devices) Counts(ctx context.Context) (map[string]int, error) {
	return countByOwner(ctx, t.db, "devices")
}

// countByOwner counts the rows of a table for each owner.
func countByOwner(ctx context.Context, db *DB, table string) (map[string]int, error) {
	counts := map[string]int{}
	_, err := all(ctx, db, func(s scanner) (owner string, err error) {
		n := 0
		if err = s.Scan(&owner, &n); err == nil {
			counts[owner] = n
		}
		return owner, err
	}, `SELECT owner, COUNT(*) FROM `+table+` WHERE owner IS NOT NULL GROUP BY owner`)
	return counts, err
}

// Latest returns the most recently seen device of an owner, or [ErrNotFound].
func (t Devices) Latest(ctx context.Context, owner string) (Device, error) {
	return one(ctx, t.db, readDevice, `SELECT `+deviceColumns+
		` FROM devices WHERE owner = $1 ORDER BY seen_at DESC, number DESC LIMIT 1`, owner)
}

// DeviceSearch selects devices.
type DeviceSearch struct {
	Owner string // empty: all owned devices
	Text  string // substring of the name, room or hardware address, ignoring case; empty: any
	After int64  // cursor: only greater numbers
	Limit int
}

// Search lists devices by number.
func (t Devices) Search(ctx context.Context, q DeviceSearch) ([]Device, error) {
	return all(ctx, t.db, readDevice, `SELECT `+deviceColumns+
		` FROM devices WHERE number > $1 AND owner IS NOT NULL AND ($2 = '' OR owner = $2)
		AND ($3 = '' OR LOWER(name) LIKE $4 ESCAPE '\' OR LOWER(room) LIKE $4 ESCAPE '\' OR hardware LIKE $4 ESCAPE '\')
		ORDER BY number LIMIT $5`,
		q.After, q.Owner, q.Text, containsPattern(q.Text), q.Limit)
}

// containsPattern returns a LIKE pattern that matches what contains a text.
func containsPattern(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(strings.ToLower(sanitizeText(text))) + "%"
}

// DeviceRef identifies a device by name, number or hardware address. Empty fields and 0 match
// nothing.
type DeviceRef struct {
	Name     string
	Number   int64
	Hardware string
}

// Find lists an owner's devices that match one of the three fields, by number, or any owner's for
// an empty owner. Unowned devices are left out. It lists at most 100.
func (t Devices) Find(ctx context.Context, owner string, ref DeviceRef) ([]Device, error) {
	return all(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE number IN (
			SELECT number FROM devices WHERE name = $2 AND name <> '' UNION SELECT number FROM devices WHERE number = $3
			UNION SELECT number FROM devices WHERE hardware = $4)
		AND owner IS NOT NULL AND ($1 = '' OR owner = $1) ORDER BY number LIMIT 100`, owner, ref.Name, ref.Number, ref.Hardware)
}

// Waiting lists the devices with a valid pairing code, latest expiry first, at most 100. Owned
// devices that were erased are among them.
func (t Devices) Waiting(ctx context.Context, now time.Time) ([]Device, error) {
	return all(ctx, t.db, readDevice, `SELECT `+deviceColumns+
		` FROM devices WHERE code_hash IS NOT NULL AND code_expires > $1
		ORDER BY code_expires DESC, number DESC LIMIT 100`, millis(now))
}

// change runs a statement that must change a device, and increments the devices version.
func (t Devices) change(ctx context.Context, query string, args ...any) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, query, sanitizeArgs(args)...)); err != nil {
			return err
		}
		return bumpDevicesVersion(ctx, tx)
	})
}

// bumpDevicesVersion increments the devices version, so that running instances reload.
func bumpDevicesVersion(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'devices'`)
	return err
}

// DevicesVersion returns a counter that grows whenever a device is approved, changed, revoked or
// removed, or a bot is removed, on any instance. What a device reports does not count.
func (db *DB) DevicesVersion(ctx context.Context) (int64, error) {
	return one(ctx, db, func(s scanner) (v int64, err error) { return v, s.Scan(&v) },
		`SELECT value FROM counters WHERE name = 'devices'`)
}

// Bind assigns a bot to a device; 0 removes the assignment. It returns [ErrNotFound] if the device
// or the bot does not exist.
func (t Devices) Bind(ctx context.Context, number, bot int64) error {
	return t.change(ctx, `UPDATE devices SET bot = $1 WHERE number = $2`, nullNumber(bot), number)
}

// Rename changes a device's name. It returns [ErrExists] if its owner uses the name for another
// device.
func (t Devices) Rename(ctx context.Context, number int64, name string) error {
	return t.change(ctx, `UPDATE devices SET name = $1 WHERE number = $2`, name, number)
}

// SetRoom changes the room of a device; empty removes it.
func (t Devices) SetRoom(ctx context.Context, number int64, room string) error {
	return t.change(ctx, `UPDATE devices SET room = $1 WHERE number = $2`, room, number)
}

// Rooms lists the rooms of an owner's devices, or of all owners' for an empty owner: at most limit,
// in no order that people know.
func (t Devices) Rooms(ctx context.Context, owner string, limit int) ([]string, error) {
	return all(ctx, t.db, func(s scanner) (room string, err error) { return room, s.Scan(&room) },
		`SELECT DISTINCT room FROM devices WHERE room <> '' AND owner IS NOT NULL AND ($1 = '' OR owner = $1)
		ORDER BY room LIMIT $2`, owner, limit)
}

// SetTransport sets the transport that a device is to use after its next contact; empty leaves the
// choice to the server.
func (t Devices) SetTransport(ctx context.Context, number int64, transport string) error {
	switch transport {
	case "", TransportSocket, TransportMQTT:
	default:
		return errors.New("a transport is " + TransportSocket + " or " + TransportMQTT + ", or empty")
	}
	return t.change(ctx, `UPDATE devices SET transport = $1 WHERE number = $2`, transport, number)
}

// SetSettings replaces the format of the sound for a device, a JSON object.
func (t Devices) SetSettings(ctx context.Context, number int64, settings json.RawMessage) error {
	return t.change(ctx, `UPDATE devices SET settings = $1 WHERE number = $2`, string(settings), number)
}

// ChangeVoice replaces how a device hears and speaks by what change makes of it, a JSON object. The
// error is that of change, or [ErrNotFound].
func (t Devices) ChangeVoice(ctx context.Context, number int64,
	change func(Device) (json.RawMessage, error)) (d Device, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) (err error) {
		if d, err = readDevice(tx.QueryRowContext(ctx, t.db.locking(`SELECT `+deviceColumns+
			` FROM devices WHERE number = $1`, "FOR UPDATE"), number)); err != nil {
			return err
		}
		if d.Voice, err = change(d); err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, `UPDATE devices SET voice = $1 WHERE number = $2`,
			sanitizeText(string(d.Voice)), number); err != nil {
			return err
		}
		return bumpDevicesVersion(ctx, tx)
	})
	return d, err
}

// Revoke invalidates all credentials issued to a device. It gets new ones at its next contact.
func (t Devices) Revoke(ctx context.Context, number int64) error {
	return t.change(ctx, `UPDATE devices SET secret_version = secret_version + 1 WHERE number = $1`, number)
}

// Remove deletes a device. If it connects again, it is a new, unowned device.
func (t Devices) Remove(ctx context.Context, number int64) error {
	if _, err := t.db.Recordings.Remove(ctx, number); err != nil { // large ones, in batches
		return err
	}
	return t.change(ctx, `DELETE FROM devices WHERE number = $1`, number)
}

// Touch records when and from which address a device was last active. [Devices.Seen] does that too.
func (t Devices) Touch(ctx context.Context, number int64, address string, at time.Time) error {
	return t.db.execOne(ctx, `UPDATE devices SET seen_at = $1, address = $2 WHERE number = $3`, millis(at), address,
		number)
}

// SetCatalog stores the tools of a device as JSON, so that they can be listed while it is offline;
// an empty catalog deletes them. It returns [ErrTooLarge] above [MaxCatalog] bytes, and
// [ErrNotFound] if there is no such device.
func (t Devices) SetCatalog(ctx context.Context, number int64, catalog json.RawMessage) error {
	if len(catalog) > MaxCatalog {
		return ErrTooLarge
	}
	if len(catalog) == 0 {
		_, err := t.db.exec(ctx, `DELETE FROM device_tools WHERE device = $1`, number)
		return err
	}
	return t.db.execOne(ctx, `INSERT INTO device_tools (device, catalog) VALUES ($1, $2)
		ON CONFLICT (device) DO UPDATE SET catalog = excluded.catalog`, number, string(catalog))
}

// Catalogs returns the catalogs of several devices, by number. Devices without one are left out.
func (t Devices) Catalogs(ctx context.Context, numbers []int64) (map[int64]json.RawMessage, error) {
	out := make(map[int64]json.RawMessage, len(numbers))
	for some := range slices.Chunk(numbers, inListSize) {
		// The rows are stored directly in the map.
		_, err := all(ctx, t.db, func(s scanner) (_ struct{}, err error) {
			var number int64
			var catalog string
			err = s.Scan(&number, &catalog)
			out[number] = json.RawMessage(catalog)
			return struct{}{}, err
		}, `SELECT device, catalog FROM device_tools WHERE device IN (`+inPlaceholders(1)+`)`, inArgs(some)...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Catalog returns what [Devices.SetCatalog] stored, or [ErrNotFound].
func (t Devices) Catalog(ctx context.Context, number int64) (json.RawMessage, error) {
	return one(ctx, t.db, func(s scanner) (json.RawMessage, error) {
		var catalog string
		err := s.Scan(&catalog)
		return json.RawMessage(catalog), err
	}, `SELECT catalog FROM device_tools WHERE device = $1`, number)
}
