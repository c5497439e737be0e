package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// MaxPeers is how many peers one person may have. Programs on the same machine may
	// be let in without asking anybody: at some 2 KB each, whoever has a key can make
	// them take 20 MB.
	MaxPeers = 10_000
	// markedAtOnce is how many peers one statement marks, so that others can write
	// between two of them.
	markedAtOnce = 100
)

// Who approved a peer.
const (
	ViaOwner     = "owner"
	ViaSilent    = "silent"    // nobody: it is on the same machine and showed a key
	ViaBootstrap = "bootstrap" // whoever gave it a code to set up with
)

// How far the surface of a peer is approved. Empty: nothing was ever declared.
const (
	SurfaceApproved   = "approved"
	SurfacePending    = "pending"
	SurfaceRepending  = "repending"  // a smaller one is approved, and in force
	SurfaceUnapproved = "unapproved" // rejected, and none was ever approved
)

// Peer is a program with a key of its own that was paired with a person: a node, an
// operator, or both.
//
// It is known by its key for ever, and belongs to one person until that one removes
// it. What a node may do is its surface, which is approved separately: the commands
// and caps that it declared and somebody agreed to. Both lists are sorted, as are the
// roles and scopes.
type Peer struct {
	ID         string `json:"id"` // hex SHA-256 of the raw public key
	Owner      string `json:"owner"`
	PublicKey  string `json:"public_key"` // base64url of 32 bytes
	Name       string `json:"name,omitempty"`
	Platform   string `json:"platform,omitempty"`
	Family     string `json:"family,omitempty"` // of devices
	ClientID   string `json:"client_id,omitempty"`
	ClientMode string `json:"client_mode,omitempty"`
	Version    string `json:"version,omitempty"`
	Address    string `json:"address,omitempty"` // IP address it was last connected from
	// Roles and Scopes are all that were ever approved.
	Roles    []string  `json:"roles"`
	Scopes   []string  `json:"scopes"`
	Approved time.Time `json:"approved_at"`
	Via      string    `json:"approved_via"`
	// SecretVersion is part of every token of the peer. It is a number that no peer
	// ever had, so that a token ends when it changes, and with the peer.
	SecretVersion int64     `json:"-"`
	Created       time.Time `json:"created_at"`
	Connected     time.Time `json:"connected_at,omitzero"`
	Disconnected  time.Time `json:"disconnected_at,omitzero"`
	Seen          time.Time `json:"last_seen,omitzero"`
	SeenReason    string    `json:"last_seen_reason,omitempty"`

	Surface          string    `json:"surface,omitempty"`
	SurfaceAt        time.Time `json:"surface_approved_at,omitzero"` // zero: never
	Caps             []string  `json:"caps"`
	Commands         []string  `json:"commands"`
	DeclaredCaps     []string  `json:"declared_caps"`
	DeclaredCommands []string  `json:"declared_commands"`

	Permissions json.RawMessage `json:"permissions,omitempty"` // a JSON object: what its system lets it do
	PathEnv     string          `json:"path_env,omitempty"`
	Settings    json.RawMessage `json:"-"` // a JSON object: what its owner set
}

// Peers is the table of peers, of their tokens, and of requests to become one.
type Peers struct{ db *DB }

const peerColumns = `id, owner, public_key, name, platform, family, client_id, client_mode, version, address, roles, scopes,
	approved_at, approved_via, secret_version, created_at, connected_at, disconnected_at, seen_at, seen_reason,
	surface_state, surface_at, caps, commands, declared_caps, declared_commands, permissions, path_env, settings`

func readPeer(s scanner) (p Peer, err error) {
	var (
		approved, created                     int64
		connected, disconnected, seen, agreed sql.NullInt64
		permissions, settings                 string
	)
	err = s.Scan(&p.ID, &p.Owner, &p.PublicKey, &p.Name, &p.Platform, &p.Family, &p.ClientID, &p.ClientMode, &p.Version, &p.Address, listed{&p.Roles}, listed{&p.Scopes},
		&approved, &p.Via, &p.SecretVersion, &created, &connected, &disconnected, &seen, &p.SeenReason,
		&p.Surface, &agreed, listed{&p.Caps}, listed{&p.Commands}, listed{&p.DeclaredCaps}, listed{&p.DeclaredCommands}, &permissions, &p.PathEnv, &settings)
	p.Approved, p.Created = fromMillis(approved), fromMillis(created)
	p.Connected, p.Disconnected, p.Seen, p.SurfaceAt = fromMaybe(connected), fromMaybe(disconnected), fromMaybe(seen), fromMaybe(agreed)
	p.Permissions, p.Settings = json.RawMessage(permissions), json.RawMessage(settings)
	return p, err
}

