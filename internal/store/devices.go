package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The transports that an owner may choose for a device. An empty one leaves the
// choice to the server.
const (
	TransportSocket = "websocket"
	TransportMQTT   = "mqtt"
)

// MaxStrangers is how many devices without an owner are remembered. Anybody who can
// reach the server can invent one more; the one that was not heard of for longest
// is forgotten then, and is a new one when it calls again. At some 2 KB each they
// take 2 MB.
const MaxStrangers = 1000

// MaxCatalog is how many bytes the tools of a device may have, as JSON. A board has
// some 30 tools of 500 bytes. It protects the disk, and the memory of a server that
// knows those of every device.
const MaxCatalog = 256 << 10

// Device is something that calls home, such as a voice board.
//
// A device is known by its kind and its hardware address, which is printed on
// boxes and sent in clear. What says that it is still the same one is its client
// id, which it keeps until somebody erases it. So an owner approves a pair of both:
// whoever calls with another client id is a claim on the device. The owner, the
// name, the bot and the client that was approved stay as they are, and that one
// goes on working, until the owner approves the claim too, or removes the device.
type Device struct {
	Number   int64  `json:"id"` // unique for ever
	Kind     string `json:"kind"`
	Hardware string `json:"hardware"` // unique among its kind
	// Client is the client id that was approved; empty: none was.
	Client string `json:"-"`
	// Claim is a client id that called and is not approved; empty: there is none.
	Claim     string          `json:"-"`
	Owner     string          `json:"owner,omitempty"` // person id; empty: nobody has approved it
	Name      string          `json:"name,omitempty"`  // unique among the owner's
	Bot       int64           `json:"bot,omitempty"`   // 0: none
	Transport string          `json:"transport,omitempty"`
	Family    string          `json:"family,omitempty"`  // what firmware fits
	Article   string          `json:"article,omitempty"` // what it is sold as
	Version   string          `json:"version,omitempty"` // of its firmware
	Language  string          `json:"language,omitempty"`
	Features  json.RawMessage `json:"features,omitempty"` // a JSON object: what it said of itself
	Settings  json.RawMessage `json:"-"`                  // a JSON object: what its owner set
	// CodeHash is of the code that approves the claim; empty: there is none.
	CodeHash    string    `json:"-"`
	CodeExpires time.Time `json:"code_expires_at,omitzero"`
	// SecretVersion is part of every credential of the device, so that a larger one
	// makes all that were issued worthless.
	SecretVersion int64     `json:"-"`
	Created       time.Time `json:"created_at"`
	Approved      time.Time `json:"approved_at,omitzero"`
	Seen          time.Time `json:"last_seen"`
	Address       string    `json:"address,omitempty"` // IP address it was last seen at
}

// Is says whether a client id is the one that the device's owner approved.
func (d Device) Is(client string) bool { return d.Owner != "" && client != "" && d.Client == client }

// DeviceCall is a device's call home.
type DeviceCall struct {
	Kind, Hardware, Client             string // none of them empty
	Family, Article, Version, Language string
	Features                           json.RawMessage // a JSON object; empty: {}
	Address                            string
	At                                 time.Time
}

// DeviceApproval is what an owner decides about a device that waits.
type DeviceApproval struct {
	CodeHash string
	Owner    string
	Name     string // empty: the one it has
	Bot      int64  // 0: the one it has
	At       time.Time
}

// Devices is the table of devices.
type Devices struct{ db *DB }

const deviceColumns = `number, kind, hardware, client, claim, owner, name, bot, transport, family, article, version, language,
	features, settings, code_hash, code_expires, secret_version, created_at, approved_at, seen_at, address`

func readDevice(s scanner) (d Device, err error) {
	var (
		owner, code        sql.NullString
		bot                sql.NullInt64
		features, settings string
		expires, approved  sql.NullInt64
		created, seen      int64
	)
	err = s.Scan(&d.Number, &d.Kind, &d.Hardware, &d.Client, &d.Claim, &owner, &d.Name, &bot, &d.Transport, &d.Family, &d.Article, &d.Version, &d.Language,
		&features, &settings, &code, &expires, &d.SecretVersion, &created, &approved, &seen, &d.Address)
	d.Owner, d.Bot, d.CodeHash = owner.String, bot.Int64, code.String
	d.Features, d.Settings = json.RawMessage(features), json.RawMessage(settings)
	d.CodeExpires, d.Approved = fromMaybe(expires), fromMaybe(approved)
	d.Created, d.Seen = fromMillis(created), fromMillis(seen)
	return d, err
}

