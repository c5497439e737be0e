package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// OAuthClient is a program that people may let in by OAuth.
type OAuthClient struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"` // one of the Client… constants
	Name       string    `json:"name"` // as the program says, or an administrator for it
	URI        string    `json:"uri,omitempty"`
	Redirects  []string  `json:"redirect_uris"`
	SecretHash string    `json:"-"`                     // empty: it has no secret
	Address    string    `json:"address,omitempty"`     // from which it registered
	Created    time.Time `json:"created_at"`            // of a document: when it was first read
	Used       time.Time `json:"last_used_at,omitzero"` // zero: nobody has let it in
	FreshUntil time.Time `json:"-"`                     // until when its document need not be read again
}

// Kinds of OAuth clients.
const (
	ClientRegistered = "registered" // it registered itself (RFC 7591)
	ClientDocument   = "document"   // its id is the address of a document
	ClientConfigured = "configured" // an administrator added it
)

// OAuthRequest is what a program asks of a person.
type OAuthRequest struct {
	ID        string // hash of the random id in the address
	Client    string
	Browser   string // hash of what the browser keeps
	Redirect  string
	Challenge string // S256 (RFC 7636)
	State     string
	Resource  string // address of the endpoint
	Scopes    []string
	Person    string // who consented; empty: nobody yet
	Rules     string // of the key, as in Key.Rules
	Days      int    // lifetime of the key; 0: unlimited
	Key       string // id of the key that the code was exchanged for; empty: none yet
	Expires   time.Time
}

// OAuthToken is an access or refresh token. Only its hash is stored.
type OAuthToken struct {
	Hash, Kind, Key string
	Expires         time.Time
	Used            time.Time // first use of a refresh token; zero: not used
}

// Kinds of OAuth tokens.
const (
	TokenAccess  = "access"
	TokenRefresh = "refresh"
)

// OAuth accesses the tables of OAuth clients, requests and tokens.
type OAuth struct{ db *DB }

const clientColumns = `id, kind, name, uri, redirects, secret_hash, address, created_at, used_at, fresh_until`

func readClient(s scanner) (c OAuthClient, err error) {
	var redirects string
	var created, used, fresh int64
	if err = s.Scan(&c.ID, &c.Kind, &c.Name, &c.URI, &redirects, &c.SecretHash, &c.Address, &created, &used,
		&fresh); err != nil {
		return c, err
	}
	c.Created, c.Used, c.FreshUntil = fromMillis(created), fromZero(used), fromZero(fresh)
	if err = json.Unmarshal([]byte(redirects), &c.Redirects); err != nil {
		err = fmt.Errorf("redirects of an OAuth client: %w", err)
	}
	return c, err
}

// Client returns a client.
func (t OAuth) Client(ctx context.Context, id string) (OAuthClient, error) {
	return one(ctx, t.db, readClient, `SELECT `+clientColumns+` FROM oauth_clients WHERE id = $1`, id)
}

// Clients lists the clients of a kind by name, at most 1,000.
func (t OAuth) Clients(ctx context.Context, kind string) ([]OAuthClient, error) {
	return all(ctx, t.db, readClient, `SELECT `+clientColumns+
		` FROM oauth_clients WHERE kind = $1 ORDER BY name, id LIMIT 1000`, kind)
}

// ClientsOf returns the clients that a person has let in, or anybody for an empty person, by id.
func (t OAuth) ClientsOf(ctx context.Context, person string) (map[string]OAuthClient, error) {
	list, err := all(ctx, t.db, readClient, `SELECT `+clientColumns+` FROM oauth_clients WHERE id IN (
		SELECT client FROM keys WHERE client <> '' AND ($1 = '' OR person = $1))`, person)
	byID := make(map[string]OAuthClient, len(list))
	for _, c := range list {
		byID[c.ID] = c
	}
	return byID, err
}