// listed reads a list that is kept as JSON.
type listed struct{ to *[]string }

// Scan implements [sql.Scanner].
func (l listed) Scan(v any) error {
	var text sql.NullString
	if err := text.Scan(v); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text.String), l.to)
}

// asList is how a list is kept.
func asList(words []string) string {
	if len(words) == 0 {
		return "[]"
	}
	text, err := json.Marshal(words)
	if err != nil {
		panic(err) // texts
	}
	return string(text)
}

// sorted is a list in order that is fit to be kept, without those that are there
// twice.
func sorted(words ...[]string) []string {
	all := slices.Concat(words...)
	for i := range all {
		all[i] = fit(all[i])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// within says whether all words of a list are in another one, which is sorted.
func within(words, list []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool {
		_, found := slices.BinarySearch(list, w)
		return !found
	})
}

// ByID finds a peer.
func (t Peers) ByID(ctx context.Context, id string) (Peer, error) {
	return one(ctx, t.db, readPeer, `SELECT `+peerColumns+` FROM peers WHERE id = $1`, id)
}

// ByOwner lists an owner's peers whose id is greater than after, by id; an empty
// owner means everybody's. With the last id of one page the next one is asked for.
func (t Peers) ByOwner(ctx context.Context, owner, after string, limit int) ([]Peer, error) {
	return all(ctx, t.db, readPeer, `SELECT `+peerColumns+` FROM peers WHERE ($1 = '' OR owner = $1) AND id > $2 ORDER BY id LIMIT $3`, owner, after, limit)
}

// locked runs f in a transaction while nobody else decides or asks for anything about
// peers: a request and the decision about it must not cross, and of two that come at
// the same moment the second one has to count the first.
func (t Peers) locked(ctx context.Context, f func(*sql.Tx) error) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		var version int64
		if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT value FROM counters WHERE name = 'peers'`, "FOR UPDATE")).Scan(&version); err != nil {
			return err
		}
		return f(tx)
	})
}

// change is locked for what the other instances must notice.
func (t Peers) change(ctx context.Context, f func(*sql.Tx) error) error {
	return t.locked(ctx, func(tx *sql.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return countPeers(ctx, tx)
	})
}

func countPeers(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'peers'`)
	return err
}

// PeersVersion grows whenever somebody approves, rejects, changes or removes a peer,
// or ends its tokens, whoever does, and when a peer declares less than before. That
// one asks, or was heard of, does not count.
func (db *DB) PeersVersion(ctx context.Context) (int64, error) {
	return one(ctx, db, func(s scanner) (v int64, err error) { return v, s.Scan(&v) }, `SELECT value FROM counters WHERE name = 'peers'`)
}

// Rename gives a peer another name, which may be the one of another peer.
func (t Peers) Rename(ctx context.Context, id, name string) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `UPDATE peers SET name = $1 WHERE id = $2`, texts([]any{name, id})...))
	})
}

// SetSettings replaces what the owner set for a peer, a JSON object.
func (t Peers) SetSettings(ctx context.Context, id string, settings json.RawMessage) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `UPDATE peers SET settings = $1 WHERE id = $2`, texts([]any{string(settings), id})...))
	})
}

// Remove forgets a peer, its tokens, and whatever it asks for. If it comes again, it
// has to be paired again.
func (t Peers) Remove(ctx context.Context, id string) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, `DELETE FROM peers WHERE id = $1`, id)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM peer_requests WHERE peer = $1`, id)
		return err
	})
}

// SetSurface notes what a peer declares now, if it is no more than what was approved:
// what is left out is approved no longer, and a request for more is withdrawn, whose
// id is returned. [ErrWider] says that the peer declares more, or that nothing was
// ever approved, so that it has to ask ([Peers.Request]). Nothing is written for a
// peer that declares what it did before.
func (t Peers) SetSurface(ctx context.Context, id string, caps, commands []string) (withdrawn string, err error) {
	caps, commands = sorted(caps), sorted(commands)
	p, err := t.ByID(ctx, id)
	if err != nil || p.declares(caps, commands) {
		return "", err
	}
	err = t.locked(ctx, func(tx *sql.Tx) error {
		p, err := readPeer(tx.QueryRowContext(ctx, `SELECT `+peerColumns+` FROM peers WHERE id = $1`, id))
		switch {
		case err != nil:
			return err
		case !p.allows(caps, commands):
			return ErrWider
		}
		withdrawn, err = withdraw(ctx, tx, id)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE peers SET surface_state = $1, caps = $2, commands = $3, declared_caps = $2, declared_commands = $3 WHERE id = $4`,
			SurfaceApproved, asList(caps), asList(commands), id); err != nil {
			return err
		}
		return countPeers(ctx, tx)
	})
	return withdrawn, err
}