// Seen notes a call home and returns the device, which is a new one the first time.
// What the caller says of itself is kept if its client id is the approved one, or
// if nobody owns the device. Otherwise only the claim is noted.
func (t Devices) Seen(ctx context.Context, c DeviceCall) (Device, error) {
	if len(c.Features) == 0 {
		c.Features = json.RawMessage(`{}`)
	}
	for {
		d, err := t.seenOnce(ctx, c)
		if !errors.Is(err, ErrExists) {
			return d, err
		}
		// Two first calls came at the same moment. The other one has made the row.
		if ctx.Err() != nil {
			return d, ctx.Err()
		}
	}
}

func (t Devices) seenOnce(ctx context.Context, c DeviceCall) (d Device, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) error {
		var err error
		d, err = readDevice(tx.QueryRowContext(ctx, t.db.locking(`SELECT `+deviceColumns+` FROM devices WHERE kind = $1 AND hardware = $2`, "FOR UPDATE"), c.Kind, c.Hardware))
		switch {
		case errors.Is(err, sql.ErrNoRows):
			d, err = insertDevice(ctx, tx, c)
			return err
		case err != nil:
			return err
		}
		if !d.Is(c.Client) && d.Claim != c.Client {
			// A code is for the one who was given it.
			d.Claim, d.CodeHash, d.CodeExpires = c.Client, "", time.Time{}
		}
		if d.Owner == "" || d.Is(c.Client) {
			d.describe(c)
		}
		_, err = tx.ExecContext(ctx, `UPDATE devices SET claim = $1, code_hash = $2, code_expires = $3, family = $4, article = $5, version = $6,
			language = $7, features = $8, address = $9, seen_at = $10 WHERE number = $11`,
			texts([]any{d.Claim, nullString(d.CodeHash), maybeMillis(d.CodeExpires), d.Family, d.Article, d.Version,
				d.Language, string(d.Features), d.Address, millis(d.Seen), d.Number})...)
		return err
	})
	return d, err
}

// describe takes what a call says of the device.
func (d *Device) describe(c DeviceCall) {
	d.Family, d.Article, d.Version, d.Language = fit(c.Family), fit(c.Article), fit(c.Version), fit(c.Language)
	d.Features, d.Address, d.Seen = c.Features, c.Address, fromMillis(millis(c.At))
}

// insertDevice keeps a device that was never heard of, and forgets a stranger for it
// if there are too many.
func insertDevice(ctx context.Context, tx *sql.Tx, c DeviceCall) (Device, error) {
	d := Device{Kind: c.Kind, Hardware: c.Hardware, Claim: c.Client, Settings: json.RawMessage(`{}`), SecretVersion: 1, Created: fromMillis(millis(c.At))}
	d.describe(c)
	if err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'device' RETURNING value`).Scan(&d.Number); err != nil {
		return d, err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM devices WHERE number = (SELECT number FROM devices WHERE owner IS NULL ORDER BY seen_at, number LIMIT 1)
		AND (SELECT COUNT(*) FROM devices WHERE owner IS NULL) >= $1`, MaxStrangers); err != nil {
		return d, err
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO devices (`+deviceColumns+`) VALUES
		($1, $2, $3, '', $4, NULL, '', NULL, '', $5, $6, $7, $8, $9, $10, NULL, NULL, $11, $12, NULL, $13, $14)`,
		texts([]any{d.Number, d.Kind, d.Hardware, d.Claim, d.Family, d.Article, d.Version, d.Language,
			string(d.Features), string(d.Settings), d.SecretVersion, millis(d.Created), millis(d.Seen), d.Address})...)
	return d, err
}

// SetCode keeps the hash of a code for the claim of a device, as it was read.
// [ErrExists] says that another device waits with the same code, and [ErrNotFound]
// that the device has another claim or another code by now.
func (t Devices) SetCode(ctx context.Context, d Device, hash string, expires, now time.Time) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE devices SET code_hash = NULL, code_expires = NULL WHERE code_hash = $1 AND code_expires <= $2`,
			hash, millis(now)); err != nil {
			return err
		}
		return changed(tx.ExecContext(ctx, `UPDATE devices SET code_hash = $1, code_expires = $2
			WHERE number = $3 AND claim = $4 AND claim <> '' AND COALESCE(code_hash, '') = $5`,
			hash, millis(expires), d.Number, d.Claim, d.CodeHash))
	})
}

