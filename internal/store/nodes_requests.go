package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

const (
	// PeerRequestLife is how long a pairing request is valid after its last attempt.
	PeerRequestLife = 5 * time.Minute
	// MaxPeerAsk is the maximum size of a request's content, in bytes of JSON. A stranger can send
	// that much at once.
	MaxPeerAsk = 64 << 10
	// MaxPeerRequests limits the pending pairing requests of one person, and MaxAllPeerRequests
	// those of all together. Anybody with a key can create them, so the one that was not retried
	// for longest is deleted for a new one. At about 500 bytes each they take 500 KB, and 64 MiB at
	// most. Requests for a surface do not count: each peer has at most one.
	MaxPeerRequests    = 200
	MaxAllPeerRequests = 1000
)

// Kinds of requests.
const (
	RequestDevice  = "device"  // to be paired
	RequestSurface = "surface" // to use the declared caps and commands
)

// PeerAsk is the content of a request: what a program requests and reports about itself.
type PeerAsk struct {
	PublicKey  string `json:"public_key,omitempty"` // base64url of 32 bytes
	Name       string `json:"name,omitempty"`
	Platform   string `json:"platform,omitempty"`
	Family     string `json:"family,omitempty"`
	ClientID   string `json:"client_id,omitempty"`
	ClientMode string `json:"client_mode,omitempty"`
	Version    string `json:"version,omitempty"`
	// Roles and Scopes are requested for pairing.
	Roles  []string `json:"roles,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
	// Caps and Commands are the requested surface.
	Caps     []string `json:"caps,omitempty"`
	Commands []string `json:"commands,omitempty"`
}

// PeerRequest is a request that waits for a decision.
type PeerRequest struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Peer      string    `json:"peer"`    // id of the peer
	Owner     string    `json:"owner"`   // person whose key it used
	Address   string    `json:"address"` // IP address of its last attempt
	Ask       PeerAsk   `json:"ask"`
	Created   time.Time `json:"created_at"`
	Refreshed time.Time `json:"refreshed_at"` // time of its last attempt
}

const peerRequestColumns = `id, kind, peer, owner, address, body, created_at, refreshed_at`

func readPeerRequest(s scanner) (r PeerRequest, err error) {
	var (
		body               string
		created, refreshed int64
	)
	if err := s.Scan(&r.ID, &r.Kind, &r.Peer, &r.Owner, &r.Address, &body, &created, &refreshed); err != nil {
		return r, err
	}
	r.Created, r.Refreshed = fromMillis(created), fromMillis(refreshed)
	return r, json.Unmarshal([]byte(body), &r.Ask)
}

// normalize makes an ask storable and comparable.
func (a PeerAsk) normalize() PeerAsk {
	for _, s := range []*string{&a.PublicKey, &a.Name, &a.Platform, &a.Family, &a.ClientID, &a.ClientMode, &a.Version} {
		*s = sanitizeText(*s)
	}
	for _, l := range []*[]string{&a.Roles, &a.Scopes, &a.Caps, &a.Commands} {
		*l = sortedUnique(*l)
	}
	return a
}

// sameRights reports whether two asks request the same rights from the same key and platform. Names
// and versions do not matter: approving one approves the other.
func (a PeerAsk) sameRights(b PeerAsk) bool {
	return a.PublicKey == b.PublicKey && a.Platform == b.Platform && a.Family == b.Family &&
		slices.Equal(a.Roles, b.Roles) && slices.Equal(a.Scopes, b.Scopes) &&
		slices.Equal(a.Caps, b.Caps) && slices.Equal(a.Commands, b.Commands)
}

// isPending reports whether a request can still be decided without another attempt.
func (r PeerRequest) isPending(now time.Time) bool {
	return r.Kind != RequestDevice || now.Sub(r.Refreshed) < PeerRequestLife
}

// Request creates a request with the given ID at the time Refreshed and reports that it is new, or
// refreshes the pending request for the same rights and returns that. A new request replaces a
// pending one for other rights, so that nobody approves more than they have seen. A pairing request
// for another role or other scopes is merged with the pending one.
//
// It returns [ErrOccupied] if the program is paired with another person, [ErrTooLarge] if the
// content exceeds [MaxPeerAsk], [ErrNotFound] if there is no such owner, or no such peer of the
// owner that could have a surface, and [ErrAlreadyApproved] if the surface has been approved
// meanwhile.
func (t Peers) Request(ctx context.Context, r PeerRequest) (kept PeerRequest, made bool, err error) {
	return t.RequestUnless(ctx, r, nil)
}

// RequestUnless is [Peers.Request] for a program that found itself not paired, but may have been
// paired since: if the peer that exists now satisfies enough, it returns [ErrAlreadyApproved] and
// creates no request.
func (t Peers) RequestUnless(ctx context.Context, r PeerRequest,
	enough func(Peer) bool) (kept PeerRequest, made bool, err error) {
	if r.Kind != RequestDevice && r.Kind != RequestSurface {
		return r, false, errors.New("a request is about a " + RequestDevice + " or a " + RequestSurface)
	}
	r.Ask, r.Address, r.Refreshed = r.Ask.normalize(), sanitizeText(r.Address), fromMillis(millis(r.Refreshed))
	if _, err := r.Ask.encode(); err != nil {
		return r, false, err
	}
	was, err := one(ctx, t.db, readPeerRequest, `SELECT `+peerRequestColumns+
		` FROM peer_requests WHERE kind = $1 AND peer = $2`, r.Kind, r.Peer)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return r, false, err
	}
	if next, same := r.mergeInto(was); same {
		// The usual case: a pending program retries.
		switch err := t.refresh(ctx, next); {
		case err == nil:
			return next, false, nil
		case !errors.Is(err, ErrNotFound):
			return r, false, err
		}
	}
	err = t.locked(ctx, func(tx *sql.Tx) (err error) {
		if err := checkRequest(ctx, tx, r, enough); err != nil {
			return err
		}
		kept, made, err = t.saveRequest(ctx, tx, r)
		return err
	})
	return kept, made, err
}

// encode returns an ask as JSON, or ErrTooLarge.
func (a PeerAsk) encode() (string, error) {
	body, err := json.Marshal(a)
	if err == nil && len(body) > MaxPeerAsk {
		err = ErrTooLarge
	}
	return string(body), err
}

// mergeInto combines a request with the pending one, if there is any, and reports whether both
// request the same.
func (r PeerRequest) mergeInto(was PeerRequest) (next PeerRequest, same bool) {
	if was.ID == "" || was.Owner != r.Owner || !was.isPending(r.Refreshed) {
		return r, false
	}
	if r.Kind == RequestDevice && was.Ask.Platform == r.Ask.Platform && was.Ask.Family == r.Ask.Family {
		r.Ask.Roles, r.Ask.Scopes = sortedUnique(was.Ask.Roles, r.Ask.Roles), sortedUnique(was.Ask.Scopes, r.Ask.Scopes)
	}
	if same = was.Ask.sameRights(r.Ask); same {
		r.ID, r.Created = was.ID, was.Created
	}
	return r, same
}

// refresh records another attempt of a request.
func (t Peers) refresh(ctx context.Context, r PeerRequest) error {
	body, err := r.Ask.encode()
	if err != nil {
		return err
	}
	return t.db.execOne(ctx, `UPDATE peer_requests SET address = $1, body = $2, refreshed_at = $3 WHERE id = $4`,
		r.Address, body, millis(r.Refreshed), r.ID)
}

// saveRequest creates or refreshes a request. The caller holds the lock of [Peers.locked].
func (t Peers) saveRequest(ctx context.Context, tx *sql.Tx, r PeerRequest) (kept PeerRequest, made bool, err error) {
	was, err := readPeerRequest(tx.QueryRowContext(ctx, `SELECT `+peerRequestColumns+
		` FROM peer_requests WHERE kind = $1 AND peer = $2`, r.Kind, r.Peer))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return r, false, err
	}
	r, same := r.mergeInto(was)
	if !same {
		r.Created = r.Refreshed
	}
	body, err := r.Ask.encode()
	if err != nil {
		return r, false, err
	}
	if was.ID != "" {
		if _, err := tx.ExecContext(ctx, `DELETE FROM peer_requests WHERE id = $1`, was.ID); err != nil {
			return r, false, err
		}
	}
	if r.Kind == RequestDevice {
		err = evictOldestRequests(ctx, tx, r.Owner)
	} else {
		err = recordDeclared(ctx, tx, r)
	}
	if err != nil {
		return r, false, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO peer_requests (`+peerRequestColumns+
		`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		sanitizeArgs([]any{r.ID, r.Kind, r.Peer, r.Owner, r.Address, body, millis(r.Created), millis(r.Refreshed)})...)
	return r, !same, err
}

// checkRequest reports as an error why a request is not possible or not needed. The requested
// rights may have been approved since the caller checked.
func checkRequest(ctx context.Context, tx *sql.Tx, r PeerRequest, enough func(Peer) bool) error {
	p, err := readPeer(tx.QueryRowContext(ctx, `SELECT `+peerColumns+` FROM peers WHERE id = $1`, r.Peer))
	switch {
	case errors.Is(err, sql.ErrNoRows) && r.Kind == RequestDevice:
		return nil
	case err != nil:
		return err
	case p.Owner != r.Owner && r.Kind == RequestDevice:
		return ErrOccupied
	case p.Owner != r.Owner:
		return ErrNotFound
	case r.Kind == RequestSurface && p.allowsSurface(r.Ask.Caps, r.Ask.Commands), enough != nil && enough(p):
		return ErrAlreadyApproved
	}
	return nil
}

// evictOldestRequests deletes the least recently retried pairing request if there are too many.
func evictOldestRequests(ctx context.Context, tx *sql.Tx, owner string) error {
	if _, err := tx.ExecContext(ctx,
		`DELETE FROM peer_requests WHERE id = (SELECT id FROM peer_requests WHERE kind = $1 AND owner = $2 ORDER BY refreshed_at, id LIMIT 1)
		AND (SELECT COUNT(*) FROM peer_requests WHERE kind = $1 AND owner = $2) >= $3`, RequestDevice, owner, MaxPeerRequests); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx,
		`DELETE FROM peer_requests WHERE id = (SELECT id FROM peer_requests WHERE kind = $1 ORDER BY refreshed_at, id LIMIT 1)
		AND (SELECT COUNT(*) FROM peer_requests WHERE kind = $1) >= $2`, RequestDevice, MaxAllPeerRequests)
	return err
}

// recordDeclared stores what a peer declares. What was approved stays in force.
func recordDeclared(ctx context.Context, tx *sql.Tx, r PeerRequest) error {
	_, err := tx.ExecContext(ctx, `UPDATE peers SET declared_caps = $1, declared_commands = $2,
		surface_state = CASE WHEN surface_at IS NULL THEN '`+SurfacePending+`' ELSE '`+SurfaceRepending+`' END WHERE id = $3`,
		encodeList(r.Ask.Caps), encodeList(r.Ask.Commands), r.Peer)
	return err
}

// withdrawRequest deletes the surface request of a peer and returns its id, or "" if there is none.
func withdrawRequest(ctx context.Context, tx *sql.Tx, peer string) (id string, err error) {
	err = tx.QueryRowContext(ctx, `DELETE FROM peer_requests WHERE kind = $1 AND peer = $2 RETURNING id`,
		RequestSurface, peer).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, err
}

// Requests lists the pending requests of a kind for an owner, or for all owners if it is empty,
// newest first, at most 1,000.
func (t Peers) Requests(ctx context.Context, kind, owner string, now time.Time) ([]PeerRequest, error) {
	return all(ctx, t.db, readPeerRequest, `SELECT `+peerRequestColumns+
		` FROM peer_requests WHERE kind = $1 AND ($2 = '' OR owner = $2)
		AND (kind = '`+RequestSurface+`' OR refreshed_at > $3) ORDER BY created_at DESC, id DESC LIMIT 1000`, kind, owner, millis(now.Add(-PeerRequestLife)))
}

// RequestByID returns a pending request.
func (t Peers) RequestByID(ctx context.Context, id string, now time.Time) (PeerRequest, error) {
	return one(ctx, t.db, readPeerRequest, peerRequestByID, id, "", millis(now.Add(-PeerRequestLife)))
}

// RequestOf returns the pending request of a kind of a peer.
func (t Peers) RequestOf(ctx context.Context, kind, peer string, now time.Time) (PeerRequest, error) {
	return one(ctx, t.db, readPeerRequest, `SELECT `+peerRequestColumns+
		` FROM peer_requests WHERE kind = $1 AND peer = $2
		AND (kind = '`+RequestSurface+`' OR refreshed_at > $3)`, kind, peer, millis(now.Add(-PeerRequestLife)))
}

const peerRequestByID = `SELECT ` + peerRequestColumns + ` FROM peer_requests WHERE id = $1 AND ($2 = '' OR owner = $2)
	AND (kind = '` + RequestSurface + `' OR refreshed_at > $3)`

// PeerDecision is a decision about a request.
type PeerDecision struct {
	ID    string // id of the request
	Owner string // required owner of the request; empty: any
	Via   string // how it was approved; empty: ViaOwner
	At    time.Time
}

// takeRequest returns and deletes a request that is being decided.
func (t Peers) takeRequest(ctx context.Context, tx *sql.Tx, d PeerDecision) (PeerRequest, error) {
	r, err := readPeerRequest(tx.QueryRowContext(ctx, peerRequestByID, d.ID, d.Owner,
		millis(d.At.Add(-PeerRequestLife))))
	if err != nil {
		return r, err
	}
	return r, changed(tx.ExecContext(ctx, `DELETE FROM peer_requests WHERE id = $1`, r.ID))
}

// Approve grants a request and returns the resulting peer. A peer that was paired before keeps its
// name, roles and scopes. It returns [ErrNotFound] if the request does not exist or has expired,
// [ErrOccupied] if the program has been paired with another person meanwhile, and [ErrFull] if the
// owner has [MaxPeers] peers.
func (t Peers) Approve(ctx context.Context, d PeerDecision) (p Peer, r PeerRequest, err error) {
	if d.Via == "" {
		d.Via = ViaOwner
	}
	err = t.change(ctx, func(tx *sql.Tx) (err error) {
		if r, err = t.takeRequest(ctx, tx, d); err != nil {
			return err
		}
		if r.Kind == RequestSurface {
			p, err = readPeer(tx.QueryRowContext(ctx,
				`UPDATE peers SET surface_state = $1, surface_at = $2, caps = $3, commands = $4,
				declared_caps = $3, declared_commands = $4 WHERE id = $5 RETURNING `+peerColumns,
				SurfaceApproved, millis(d.At), encodeList(r.Ask.Caps), encodeList(r.Ask.Commands), r.Peer))
			return err
		}
		p, err = approvePeer(ctx, tx, r, d)
		return err
	})
	return p, r, err
}

// approvePeer creates the peer of an approved request, or extends an existing one.
func approvePeer(ctx context.Context, tx *sql.Tx, r PeerRequest, d PeerDecision) (Peer, error) {
	a := r.Ask
	p, err := readPeer(tx.QueryRowContext(ctx, `SELECT `+peerColumns+` FROM peers WHERE id = $1`, r.Peer))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return insertPeer(ctx, tx, r, d)
	case err != nil:
		return p, err
	case p.Owner != r.Owner:
		return p, ErrOccupied
	}
	if p.Name == "" {
		p.Name = a.Name
	}
	return readPeer(tx.QueryRowContext(ctx,
		`UPDATE peers SET name = $1, platform = $2, family = $3, client_id = $4, client_mode = $5, version = $6, address = $7,
		roles = $8, scopes = $9, approved_at = $10, approved_via = $11 WHERE id = $12 RETURNING `+peerColumns,
		sanitizeArgs([]any{p.Name, a.Platform, a.Family, a.ClientID, a.ClientMode, a.Version, r.Address,
			encodeList(sortedUnique(p.Roles, a.Roles)), encodeList(sortedUnique(p.Scopes, a.Scopes)), millis(d.At),
			d.Via, p.ID})...))
}

func insertPeer(ctx context.Context, tx *sql.Tx, r PeerRequest, d PeerDecision) (p Peer, err error) {
	var has int
	if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM peers WHERE owner = $1`, r.Owner).Scan(&has); err != nil {
		return p, err
	}
	if has >= MaxPeers {
		return p, ErrFull
	}
	version, err := nextPeerSecret(ctx, tx)
	if err != nil {
		return p, err
	}
	a := r.Ask
	return readPeer(tx.QueryRowContext(ctx, `INSERT INTO peers (`+peerColumns+
		`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
		$13, $14, $15, $13, NULL, NULL, NULL, '', '', NULL, '[]', '[]', '[]', '[]', '{}', '', '{}', 0) RETURNING `+peerColumns,
		sanitizeArgs([]any{r.Peer, r.Owner, a.PublicKey, a.Name, a.Platform, a.Family, a.ClientID, a.ClientMode,
			a.Version, r.Address, encodeList(a.Roles), encodeList(a.Scopes),
			millis(d.At), d.Via, version})...))
}

// Reject deletes a request without granting it. What was approved before stays in force. It returns
// [ErrNotFound] if the request does not exist or has expired.
func (t Peers) Reject(ctx context.Context, d PeerDecision) (r PeerRequest, err error) {
	err = t.change(ctx, func(tx *sql.Tx) (err error) {
		if r, err = t.takeRequest(ctx, tx, d); err != nil || r.Kind != RequestSurface {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE peers SET surface_state = CASE WHEN surface_at IS NULL THEN '`+
			SurfaceUnapproved+`' ELSE '`+SurfaceApproved+`' END
			WHERE id = $1`, r.Peer)
		return err
	})
	return r, err
}
