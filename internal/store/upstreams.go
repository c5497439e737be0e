package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"
)

// Upstream is a tool server of somebody else's that an owner has added, or a
// service that the owner's tools are offered to.
type Upstream struct {
	Number   int64           `json:"id"`    // unique for ever
	Owner    string          `json:"owner"` // person id
	Slug     string          `json:"name"`  // unique among the owner's; the prefix of its tools
	Kind     string          `json:"kind"`
	Settings json.RawMessage `json:"-"` // a JSON object; secrets in it are sealed
	// TokenHash is of the token by which its far side connects; empty: it does not.
	TokenHash string    `json:"-"`
	Version   int64     `json:"-"` // grows with every change
	Created   time.Time `json:"created_at"`
}

// Upstreams is the table of upstreams.
type Upstreams struct{ db *DB }

const upstreamColumns = `number, owner, slug, kind, settings, token_hash, version, created_at`

func readUpstream(s scanner) (u Upstream, err error) {
	var (
		settings string
		token    sql.NullString
		created  int64
	)
	err = s.Scan(&u.Number, &u.Owner, &u.Slug, &u.Kind, &settings, &token, &u.Version, &created)
	u.Settings, u.TokenHash, u.Created = json.RawMessage(settings), token.String, fromMillis(created)
	return u, err
}

// Add inserts an upstream and gives it the next number, which is never given
// twice. A slug its owner uses already is [ErrExists].
func (t Upstreams) Add(ctx context.Context, u Upstream) (Upstream, error) {
	u.Version = 1
	err := t.db.changeTools(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'upstream' RETURNING value`).Scan(&u.Number); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO upstreams (`+upstreamColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
			u.Number, u.Owner, u.Slug, u.Kind, string(u.Settings), nullString(u.TokenHash), u.Version, millis(u.Created))
		return err
	})
	return u, err
}

// Save writes an upstream's settings and token.
func (t Upstreams) Save(ctx context.Context, u Upstream) error {
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `UPDATE upstreams SET settings = $1, token_hash = $2, version = version + 1 WHERE number = $3`,
			string(u.Settings), nullString(u.TokenHash), u.Number))
	})
}

// Remove deletes an upstream.
func (t Upstreams) Remove(ctx context.Context, number int64) error {
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `DELETE FROM upstreams WHERE number = $1`, number))
	})
}

// ByOwner lists an owner's upstreams by number; an empty owner means everybody's.
// It lists 1,000 at most.
func (t Upstreams) ByOwner(ctx context.Context, owner string) ([]Upstream, error) {
	return all(ctx, t.db, readUpstream, `SELECT `+upstreamColumns+` FROM upstreams WHERE $1 = '' OR owner = $1 ORDER BY number LIMIT 1000`, owner)
}

// ByTokenHash finds the upstream whose far side connects with the token of this
// hash.
func (t Upstreams) ByTokenHash(ctx context.Context, hash string) (Upstream, error) {
	return one(ctx, t.db, readUpstream, `SELECT `+upstreamColumns+` FROM upstreams WHERE token_hash = $1`, hash)
}