// SaveClient adds a client, or replaces what is stored of it except its times of creation and use.
func (t OAuth) SaveClient(ctx context.Context, c OAuthClient) error {
	redirects, err := json.Marshal(c.Redirects)
	if err != nil {
		return err
	}
	_, err = t.db.exec(ctx, `INSERT INTO oauth_clients (`+clientColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (id) DO UPDATE SET name = excluded.name, uri = excluded.uri, redirects = excluded.redirects,
			fresh_until = excluded.fresh_until`,
		c.ID, c.Kind, c.Name, c.URI, string(redirects), c.SecretHash, c.Address, millis(c.Created), zeroMillis(c.Used),
		zeroMillis(c.FreshUntil))
	return err
}

// CountClients returns how many clients no administrator has added.
func (t OAuth) CountClients(ctx context.Context) (n int, err error) {
	err = t.db.r.QueryRowContext(ctx, `SELECT COUNT(*) FROM oauth_clients WHERE kind <> '`+ClientConfigured+`'`).Scan(&n)
	return n, translate(err)
}

// CountUnused returns how many clients have registered themselves from an address since a time
// without anybody having let them in.
func (t OAuth) CountUnused(ctx context.Context, address string, since time.Time) (n int, err error) {
	err = t.db.r.QueryRowContext(ctx, `SELECT COUNT(*) FROM oauth_clients WHERE address = $1 AND used_at = 0
		AND created_at > $2 AND kind = '`+ClientRegistered+`'`, address, millis(since)).Scan(&n)
	return n, translate(err)
}

// DropUnused deletes the n oldest clients that nobody has let in and that ask nobody at the moment,
// and returns how many there were.
func (t OAuth) DropUnused(ctx context.Context, n int) (int64, error) {
	return t.db.exec(ctx, `DELETE FROM oauth_clients WHERE id IN (SELECT id FROM oauth_clients WHERE used_at = 0
		AND kind <> '`+ClientConfigured+`' AND NOT EXISTS (
			SELECT 1 FROM oauth_requests r WHERE r.client = oauth_clients.id)
		ORDER BY created_at, id LIMIT $1)`, n)
}

// RemoveClient removes a client and revokes the keys that were made for it.
func (t OAuth) RemoveClient(ctx context.Context, id string, at time.Time) error {
	return t.db.changeAccess(ctx, func(tx *sql.Tx) error {
		// First the client: an exchange of a code holds its row too, so no key is made after the
		// keys were revoked.
		if err := changed(tx.ExecContext(ctx, `DELETE FROM oauth_clients WHERE id = $1`, id)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx,
			`UPDATE keys SET revoked_at = COALESCE(revoked_at, $1) WHERE client = $2`, millis(at), id)
		return err
	})
}

const requestColumns = `id, client, browser, redirect, challenge, state, resource, scopes, person, rules, days, key, expires_at`

func readRequest(s scanner) (r OAuthRequest, err error) {
	var person sql.NullString
	var scopes string
	var expires int64
	err = s.Scan(&r.ID, &r.Client, &r.Browser, &r.Redirect, &r.Challenge, &r.State, &r.Resource, &scopes, &person,
		&r.Rules, &r.Days, &r.Key, &expires)
	r.Person, r.Scopes, r.Expires = person.String, strings.Fields(scopes), fromMillis(expires)
	return r, err
}

// AddRequest stores a new request. It returns [ErrNotFound] if the client was removed.
func (t OAuth) AddRequest(ctx context.Context, r OAuthRequest) error {
	_, err := t.db.exec(ctx, `INSERT INTO oauth_requests (`+requestColumns+
		`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, '', 0, '', $9)`,
		r.ID, r.Client, r.Browser, r.Redirect, r.Challenge, r.State, r.Resource, strings.Join(r.Scopes, " "),
		millis(r.Expires))
	return err
}

// Request returns a request.
func (t OAuth) Request(ctx context.Context, id string) (OAuthRequest, error) {
	return one(ctx, t.db, readRequest, `SELECT `+requestColumns+` FROM oauth_requests WHERE id = $1`, id)
}

// RequestByCode returns the request that a code was given for, by the hash of the code.
func (t OAuth) RequestByCode(ctx context.Context, code string) (OAuthRequest, error) {
	return one(ctx, t.db, readRequest, `SELECT `+requestColumns+` FROM oauth_requests WHERE code = $1`, code)
}

// OAuthConsent is a person's answer to a request.
type OAuthConsent struct {
	Person  string
	Code    string    // hash of the code for the program
	Scopes  []string  // that are granted
	Rules   string    // of the key, as in Key.Rules
	Days    int       // lifetime of the key; 0: unlimited
	Expires time.Time // of the code
}

// Consent stores a person's consent to a request. It returns [ErrNotFound] if somebody has already
// answered the request.
func (t OAuth) Consent(ctx context.Context, id string, c OAuthConsent) error {
	return t.db.execOne(ctx, `UPDATE oauth_requests SET person = $1, code = $2, rules = $3, days = $4, expires_at = $5,
		scopes = $6 WHERE id = $7 AND person IS NULL`, c.Person, c.Code, c.Rules, c.Days, millis(c.Expires),
		strings.Join(c.Scopes, " "), id)
}

// DropRequest deletes a request that nobody has consented to, and returns [ErrNotFound] if there is
// none.
func (t OAuth) DropRequest(ctx context.Context, id string) error {
	return t.db.execOne(ctx, `DELETE FROM oauth_requests WHERE id = $1 AND person IS NULL`, id)
}

// Exchange adds the key and the tokens that a code is exchanged for. It returns [ErrExists] if the
// code was exchanged before. The request stays until keep, so that a second use is noticed.
func (t OAuth) Exchange(ctx context.Context, code string, k Key, keep time.Time, tokens ...OAuthToken) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		var client string
		err := tx.QueryRowContext(ctx, `UPDATE oauth_requests SET key = $1, expires_at = $2 WHERE code = $3 AND key = ''
			RETURNING client`, k.ID, millis(keep), code).Scan(&client)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrExists
		}
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, insertKeyRow, keyValues(k)...); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `UPDATE oauth_clients SET used_at = $1 WHERE id = $2`, millis(k.Created),
			client); err != nil {
			return err
		}
		return addTokens(ctx, tx, tokens)
	})
}

func addTokens(ctx context.Context, tx *sql.Tx, tokens []OAuthToken) error {
	for _, n := range tokens {
		if _, err := tx.ExecContext(ctx, `INSERT INTO oauth_tokens (hash, kind, key, expires_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (hash) DO NOTHING`, n.Hash, n.Kind, n.Key, millis(n.Expires)); err != nil {
			return err
		}
	}
	return nil
}

// Token returns a token by its hash.
func (t OAuth) Token(ctx context.Context, hash string) (OAuthToken, error) {
	return one(ctx, t.db, func(s scanner) (n OAuthToken, err error) {
		var expires int64
		var used sql.NullInt64
		err = s.Scan(&n.Hash, &n.Kind, &n.Key, &expires, &used)
		n.Expires, n.Used = fromMillis(expires), fromNullMillis(used)
		return n, err
	}, `SELECT hash, kind, key, expires_at, used_at FROM oauth_tokens WHERE hash = $1`, hash)
}

// Refresh records the first use of a refresh token, and adds the tokens that follow it, unless they
// exist. It returns when the token was first used, which is at if that is now.
func (t OAuth) Refresh(ctx context.Context, hash string, at time.Time,
	next ...OAuthToken) (first time.Time, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) error {
		var used int64
		var key string
		err := tx.QueryRowContext(ctx, `UPDATE oauth_tokens SET used_at = COALESCE(used_at, $1) WHERE hash = $2
			RETURNING used_at, key`, millis(at), hash).Scan(&used, &key)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		first = fromMillis(used)
		if _, err := tx.ExecContext(ctx,
			`UPDATE oauth_clients SET used_at = $1 WHERE id = (SELECT client FROM keys WHERE id = $2)`,
			millis(at), key); err != nil {
			return err
		}
		return addTokens(ctx, tx, next)
	})
	return first, err
}

// accessKept is how long access tokens are known after their end: a program that comes back with
// one has not guessed.
const accessKept = 7 * 24 * time.Hour

// purge deletes expired requests and tokens, revokes keys that no token is left of, and deletes
// clients that nobody lets in: those never used after unused, unless they ask somebody, the others
// once they have no valid key and were last used before old.
func (t OAuth) purge(ctx context.Context, now, unused, old time.Time) (total int64, err error) {
	err = t.db.tx(ctx, func(tx *sql.Tx) error {
		for _, d := range []struct {
			query string
			args  []any
		}{
			{`DELETE FROM oauth_requests WHERE expires_at <= $1`, []any{millis(now)}},
			{`DELETE FROM oauth_tokens WHERE expires_at <= $1 AND kind <> '` + TokenAccess + `' OR expires_at <= $2`,
				[]any{millis(now), millis(now.Add(-accessKept))}},
			{`UPDATE keys SET revoked_at = $1 WHERE client <> '' AND revoked_at IS NULL
				AND NOT EXISTS (SELECT 1 FROM oauth_tokens t WHERE t.key = keys.id AND t.expires_at > $1)`,
				[]any{millis(now)}},
			{`DELETE FROM oauth_clients WHERE kind <> '` + ClientConfigured + `' AND (used_at = 0 AND created_at < $1
					AND NOT EXISTS (SELECT 1 FROM oauth_requests r WHERE r.client = oauth_clients.id)
				OR used_at > 0 AND used_at < $2 AND NOT EXISTS (
					SELECT 1 FROM keys k WHERE k.client = oauth_clients.id AND k.revoked_at IS NULL))`,
				[]any{millis(unused), millis(old)}},
		} {
			n, err := affected(tx.ExecContext(ctx, d.query, d.args...))
			if err != nil {
				return err
			}
			total += n
		}
		return nil
	})
	return total, err
}
