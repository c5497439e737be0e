package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"
)

// MaxPeers is the maximum number of peers of a person. Programs on the same machine may be paired
// without confirmation, so anybody with a key can create them: at about 2 KB each they take 20 MB.
const MaxPeers = 10_000

// Ways in which a peer was approved.
const (
	ViaOwner  = "owner"
	ViaSilent = "silent" // without confirmation: on the same machine, with a key
	ViaInvite = "invite" // by a setup code
)

// Approval states of a peer's surface. Empty: nothing was ever declared.
const (
	SurfaceApproved   = "approved"
	SurfacePending    = "pending"
	SurfaceRepending  = "repending"  // pending, while a smaller one is approved and in force
	SurfaceUnapproved = "unapproved" // rejected, and none was ever approved before
)

// Peer is a program with its own key pair that is paired with a person: a node, an operator, or
// both.
//
// It is identified by its key, and belongs to one person until that person removes it. What a node
// may do is its surface, which is approved separately: the declared commands and caps that somebody
// accepted. All lists are sorted.
type Peer struct {
	ID         string `json:"id"` // hex SHA-256 of the raw public key
	Owner      string `json:"owner"`
	PublicKey  string `json:"public_key"` // base64url of 32 bytes
	Name       string `json:"name,omitempty"`
	Platform   string `json:"platform,omitempty"`
	Family     string `json:"family,omitempty"` // device family
	ClientID   string `json:"client_id,omitempty"`
	ClientMode string `json:"client_mode,omitempty"`
	Version    string `json:"version,omitempty"`
	Address    string `json:"address,omitempty"` // IP address of its last connection
	// Roles and Scopes are all that were ever approved.
	Roles    []string  `json:"roles"`
	Scopes   []string  `json:"scopes"`
	Approved time.Time `json:"approved_at"`
	Via      string    `json:"approved_via"`
	// SecretVersion is part of every token of the peer. It is unique over all peers and never
	// reused, so that tokens become invalid when it changes or the peer is removed.
	SecretVersion int64     `json:"-"`
	TokenChanges  int64     `json:"-"` // how often one of its tokens was replaced or revoked
	Created       time.Time `json:"created_at"`
	Connected     time.Time `json:"connected_at,omitzero"`
	Disconnected  time.Time `json:"disconnected_at,omitzero"`
	Seen          time.Time `json:"last_seen,omitzero"`
	SeenReason    string    `json:"last_seen_reason,omitempty"`

	Surface          string    `json:"surface,omitempty"`
	SurfaceAt        time.Time `json:"surface_approved_at,omitzero"` // approval time of the surface; zero: never
	Caps             []string  `json:"caps"`
	Commands         []string  `json:"commands"`
	DeclaredCaps     []string  `json:"declared_caps"`
	DeclaredCommands []string  `json:"declared_commands"`

	Permissions json.RawMessage `json:"permissions,omitempty"` // a JSON object: permissions granted by its system
	PathEnv     string          `json:"path_env,omitempty"`
	Settings    json.RawMessage `json:"-"` // a JSON object, as its owner set it
}

// Peers accesses the tables of peers, their tokens, and pairing requests.
type Peers struct{ db *DB }

const peerColumns = `id, owner, public_key, name, platform, family, client_id, client_mode, version, address, roles, scopes,
	approved_at, approved_via, secret_version, created_at, connected_at, disconnected_at, seen_at, seen_reason,
	surface_state, surface_at, caps, commands, declared_caps, declared_commands, permissions, path_env, settings,
	token_changes`

func readPeer(s scanner) (p Peer, err error) {
	var (
		approved, created                     int64
		connected, disconnected, seen, agreed sql.NullInt64
		permissions, settings                 string
	)
	err = s.Scan(&p.ID, &p.Owner, &p.PublicKey, &p.Name, &p.Platform, &p.Family, &p.ClientID, &p.ClientMode, &p.Version,
		&p.Address, jsonList{&p.Roles}, jsonList{&p.Scopes},
		&approved, &p.Via, &p.SecretVersion, &created, &connected, &disconnected, &seen, &p.SeenReason,
		&p.Surface, &agreed, jsonList{&p.Caps}, jsonList{&p.Commands}, jsonList{&p.DeclaredCaps},
		jsonList{&p.DeclaredCommands}, &permissions, &p.PathEnv, &settings, &p.TokenChanges)
	p.Approved, p.Created = fromMillis(approved), fromMillis(created)
	p.Connected, p.Disconnected, p.Seen, p.SurfaceAt = fromNullMillis(connected), fromNullMillis(disconnected),
		fromNullMillis(seen), fromNullMillis(agreed)
	p.Permissions, p.Settings = json.RawMessage(permissions), json.RawMessage(settings)
	return p, err
}

