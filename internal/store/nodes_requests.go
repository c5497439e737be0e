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
	// PeerRequestLife is how long a program that wants in is remembered after its last
	// attempt.
	PeerRequestLife = 5 * time.Minute
	// MaxPeerAsk is how many bytes a request may have, as JSON. It is what a stranger
	// may send at once.
	MaxPeerAsk = 64 << 10
	// MaxPeerRequests is how many programs wait for one person to let them in, and
	// MaxAllPeerRequests for all together. Whoever has a key can invent one more; the
	// one that did not try for longest is forgotten then. Some 500 bytes each, they
	// take 500 KB, and 64 MiB if all are as large as they may be. Requests for a
	// surface do not count: each peer has one at most.
	MaxPeerRequests    = 200
	MaxAllPeerRequests = 1000
)

// What a request is about.
const (
	RequestDevice  = "device"  // to be let in
	RequestSurface = "surface" // to do what it declares
)

// PeerAsk is what a program asks for, and what it says of itself.
type PeerAsk struct {
	PublicKey  string `json:"public_key,omitempty"` // base64url of 32 bytes
	Name       string `json:"name,omitempty"`
	Platform   string `json:"platform,omitempty"`
	Family     string `json:"family,omitempty"`
	ClientID   string `json:"client_id,omitempty"`
	ClientMode string `json:"client_mode,omitempty"`
	Version    string `json:"version,omitempty"`
	// Roles and Scopes are what it wants in as.
	Roles  []string `json:"roles,omitempty"`
	Scopes []string `json:"scopes,omitempty"`
	// Caps and Commands are what it wants to do.
	Caps     []string `json:"caps,omitempty"`
	Commands []string `json:"commands,omitempty"`
}

// PeerRequest is a pairing that waits for somebody to decide.
type PeerRequest struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Peer      string    `json:"peer"`    // id
	Owner     string    `json:"owner"`   // person whose key it showed
	Address   string    `json:"address"` // IP address it was last made from
	Ask       PeerAsk   `json:"ask"`
	Created   time.Time `json:"created_at"`
	Refreshed time.Time `json:"refreshed_at"` // by its last attempt
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

// clean makes an ask fit to be kept and compared.
func (a PeerAsk) clean() PeerAsk {
	for _, s := range []*string{&a.PublicKey, &a.Name, &a.Platform, &a.Family, &a.ClientID, &a.ClientMode, &a.Version} {
		*s = fit(*s)
	}
	for _, l := range []*[]string{&a.Roles, &a.Scopes, &a.Caps, &a.Commands} {
		*l = sorted(*l)
	}
	return a
}

// same says whether an ask wants what another one wants. Whoever agrees to one agrees
// to the other: what it is called, and its version, do not matter.
func (a PeerAsk) same(b PeerAsk) bool {
	return a.PublicKey == b.PublicKey && a.Platform == b.Platform && a.Family == b.Family &&
		slices.Equal(a.Roles, b.Roles) && slices.Equal(a.Scopes, b.Scopes) &&
		slices.Equal(a.Caps, b.Caps) && slices.Equal(a.Commands, b.Commands)
}

// waits says whether nobody has to make a request again to have it decided.
func (r PeerRequest) waits(now time.Time) bool {
	return r.Kind != RequestDevice || now.Sub(r.Refreshed) < PeerRequestLife
}

// Request makes a request at its Refreshed, and says that it is a new one, or
// refreshes the one that waits for the same and returns that. A new one, which gets
// the ID that is given, takes the place of one that waits for something else: nobody
// can be made to agree to more than they have seen. Whoever wants in a second time
// in another role, or with other scopes, waits for both.
//
// [ErrOccupied] says that the program is paired with somebody else, [ErrTooLarge] that
// it says more than [MaxPeerAsk] bytes, and [ErrNotFound] that there is no such owner,
// or no such peer of theirs that could have a surface. [ErrAgreed] says of a surface
// that it is approved meanwhile.
func (t Peers) Request(ctx context.Context, r PeerRequest) (kept PeerRequest, made bool, err error) {
	return t.RequestUnless(ctx, r, nil)
}