// Approve makes the claim that waits with a code its device's client, and makes the
// person its owner. [ErrNotFound] says that no device waits with that code, or that
// there is no such person or bot; [ErrOccupied] that the device has another owner;
// [ErrExists] that the owner has another device of that name. Approving another
// client than before makes the credentials of the former one worthless.
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
			d.Name = fit(a.Name)
		}
		if a.Bot != 0 {
			d.Bot = a.Bot
		}
		d.Owner, d.Client, d.Claim, d.CodeHash, d.CodeExpires, d.Approved = a.Owner, d.Claim, "", "", time.Time{}, fromMillis(millis(a.At))
		_, err = tx.ExecContext(ctx, `UPDATE devices SET owner = $1, name = $2, bot = $3, client = $4, claim = '', code_hash = NULL, code_expires = NULL,
			secret_version = $5, approved_at = $6 WHERE number = $7`,
			d.Owner, d.Name, nullNumber(d.Bot), d.Client, d.SecretVersion, millis(d.Approved), d.Number)
		if err != nil {
			return err
		}
		return countDevices(ctx, tx)
	})
	if err != nil {
		return Device{}, err
	}
	return d, nil
}

func nullNumber(n int64) sql.NullInt64 { return sql.NullInt64{Int64: n, Valid: n != 0} }

// ByHardware finds a device by its hardware address.
func (t Devices) ByHardware(ctx context.Context, kind, hardware string) (Device, error) {
	return one(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE kind = $1 AND hardware = $2`, kind, hardware)
}

// ByNumber finds a device.
func (t Devices) ByNumber(ctx context.Context, number int64) (Device, error) {
	return one(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE number = $1`, number)
}

// ByCode finds the device that waits with the code of this hash.
func (t Devices) ByCode(ctx context.Context, hash string, now time.Time) (Device, error) {
	return one(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE code_hash = $1 AND code_expires > $2`, hash, millis(now))
}

// ByOwner lists an owner's devices by number; an empty owner means everybody's, but
// not those that nobody owns. It lists 1,000 at most.
func (t Devices) ByOwner(ctx context.Context, owner string) ([]Device, error) {
	return all(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE owner = $1 OR $1 = '' AND owner IS NOT NULL ORDER BY number LIMIT 1000`, owner)
}

// Page lists the devices that somebody owns and whose number is greater than after,
// by number. With the last number of one page a server asks for the next one.
func (t Devices) Page(ctx context.Context, after int64, limit int) ([]Device, error) {
	return all(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE number > $1 AND owner IS NOT NULL ORDER BY number LIMIT $2`, after, limit)
}

// Count says how many devices an owner has.
func (t Devices) Count(ctx context.Context, owner string) (int, error) {
	return one(ctx, t.db, func(s scanner) (n int, err error) { return n, s.Scan(&n) }, `SELECT COUNT(*) FROM devices WHERE owner = $1`, owner)
}

// Latest finds the device of an owner that was seen last; [ErrNotFound] says that there is
// none.
func (t Devices) Latest(ctx context.Context, owner string) (Device, error) {
	return one(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE owner = $1 ORDER BY seen_at DESC, number DESC LIMIT 1`, owner)
}

// DeviceSearch says which devices are looked for.
type DeviceSearch struct {
	Owner string // empty: everybody's, but not those that nobody owns
	Text  string // in the name or the hardware address, in any case; empty: any
	After int64  // the number before the first
	Limit int
}