// jsonList scans a list stored as JSON.
type jsonList struct{ to *[]string }

// Scan implements [sql.Scanner].
func (l jsonList) Scan(v any) error {
	var text sql.NullString
	if err := text.Scan(v); err != nil {
		return err
	}
	return json.Unmarshal([]byte(text.String), l.to)
}

// encodeList returns a list as JSON.
func encodeList(words []string) string {
	if len(words) == 0 {
		return "[]"
	}
	text, err := json.Marshal(words)
	if err != nil {
		panic(err) // a list of strings always encodes
	}
	return string(text)
}

// sortedUnique joins lists into one sorted list of storable texts without duplicates.
func sortedUnique(words ...[]string) []string {
	all := slices.Concat(words...)
	for i := range all {
		all[i] = sanitizeText(all[i])
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// containsAll reports whether all words are in a sorted list.
func containsAll(words, list []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool {
		_, found := slices.BinarySearch(list, w)
		return !found
	})
}

// ByID returns a peer, or [ErrNotFound].
func (t Peers) ByID(ctx context.Context, id string) (Peer, error) {
	return one(ctx, t.db, readPeer, `SELECT `+peerColumns+` FROM peers WHERE id = $1`, id)
}

// ByOwner lists an owner's peers, or all peers for an empty owner, with ids greater than after, by
// id. The last id of a page is the cursor for the next.
func (t Peers) ByOwner(ctx context.Context, owner, after string, limit int) ([]Peer, error) {
	return all(ctx, t.db, readPeer, `SELECT `+peerColumns+
		` FROM peers WHERE ($1 = '' OR owner = $1) AND id > $2 ORDER BY id LIMIT $3`, owner, after, limit)
}

// locked runs f in a transaction that excludes all other requests and decisions about peers. A
// decision must not race with a request, and concurrent requests must count each other.
func (t Peers) locked(ctx context.Context, f func(*sql.Tx) error) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		var version int64
		if err := tx.QueryRowContext(ctx, t.db.locking(`SELECT value FROM counters WHERE name = 'peers'`,
			"FOR UPDATE")).Scan(&version); err != nil {
			return err
		}
		return f(tx)
	})
}

// change is locked for changes that other instances must notice: it increments the peers version.
func (t Peers) change(ctx context.Context, f func(*sql.Tx) error) error {
	return t.locked(ctx, func(tx *sql.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return bumpPeersVersion(ctx, tx)
	})
}

func bumpPeersVersion(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'peers'`)
	return err
}

// PeersVersion returns a counter that grows whenever a peer is approved, rejected, changed or
// removed, its tokens end, or it declares less than before, on any instance. Requests and activity
// do not count.
func (db *DB) PeersVersion(ctx context.Context) (int64, error) {
	return one(ctx, db, func(s scanner) (v int64, err error) { return v, s.Scan(&v) },
		`SELECT value FROM counters WHERE name = 'peers'`)
}

// Rename changes a peer's name, which need not be unique.
func (t Peers) Rename(ctx context.Context, id, name string) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `UPDATE peers SET name = $1 WHERE id = $2`,
			sanitizeArgs([]any{name, id})...))
	})
}

// Remove deletes a peer, its tokens and requests. If it connects again, it must be paired again.
func (t Peers) Remove(ctx context.Context, id string) error {
	return t.change(ctx, func(tx *sql.Tx) error {
		if err := changed(tx.ExecContext(ctx, `DELETE FROM peers WHERE id = $1`, id)); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM peer_requests WHERE peer = $1`, id); err != nil {
			return err
		}
		return forgetInvites(ctx, tx, id)
	})
}

