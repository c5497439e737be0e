package store

import (
	"context"
	"database/sql"
	"time"
)

// Certificate is the certificate of a name, or what is known before there is one.
type Certificate struct {
	Name, Directory string
	Chain           string // PEM, the leaf first; empty: none yet
	Sealed          string // the private key as PEM, sealed
	Issued, Expires time.Time
	Renew           time.Time // when the next one is ordered

	// Failures counts the attempts that failed since the last certificate. Tried is the time of the
	// last attempt, at TriedDirectory, and Retry that of the next one there.
	Failures       int
	Tried, Retry   time.Time
	TriedDirectory string
	// Challenge is the kind of challenge of the last attempt. Problem and Detail say why it failed.
	Challenge, Problem, Detail string
	// Pending is the order that the authority was last asked to issue, sealed; empty if Chain is of
	// it.
	Pending string
}

// ACMEChallenge is the answer to a challenge of a certificate authority.
type ACMEChallenge struct {
	Kind, Token, Name, Sealed string
	Expires                   time.Time
}

// Certificates accesses the tables of certificates, and of what getting them needs.
type Certificates struct{ db *DB }

const certificate = `SELECT name, directory, chain, sealed, issued_at, expires_at, renew_at, failures, tried_at,
	retry_at, tried_directory, challenge, problem, detail, pending FROM certificates `

func readCertificate(s scanner) (c Certificate, err error) {
	var issued, expires, renew, tried, retry sql.NullInt64
	err = s.Scan(&c.Name, &c.Directory, &c.Chain, &c.Sealed, &issued, &expires, &renew, &c.Failures, &tried, &retry,
		&c.TriedDirectory, &c.Challenge, &c.Problem, &c.Detail, &c.Pending)
	c.Issued, c.Expires, c.Renew = fromNullMillis(issued), fromNullMillis(expires), fromNullMillis(renew)
	c.Tried, c.Retry = fromNullMillis(tried), fromNullMillis(retry)
	return c, err
}

// All returns every certificate, by name.
func (t Certificates) All(ctx context.Context) ([]Certificate, error) {
	return all(ctx, t.db, readCertificate, certificate+`ORDER BY name`)
}

// Save stores the certificate of a name and its state.
func (t Certificates) Save(ctx context.Context, c Certificate) error {
	_, err := t.db.exec(ctx, `INSERT INTO certificates (name, directory, chain, sealed, issued_at, expires_at, renew_at,
		failures, tried_at, retry_at, tried_directory, challenge, problem, detail, pending)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
		ON CONFLICT (name) DO UPDATE SET directory = excluded.directory, chain = excluded.chain,
		sealed = excluded.sealed, issued_at = excluded.issued_at, expires_at = excluded.expires_at,
		renew_at = excluded.renew_at, failures = excluded.failures, tried_at = excluded.tried_at,
		retry_at = excluded.retry_at, tried_directory = excluded.tried_directory, challenge = excluded.challenge,
		problem = excluded.problem, detail = excluded.detail, pending = excluded.pending`,
		c.Name, c.Directory, c.Chain, c.Sealed, nullMillis(c.Issued), nullMillis(c.Expires), nullMillis(c.Renew),
		c.Failures, nullMillis(c.Tried), nullMillis(c.Retry), c.TriedDirectory, c.Challenge, c.Problem,
		c.Detail, c.Pending)
	return err
}

// SaveAttempt stores how the last attempt to get a certificate ended, and when the next one is
// made. It leaves the certificate and the pending order as they are.
func (t Certificates) SaveAttempt(ctx context.Context, c Certificate) error {
	_, err := t.db.exec(ctx, `INSERT INTO certificates (name, directory, chain, sealed, renew_at, failures, tried_at,
		retry_at, tried_directory, challenge, problem, detail, pending)
		VALUES ($1, $2, '', '', $3, $4, $5, $6, $7, $8, $9, $10, '')
		ON CONFLICT (name) DO UPDATE SET renew_at = excluded.renew_at, failures = excluded.failures,
		tried_at = excluded.tried_at, retry_at = excluded.retry_at, tried_directory = excluded.tried_directory,
		challenge = excluded.challenge, problem = excluded.problem, detail = excluded.detail`,
		c.Name, c.Directory, nullMillis(c.Renew), c.Failures, nullMillis(c.Tried), nullMillis(c.Retry),
		c.TriedDirectory, c.Challenge, c.Problem, c.Detail)
	return err
}