// Look lists devices by number.
func (t Devices) Look(ctx context.Context, q DeviceSearch) ([]Device, error) {
	return all(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE number > $1 AND owner IS NOT NULL AND ($2 = '' OR owner = $2)
		AND ($3 = '' OR LOWER(name) LIKE $4 ESCAPE '\' OR hardware LIKE $4 ESCAPE '\') ORDER BY number LIMIT $5`,
		q.After, q.Owner, q.Text, contains(q.Text), q.Limit)
}

// contains is a pattern that what has a text in it fits.
func contains(text string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(strings.ToLower(fit(text))) + "%"
}

// DeviceRef is what somebody may call a device by. What is empty, or 0, fits none.
type DeviceRef struct {
	Name     string
	Number   int64
	Hardware string
}

// Find lists an owner's devices by number that one of the three fits; an empty owner
// means everybody's, but not those that nobody owns. It lists 100 at most.
func (t Devices) Find(ctx context.Context, owner string, ref DeviceRef) ([]Device, error) {
	return all(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE number IN (
			SELECT number FROM devices WHERE name = $2 AND name <> '' UNION SELECT number FROM devices WHERE number = $3
			UNION SELECT number FROM devices WHERE hardware = $4)
		AND owner IS NOT NULL AND ($1 = '' OR owner = $1) ORDER BY number LIMIT 100`, owner, ref.Name, ref.Number, ref.Hardware)
}

// Waiting lists the devices that show a code now, those that have an owner and were
// erased too. The one that was heard of last comes first; it lists 100 at most.
func (t Devices) Waiting(ctx context.Context, now time.Time) ([]Device, error) {
	return all(ctx, t.db, readDevice, `SELECT `+deviceColumns+` FROM devices WHERE code_hash IS NOT NULL AND code_expires > $1
		ORDER BY code_expires DESC, number DESC LIMIT 100`, millis(now))
}

// change runs a statement that must change a device, and counts that it did.
func (t Devices) change(ctx context.Context, query string, args ...any) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, query, texts(args)...)); err != nil {
			return err
		}
		return countDevices(ctx, tx)
	})
}

// countDevices counts that something about a device was decided, so that running
// instances look again.
func countDevices(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'devices'`)
	return err
}

// DevicesVersion grows whenever somebody approves, changes, revokes or removes a
// device, or removes a bot, whoever does. What a device says of itself does not count.
func (db *DB) DevicesVersion(ctx context.Context) (int64, error) {
	return one(ctx, db, func(s scanner) (v int64, err error) { return v, s.Scan(&v) }, `SELECT value FROM counters WHERE name = 'devices'`)
}

// Bind has a bot answer a device; 0 means none. No such device, and no such bot, is
// [ErrNotFound].
func (t Devices) Bind(ctx context.Context, number, bot int64) error {
	return t.change(ctx, `UPDATE devices SET bot = $1 WHERE number = $2`, nullNumber(bot), number)
}

// Rename gives a device another name. One that its owner has already is
// [ErrExists].
func (t Devices) Rename(ctx context.Context, number int64, name string) error {
	return t.change(ctx, `UPDATE devices SET name = $1 WHERE number = $2`, name, number)
}

// SetTransport says how a device is to connect after its next call home; empty
// leaves it to the server.
func (t Devices) SetTransport(ctx context.Context, number int64, transport string) error {
	switch transport {
	case "", TransportSocket, TransportMQTT:
	default:
		return errors.New("a transport is " + TransportSocket + " or " + TransportMQTT + ", or empty")
	}
	return t.change(ctx, `UPDATE devices SET transport = $1 WHERE number = $2`, transport, number)
}

// SetSettings replaces what the owner set for a device, a JSON object.
func (t Devices) SetSettings(ctx context.Context, number int64, settings json.RawMessage) error {
	return t.change(ctx, `UPDATE devices SET settings = $1 WHERE number = $2`, string(settings), number)
}

// Revoke makes every credential that was issued to a device worthless. It gets new
// ones at its next call home.
func (t Devices) Revoke(ctx context.Context, number int64) error {
	return t.change(ctx, `UPDATE devices SET secret_version = secret_version + 1 WHERE number = $1`, number)
}

// Remove forgets a device. If it calls again, it is a new one that nobody owns.
func (t Devices) Remove(ctx context.Context, number int64) error {
	return t.change(ctx, `DELETE FROM devices WHERE number = $1`, number)
}

// Touch notes that a device was heard of. A call home does that by itself.
func (t Devices) Touch(ctx context.Context, number int64, address string, at time.Time) error {
	return t.db.execOne(ctx, `UPDATE devices SET seen_at = $1, address = $2 WHERE number = $3`, millis(at), address, number)
}

// SetCatalog keeps the tools that a device has, as JSON, so that they can be listed
// while it is asleep; an empty text forgets them. [ErrTooLarge] says that they have
// more than [MaxCatalog] bytes, and [ErrNotFound] that there is no such device.
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

// Catalogs are those of several devices, by number. Devices of which nothing is kept are left
// out.
func (t Devices) Catalogs(ctx context.Context, numbers []int64) (map[int64]json.RawMessage, error) {
	out := make(map[int64]json.RawMessage, len(numbers))
	for some := range slices.Chunk(numbers, markedAtOnce) {
		args, marks := make([]any, len(some)), make([]string, len(some))
		for i, n := range some {
			args[i], marks[i] = n, "$"+strconv.Itoa(i+1)
		}
		// The rows go straight into the map.
		_, err := all(ctx, t.db, func(s scanner) (_ struct{}, err error) {
			var number int64
			var catalog string
			err = s.Scan(&number, &catalog)
			out[number] = json.RawMessage(catalog)
			return struct{}{}, err
		}, `SELECT device, catalog FROM device_tools WHERE device IN (`+strings.Join(marks, ", ")+`)`, args...)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Catalog is what [Devices.SetCatalog] kept. [ErrNotFound] says that nothing is.
func (t Devices) Catalog(ctx context.Context, number int64) (json.RawMessage, error) {
	return one(ctx, t.db, func(s scanner) (json.RawMessage, error) {
		var catalog string
		err := s.Scan(&catalog)
		return json.RawMessage(catalog), err
	}, `SELECT catalog FROM device_tools WHERE device = $1`, number)
}