// RequestUnless is [Peers.Request] for a program that looked whether it is paired, and
// may be by now: it asks nobody, with [ErrAgreed], if the peer that there is at the
// moment of asking is enough.
func (t Peers) RequestUnless(ctx context.Context, r PeerRequest, enough func(Peer) bool) (kept PeerRequest, made bool, err error) {
	if r.Kind != RequestDevice && r.Kind != RequestSurface {
		return r, false, errors.New("a request is about a " + RequestDevice + " or a " + RequestSurface)
	}
	r.Ask, r.Address, r.Refreshed = r.Ask.clean(), fit(r.Address), fromMillis(millis(r.Refreshed))
	if _, err := r.Ask.body(); err != nil {
		return r, false, err
	}
	was, err := one(ctx, t.db, readPeerRequest, `SELECT `+peerRequestColumns+` FROM peer_requests WHERE kind = $1 AND peer = $2`, r.Kind, r.Peer)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return r, false, err
	}
	if next, same := r.after(was); same {
		// The usual case: somebody waits, and tries again and again.
		switch err := t.refresh(ctx, next); {
		case err == nil:
			return next, false, nil
		case !errors.Is(err, ErrNotFound):
			return r, false, err
		}
	}
	err = t.locked(ctx, func(tx *sql.Tx) (err error) {
		if err := mayAsk(ctx, tx, r, enough); err != nil {
			return err
		}
		kept, made, err = t.ask(ctx, tx, r)
		return err
	})
	return kept, made, err
}

// body is how an ask is kept.
func (a PeerAsk) body() (string, error) {
	body, err := json.Marshal(a)
	if err == nil && len(body) > MaxPeerAsk {
		err = ErrTooLarge
	}
	return string(body), err
}

// after is a request beside the one that was made before, if there is one, and
// whether they are the same.
func (r PeerRequest) after(was PeerRequest) (next PeerRequest, same bool) {
	if was.ID == "" || was.Owner != r.Owner || !was.waits(r.Refreshed) {
		return r, false
	}
	if r.Kind == RequestDevice && was.Ask.Platform == r.Ask.Platform && was.Ask.Family == r.Ask.Family {
		r.Ask.Roles, r.Ask.Scopes = sorted(was.Ask.Roles, r.Ask.Roles), sorted(was.Ask.Scopes, r.Ask.Scopes)
	}
	if same = was.Ask.same(r.Ask); same {
		r.ID, r.Created = was.ID, was.Created
	}
	return r, same
}

// refresh notes that a request was made again.
func (t Peers) refresh(ctx context.Context, r PeerRequest) error {
	body, err := r.Ask.body()
	if err != nil {
		return err
	}
	return t.db.execOne(ctx, `UPDATE peer_requests SET address = $1, body = $2, refreshed_at = $3 WHERE id = $4`, r.Address, body, millis(r.Refreshed), r.ID)
}