// SavePending stores the pending order of a name. It leaves everything else as it is; the directory
// is for a name of which nothing is known yet.
func (t Certificates) SavePending(ctx context.Context, name, directory, pending string) error {
	_, err := t.db.exec(ctx, `INSERT INTO certificates (name, directory, chain, sealed, failures, tried_directory,
		challenge, problem, detail, pending) VALUES ($1, $2, '', '', 0, '', '', '', '', $3)
		ON CONFLICT (name) DO UPDATE SET pending = excluded.pending`, name, directory, pending)
	return err
}

// Account returns the account at a certificate authority: its address there, and its sealed key.
// The error is [ErrNotFound] if there is none.
func (t Certificates) Account(ctx context.Context, directory string) (url, sealed string, err error) {
	type account struct{ url, sealed string }
	a, err := one(ctx, t.db, func(s scanner) (a account, err error) { return a, s.Scan(&a.url, &a.sealed) },
		`SELECT url, sealed FROM acme_accounts WHERE directory = $1`, directory)
	return a.url, a.sealed, err
}

// SaveAccount stores the account at a certificate authority.
func (t Certificates) SaveAccount(ctx context.Context, directory, url, sealed string) error {
	_, err := t.db.exec(ctx, `INSERT INTO acme_accounts (directory, url, sealed) VALUES ($1, $2, $3)
		ON CONFLICT (directory) DO UPDATE SET url = excluded.url, sealed = excluded.sealed`, directory, url, sealed)
	return err
}

func readChallenge(s scanner) (c ACMEChallenge, err error) {
	var expires int64
	err = s.Scan(&c.Kind, &c.Token, &c.Name, &c.Sealed, &expires)
	c.Expires = fromMillis(expires)
	return c, err
}

const acmeChallenge = `SELECT kind, token, name, sealed, expires_at FROM acme_challenges `

// Challenges returns all challenges of a name.
func (t Certificates) Challenges(ctx context.Context, name string) ([]ACMEChallenge, error) {
	return all(ctx, t.db, readChallenge, acmeChallenge+`WHERE name = $1 ORDER BY kind, token`, name)
}

// OpenChallenges returns all challenges that have not expired. They are few: one of each order that
// is going on.
func (t Certificates) OpenChallenges(ctx context.Context, now time.Time) ([]ACMEChallenge, error) {
	return all(ctx, t.db, readChallenge,
		acmeChallenge+`WHERE expires_at > $1 ORDER BY expires_at DESC, token LIMIT 1000`, millis(now))
}

// AddChallenge stores the answer to a challenge.
func (t Certificates) AddChallenge(ctx context.Context, c ACMEChallenge) error {
	_, err := t.db.exec(ctx, `INSERT INTO acme_challenges (kind, token, name, sealed, expires_at)
		VALUES ($1, $2, $3, $4, $5) ON CONFLICT (kind, token) DO UPDATE SET name = excluded.name,
		sealed = excluded.sealed, expires_at = excluded.expires_at`,
		c.Kind, c.Token, c.Name, c.Sealed, millis(c.Expires))
	return err
}

// RemoveChallenge deletes the answer to a challenge.
func (t Certificates) RemoveChallenge(ctx context.Context, kind, token string) error {
	_, err := t.db.exec(ctx, `DELETE FROM acme_challenges WHERE kind = $1 AND token = $2`, kind, token)
	return err
}