// Dangerous remembers tools that the server of an upstream calls destructive, and lists up
// to most of those that it has ever called so.
func (t Upstreams) Dangerous(ctx context.Context, number int64, now []string, most int) ([]string, error) {
	const known = `SELECT tool FROM dangerous_tools WHERE upstream = $1 ORDER BY tool LIMIT $2`
	name := func(s scanner) (n string, err error) { return n, s.Scan(&n) }
	before, err := all(ctx, t.db, name, known, number, most)
	if err != nil {
		return nil, err
	}
	now = slices.DeleteFunc(slices.Clone(now), func(n string) bool { return slices.Contains(before, n) })
	if len(now) == 0 || len(before) == most {
		return before, nil
	}
	err = t.db.tx(ctx, func(tx *sql.Tx) error {
		for _, n := range now {
			if _, err := tx.ExecContext(ctx, `INSERT INTO dangerous_tools (upstream, tool) VALUES ($1, $2) ON CONFLICT DO NOTHING`, number, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return all(ctx, t.db, name, known, number, most)
}

// ToolRule is what an owner decided about a tool, or about all that a pattern
// matches.
type ToolRule struct {
	Owner   string    `json:"owner"`
	Tool    string    `json:"tool"` // a name or a pattern with *
	Rule    string    `json:"rule"` // allow, for dangerous tools, or deny
	Created time.Time `json:"created_at"`
}

// ToolRules is the table of owners' decisions about tools.
type ToolRules struct{ db *DB }

// All lists every owner's rules.
func (t ToolRules) All(ctx context.Context) ([]ToolRule, error) {
	return all(ctx, t.db, func(s scanner) (r ToolRule, err error) {
		var created int64
		err = s.Scan(&r.Owner, &r.Tool, &r.Rule, &created)
		r.Created = fromMillis(created)
		return r, err
	}, `SELECT owner, tool, rule, created_at FROM tool_rules ORDER BY owner, tool`)
}

// Set decides about a tool; an empty rule takes the decision back.
func (t ToolRules) Set(ctx context.Context, r ToolRule) error {
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		if r.Rule == "" {
			return changed(tx.ExecContext(ctx, `DELETE FROM tool_rules WHERE owner = $1 AND tool = $2`, r.Owner, r.Tool))
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO tool_rules (owner, tool, rule, created_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (owner, tool) DO UPDATE SET rule = excluded.rule, created_at = excluded.created_at`,
			r.Owner, r.Tool, r.Rule, millis(r.Created))
		return err
	})
}

// changeTools runs f in a transaction and counts that something about tools has
// changed, so that running instances look again.
func (db *DB) changeTools(ctx context.Context, f func(*sql.Tx) error) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'tools'`)
		return err
	})
}

// changed makes [ErrNotFound] of a statement that changed no row.
func changed(res sql.Result, err error) error {
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		err = ErrNotFound
	}
	return err
}

// ToolsVersion grows whenever an upstream, a rule about tools, or the rules of a
// key change, whoever changed them.
func (db *DB) ToolsVersion(ctx context.Context) (int64, error) {
	return one(ctx, db, func(s scanner) (v int64, err error) { return v, s.Scan(&v) }, `SELECT value FROM counters WHERE name = 'tools'`)
}

// Leases say which instance does a thing that only one may do.
type Leases struct{ db *DB }

// Take takes the lease of a name, or renews it, until the given time. It is
// false while another holder's has not run out.
func (t Leases) Take(ctx context.Context, name, holder string, now, until time.Time) (bool, error) {
	n, err := t.db.exec(ctx, `INSERT INTO leases (name, holder, until_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_at = excluded.until_at
		WHERE leases.holder = excluded.holder OR leases.until_at < $4`, name, holder, millis(until), millis(now))
	return n > 0, err
}

// OthersHold reports whether somebody else than a holder has a lease now whose name begins
// so, and forgets those that ended long ago.
func (t Leases) OthersHold(ctx context.Context, prefix, holder string, now time.Time) (bool, error) {
	if _, err := t.db.exec(ctx, `DELETE FROM leases WHERE name LIKE $1 || '%' AND until_at < $2`, prefix, millis(now.Add(-time.Hour))); err != nil {
		return false, err
	}
	n, err := one(ctx, t.db, func(s scanner) (n int64, err error) { return n, s.Scan(&n) },
		`SELECT COUNT(*) FROM leases WHERE name LIKE $1 || '%' AND holder <> $2 AND until_at >= $3`, prefix, holder, millis(now))
	return n > 0, err
}

// Release gives a lease back, if the holder has it.
func (t Leases) Release(ctx context.Context, name, holder string) error {
	_, err := t.db.exec(ctx, `DELETE FROM leases WHERE name = $1 AND holder = $2`, name, holder)
	return err
}