// allows says whether a surface is no more than what was approved.
func (p Peer) allows(caps, commands []string) bool {
	return !p.SurfaceAt.IsZero() && within(caps, p.Caps) && within(commands, p.Commands)
}

// declares says whether a surface is the approved one, and nothing waits.
func (p Peer) declares(caps, commands []string) bool {
	return p.Surface == SurfaceApproved && slices.Equal(caps, p.Caps) && slices.Equal(commands, p.Commands) &&
		slices.Equal(caps, p.DeclaredCaps) && slices.Equal(commands, p.DeclaredCommands)
}

// PeerConnect is what a peer says when it connects. What is empty stays as it was: a
// machine may have a node and an operator that share one key.
type PeerConnect struct {
	ID                            string
	ClientID, ClientMode, Version string
	Address                       string
	PathEnv                       string
	Permissions                   json.RawMessage // a JSON object
	At                            time.Time
}

// Connected notes that a peer has connected. Thousands may do so at the same time:
// they share commits. No such peer is [ErrNotFound].
func (t Peers) Connected(ctx context.Context, c PeerConnect) error {
	return t.note(ctx, `UPDATE peers SET client_id = COALESCE(NULLIF($1, ''), client_id), client_mode = COALESCE(NULLIF($2, ''), client_mode),
		version = COALESCE(NULLIF($3, ''), version), address = COALESCE(NULLIF($4, ''), address), path_env = COALESCE(NULLIF($5, ''), path_env),
		permissions = COALESCE(NULLIF($6, ''), permissions), connected_at = $7, seen_at = $7, seen_reason = 'connect' WHERE id = $8`,
		c.ClientID, c.ClientMode, c.Version, c.Address, c.PathEnv, string(c.Permissions), millis(c.At), c.ID)
}

// Disconnected notes that a peer has gone.
func (t Peers) Disconnected(ctx context.Context, id string, at time.Time) error {
	return t.note(ctx, `UPDATE peers SET disconnected_at = $1 WHERE id = $2`, millis(at), id)
}

// Seen notes that a peer was heard of, and why.
func (t Peers) Seen(ctx context.Context, id, reason string, at time.Time) error {
	return t.note(ctx, `UPDATE peers SET seen_at = $1, seen_reason = $2 WHERE id = $3`, millis(at), reason, id)
}

// note runs a statement that must change a row, together with others that come at the
// same time.
func (t Peers) note(ctx context.Context, query string, args ...any) error {
	var n int64
	err := t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, query, texts(args)...)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err // none is no error to the others of the batch
	})
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	return err
}

// MarkSeen notes that peers are connected at this moment. Those that are gone, or
// were heard of later, are left out, and so are those about which something else is
// noted just then.
func (t Peers) MarkSeen(ctx context.Context, ids []string, at time.Time) error {
	return t.mark(ctx, "seen_at", "FOR NO KEY UPDATE SKIP LOCKED", ids, at)
}

// MarkDisconnected is [Peers.Disconnected] for many at once, as when a server stops.
func (t Peers) MarkDisconnected(ctx context.Context, ids []string, at time.Time) error {
	return t.mark(ctx, "disconnected_at", "FOR NO KEY UPDATE", ids, at)
}

func (t Peers) mark(ctx context.Context, column, lock string, ids []string, at time.Time) error {
	for some := range slices.Chunk(sorted(ids), markedAtOnce) {
		args := []any{millis(at)}
		marks := make([]string, len(some))
		for i, id := range some {
			args = append(args, id)
			marks[i] = "$" + strconv.Itoa(i+2)
		}
		// In one order, so that two who do this at the same time do not wait for each
		// other.
		which := t.db.locking(`SELECT id FROM peers WHERE (`+column+` IS NULL OR `+column+` < $1) AND id IN (`+strings.Join(marks, ", ")+`) ORDER BY id`, lock)
		if _, err := t.db.exec(ctx, `UPDATE peers SET `+column+` = $1 WHERE id IN (`+which+`)`, args...); err != nil {
			return err
		}
	}
	return nil
}