// ask makes or refreshes a request while nobody else does.
func (t Peers) ask(ctx context.Context, tx *sql.Tx, r PeerRequest) (kept PeerRequest, made bool, err error) {
	was, err := readPeerRequest(tx.QueryRowContext(ctx, `SELECT `+peerRequestColumns+` FROM peer_requests WHERE kind = $1 AND peer = $2`, r.Kind, r.Peer))
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return r, false, err
	}
	r, same := r.after(was)
	if !same {
		r.Created = r.Refreshed
	}
	body, err := r.Ask.body()
	if err != nil {
		return r, false, err
	}
	if was.ID != "" {
		if _, err := tx.ExecContext(ctx, `DELETE FROM peer_requests WHERE id = $1`, was.ID); err != nil {
			return r, false, err
		}
	}
	if r.Kind == RequestDevice {
		err = makeRoom(ctx, tx, r.Owner)
	} else {
		err = declare(ctx, tx, r)
	}
	if err != nil {
		return r, false, err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO peer_requests (`+peerRequestColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		texts([]any{r.ID, r.Kind, r.Peer, r.Owner, r.Address, body, millis(r.Created), millis(r.Refreshed)})...)
	return r, !same, err
}

// mayAsk says whether a peer may belong to the owner of a request, and has to ask. What
// it asks for may have been approved since it looked.
func mayAsk(ctx context.Context, tx *sql.Tx, r PeerRequest, enough func(Peer) bool) error {
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
	case r.Kind == RequestSurface && p.allows(r.Ask.Caps, r.Ask.Commands), enough != nil && enough(p):
		return ErrAgreed
	}
	return nil
}

// makeRoom forgets requests of those who want in if there are too many.
func makeRoom(ctx context.Context, tx *sql.Tx, owner string) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM peer_requests WHERE id = (SELECT id FROM peer_requests WHERE kind = $1 AND owner = $2 ORDER BY refreshed_at, id LIMIT 1)
		AND (SELECT COUNT(*) FROM peer_requests WHERE kind = $1 AND owner = $2) >= $3`, RequestDevice, owner, MaxPeerRequests); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM peer_requests WHERE id = (SELECT id FROM peer_requests WHERE kind = $1 ORDER BY refreshed_at, id LIMIT 1)
		AND (SELECT COUNT(*) FROM peer_requests WHERE kind = $1) >= $2`, RequestDevice, MaxAllPeerRequests)
	return err
}

// declare notes what a peer wants to do. What was approved stays in force.
func declare(ctx context.Context, tx *sql.Tx, r PeerRequest) error {
	_, err := tx.ExecContext(ctx, `UPDATE peers SET declared_caps = $1, declared_commands = $2,
		surface_state = CASE WHEN surface_at IS NULL THEN '`+SurfacePending+`' ELSE '`+SurfaceRepending+`' END WHERE id = $3`,
		asList(r.Ask.Caps), asList(r.Ask.Commands), r.Peer)
	return err
}

// withdraw takes back what a peer wants to do, and returns the id of that request;
// it is empty if there is none.
func withdraw(ctx context.Context, tx *sql.Tx, peer string) (id string, err error) {
	err = tx.QueryRowContext(ctx, `DELETE FROM peer_requests WHERE kind = $1 AND peer = $2 RETURNING id`, RequestSurface, peer).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, err
}

// Requests lists the requests of a kind that wait for an owner, the newest first; an
// empty owner means everybody's. It lists 1,000 at most.
func (t Peers) Requests(ctx context.Context, kind, owner string, now time.Time) ([]PeerRequest, error) {
	return all(ctx, t.db, readPeerRequest, `SELECT `+peerRequestColumns+` FROM peer_requests WHERE kind = $1 AND ($2 = '' OR owner = $2)
		AND (kind = '`+RequestSurface+`' OR refreshed_at > $3) ORDER BY created_at DESC, id DESC LIMIT 1000`, kind, owner, millis(now.Add(-PeerRequestLife)))
}

// RequestByID finds a request that waits.
func (t Peers) RequestByID(ctx context.Context, id string, now time.Time) (PeerRequest, error) {
	return one(ctx, t.db, readPeerRequest, peerRequestByID, id, "", millis(now.Add(-PeerRequestLife)))
}

// RequestOf finds what a peer waits for, of one kind.
func (t Peers) RequestOf(ctx context.Context, kind, peer string, now time.Time) (PeerRequest, error) {
	return one(ctx, t.db, readPeerRequest, `SELECT `+peerRequestColumns+` FROM peer_requests WHERE kind = $1 AND peer = $2
		AND (kind = '`+RequestSurface+`' OR refreshed_at > $3)`, kind, peer, millis(now.Add(-PeerRequestLife)))
}

const peerRequestByID = `SELECT ` + peerRequestColumns + ` FROM peer_requests WHERE id = $1 AND ($2 = '' OR owner = $2)
	AND (kind = '` + RequestSurface + `' OR refreshed_at > $3)`

// PeerDecision is what is decided about a request.
type PeerDecision struct {
	ID    string // of the request
	Owner string // whose request it must be; empty: anybody's
	Via   string // how it came to be approved; empty: ViaOwner
	At    time.Time
}

// take takes a request out that is decided.
func (t Peers) take(ctx context.Context, tx *sql.Tx, d PeerDecision) (PeerRequest, error) {
	r, err := readPeerRequest(tx.QueryRowContext(ctx, peerRequestByID, d.ID, d.Owner, millis(d.At.Add(-PeerRequestLife))))
	if err != nil {
		return r, err
	}
	return r, changed(tx.ExecContext(ctx, `DELETE FROM peer_requests WHERE id = $1`, r.ID))
}

// Approve grants what a request asks for, and returns the peer as it is then. A peer
// that had roles and scopes before keeps those too, and its name. [ErrNotFound] says
// that there is no such request, or no longer; [ErrOccupied] that the program is
// paired with somebody else meanwhile; [ErrFull] that the owner has [MaxPeers].
func (t Peers) Approve(ctx context.Context, d PeerDecision) (p Peer, r PeerRequest, err error) {
	if d.Via == "" {
		d.Via = ViaOwner
	}
	err = t.change(ctx, func(tx *sql.Tx) (err error) {
		if r, err = t.take(ctx, tx, d); err != nil {
			return err
		}
		if r.Kind == RequestSurface {
			p, err = readPeer(tx.QueryRowContext(ctx, `UPDATE peers SET surface_state = $1, surface_at = $2, caps = $3, commands = $4,
				declared_caps = $3, declared_commands = $4 WHERE id = $5 RETURNING `+peerColumns,
				SurfaceApproved, millis(d.At), asList(r.Ask.Caps), asList(r.Ask.Commands), r.Peer))
			return err
		}
		p, err = admit(ctx, tx, r, d)
		return err
	})
	return p, r, err
}

// admit lets a program in, or in with more than before.
func admit(ctx context.Context, tx *sql.Tx, r PeerRequest, d PeerDecision) (Peer, error) {
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
	return readPeer(tx.QueryRowContext(ctx, `UPDATE peers SET name = $1, platform = $2, family = $3, client_id = $4, client_mode = $5, version = $6, address = $7,
		roles = $8, scopes = $9, approved_at = $10, approved_via = $11 WHERE id = $12 RETURNING `+peerColumns,
		texts([]any{p.Name, a.Platform, a.Family, a.ClientID, a.ClientMode, a.Version, r.Address,
			asList(sorted(p.Roles, a.Roles)), asList(sorted(p.Scopes, a.Scopes)), millis(d.At), d.Via, p.ID})...))
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
	return readPeer(tx.QueryRowContext(ctx, `INSERT INTO peers (`+peerColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12,
		$13, $14, $15, $13, NULL, NULL, NULL, '', '', NULL, '[]', '[]', '[]', '[]', '{}', '', '{}') RETURNING `+peerColumns,
		texts([]any{r.Peer, r.Owner, a.PublicKey, a.Name, a.Platform, a.Family, a.ClientID, a.ClientMode, a.Version, r.Address, asList(a.Roles), asList(a.Scopes),
			millis(d.At), d.Via, version})...))
}

// Reject takes a request back that nobody grants. What a peer was approved to do
// before stays in force. [ErrNotFound] says that there is no such request, or no
// longer.
func (t Peers) Reject(ctx context.Context, d PeerDecision) (r PeerRequest, err error) {
	err = t.change(ctx, func(tx *sql.Tx) (err error) {
		if r, err = t.take(ctx, tx, d); err != nil || r.Kind != RequestSurface {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE peers SET surface_state = CASE WHEN surface_at IS NULL THEN '`+SurfaceUnapproved+`' ELSE '`+SurfaceApproved+`' END
			WHERE id = $1`, r.Peer)
		return err
	})
	return r, err
}