// SetSurface records what a peer declares now, if that does not exceed what was approved. Anything
// left out is no longer approved, and a pending request for more is withdrawn; its id is returned.
// It returns [ErrExceedsApproval] if the peer declares more, or nothing was ever approved, so that
// [Peers.Request] is needed. An unchanged declaration writes nothing.
func (t Peers) SetSurface(ctx context.Context, id string, caps, commands []string) (withdrawn string, err error) {
	caps, commands = sortedUnique(caps), sortedUnique(commands)
	p, err := t.ByID(ctx, id)
	if err != nil || p.hasSurface(caps, commands) {
		return "", err
	}
	err = t.locked(ctx, func(tx *sql.Tx) error {
		p, err := readPeer(tx.QueryRowContext(ctx, `SELECT `+peerColumns+` FROM peers WHERE id = $1`, id))
		switch {
		case err != nil:
			return err
		case !p.allowsSurface(caps, commands):
			return ErrExceedsApproval
		}
		withdrawn, err = withdrawRequest(ctx, tx, id)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx,
			`UPDATE peers SET surface_state = $1, caps = $2, commands = $3, declared_caps = $2, declared_commands = $3 WHERE id = $4`,
			SurfaceApproved, encodeList(caps), encodeList(commands), id); err != nil {
			return err
		}
		return bumpPeersVersion(ctx, tx)
	})
	return withdrawn, err
}

// allowsSurface reports whether a surface does not exceed the approved one.
func (p Peer) allowsSurface(caps, commands []string) bool {
	return !p.SurfaceAt.IsZero() && containsAll(caps, p.Caps) && containsAll(commands, p.Commands)
}

// hasSurface reports whether a surface is the approved one and nothing is pending.
func (p Peer) hasSurface(caps, commands []string) bool {
	return p.Surface == SurfaceApproved && slices.Equal(caps, p.Caps) && slices.Equal(commands, p.Commands) &&
		slices.Equal(caps, p.DeclaredCaps) && slices.Equal(commands, p.DeclaredCommands)
}

// PeerConnect is what a peer reports when it connects. Empty fields leave the stored values
// unchanged, because a node and an operator on one machine may share a key.
type PeerConnect struct {
	ID                            string
	ClientID, ClientMode, Version string
	Address                       string
	PathEnv                       string
	Permissions                   json.RawMessage // a JSON object
	At                            time.Time
}

// Connected records that a peer has connected. It shares commits, because thousands may connect at
// the same time. It returns [ErrNotFound] if there is no such peer.
func (t Peers) Connected(ctx context.Context, c PeerConnect) error {
	return t.updateOne(ctx,
		`UPDATE peers SET client_id = COALESCE(NULLIF($1, ''), client_id), client_mode = COALESCE(NULLIF($2, ''), client_mode),
		version = COALESCE(NULLIF($3, ''), version), address = COALESCE(NULLIF($4, ''), address), path_env = COALESCE(NULLIF($5, ''), path_env),
		permissions = COALESCE(NULLIF($6, ''), permissions), connected_at = $7, seen_at = $7, seen_reason = 'connect' WHERE id = $8`,
		c.ClientID, c.ClientMode, c.Version, c.Address, c.PathEnv, string(c.Permissions), millis(c.At), c.ID)
}

// Disconnected records that a peer has disconnected.
func (t Peers) Disconnected(ctx context.Context, id string, at time.Time) error {
	return t.updateOne(ctx, `UPDATE peers SET disconnected_at = $1 WHERE id = $2`, millis(at), id)
}

// Seen records activity of a peer and its reason.
func (t Peers) Seen(ctx context.Context, id, reason string, at time.Time) error {
	return t.updateOne(ctx, `UPDATE peers SET seen_at = $1, seen_reason = $2 WHERE id = $3`, millis(at), reason, id)
}

// updateOne runs a statement that must change a row, in a commit shared with others.
func (t Peers) updateOne(ctx context.Context, query string, args ...any) error {
	var n int64
	err := t.db.commits.commit(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, query, sanitizeArgs(args)...)
		if err != nil {
			return err
		}
		n, err = res.RowsAffected()
		return err // a missing row must not fail the batch
	})
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	return err
}
