package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"slices"
	"time"
)

// Upstream is an external tool server that an owner has added, or a service that the owner's tools
// are offered to.
type Upstream struct {
	Number   int64           `json:"id"`    // never reused
	Owner    string          `json:"owner"` // person id
	Slug     string          `json:"name"`  // unique per owner; the prefix of its tool names
	Kind     string          `json:"kind"`
	Settings json.RawMessage `json:"-"` // a JSON object whose secrets are sealed
	// TokenHash is the hash of the token with which the peer connects; empty: it does not connect.
	TokenHash string `json:"-"`
	Version   int64  `json:"-"` // incremented by every change
	Pins      int64  `json:"-"` // incremented by every approval of changed tools
	// Everybody means that all others may sign in to it, if its owner is an admin.
	Everybody bool      `json:"-"`
	Created   time.Time `json:"created_at"`
}

// Upstreams accesses the table of upstreams.
type Upstreams struct{ db *DB }

const upstreamColumns = `number, owner, slug, kind, settings, token_hash, version, created_at, pins, everybody`

func readUpstream(s scanner) (u Upstream, err error) {
	var (
		settings string
		token    sql.NullString
		created  int64
		all      int64
	)
	err = s.Scan(&u.Number, &u.Owner, &u.Slug, &u.Kind, &settings, &token, &u.Version, &created, &u.Pins, &all)
	u.Settings, u.TokenHash, u.Created = json.RawMessage(settings), token.String, fromMillis(created)
	u.Everybody = all != 0
	return u, err
}

// Add inserts an upstream and assigns the next number, which is never reused. It returns
// [ErrExists] if the owner already uses the slug.
func (t Upstreams) Add(ctx context.Context, u Upstream) (Upstream, error) {
	u.Version = 1
	err := t.db.changeTools(ctx, func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx,
			`UPDATE counters SET value = value + 1 WHERE name = 'upstream' RETURNING value`).
			Scan(&u.Number); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO upstreams (`+upstreamColumns+
			`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, 0)`,
			u.Number, u.Owner, u.Slug, u.Kind, string(u.Settings), nullString(u.TokenHash), u.Version,
			millis(u.Created))
		return err
	})
	return u, err
}

// Save writes an upstream's settings and token.
func (t Upstreams) Save(ctx context.Context, u Upstream) error {
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx,
			`UPDATE upstreams SET settings = $1, token_hash = $2, version = version + 1 WHERE number = $3`,
			string(u.Settings), nullString(u.TokenHash), u.Number))
	})
}

// Remove deletes an upstream.
func (t Upstreams) Remove(ctx context.Context, number int64) error {
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `DELETE FROM upstreams WHERE number = $1`, number))
	})
}

// ByOwner lists an owner's upstreams by number, or all upstreams for an empty owner, at most 1,000.
func (t Upstreams) ByOwner(ctx context.Context, owner string) ([]Upstream, error) {
	return all(ctx, t.db, readUpstream, `SELECT `+upstreamColumns+
		` FROM upstreams WHERE $1 = '' OR owner = $1 ORDER BY number LIMIT 1000`, owner)
}

// ByTokenHash returns the upstream whose peer connects with the token of this hash.
func (t Upstreams) ByTokenHash(ctx context.Context, hash string) (Upstream, error) {
	return one(ctx, t.db, readUpstream, `SELECT `+upstreamColumns+` FROM upstreams WHERE token_hash = $1`, hash)
}

// RememberDangerous stores the tools that the server of an upstream declares destructive, and
// returns all that it ever declared so, at most most.
func (t Upstreams) RememberDangerous(ctx context.Context, number int64, now []string, most int) ([]string, error) {
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
			if _, err := tx.ExecContext(ctx,
				`INSERT INTO dangerous_tools (upstream, tool) VALUES ($1, $2) ON CONFLICT DO NOTHING`, number,
				n); err != nil {
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

// ToolRule is an owner's decision about a tool, or about all tools that a pattern matches.
type ToolRule struct {
	Owner   string    `json:"owner"`
	Tool    string    `json:"tool"` // a name or a pattern with *
	Rule    string    `json:"rule"` // allow, for dangerous tools, or deny
	Created time.Time `json:"created_at"`
}

// ToolRules accesses the table of tool rules.
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

// Set stores a rule; an empty Rule deletes it.
func (t ToolRules) Set(ctx context.Context, r ToolRule) error {
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		if r.Rule == "" {
			return changed(tx.ExecContext(ctx, `DELETE FROM tool_rules WHERE owner = $1 AND tool = $2`, r.Owner,
				r.Tool))
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO tool_rules (owner, tool, rule, created_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (owner, tool) DO UPDATE SET rule = excluded.rule, created_at = excluded.created_at`,
			r.Owner, r.Tool, r.Rule, millis(r.Created))
		return err
	})
}

// changeTools runs f in a transaction and increments the tools version, so that running instances
// reload.
func (db *DB) changeTools(ctx context.Context, f func(*sql.Tx) error) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `UPDATE counters SET value = value + 1 WHERE name = 'tools'`)
		return err
	})
}

// changed returns [ErrNotFound] for a statement that changed no row.
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

// ToolsVersion returns a counter that grows whenever an upstream, a tool rule, or the rules of a
// key change, on any instance.
func (db *DB) ToolsVersion(ctx context.Context) (int64, error) {
	return one(ctx, db, func(s scanner) (v int64, err error) { return v, s.Scan(&v) },
		`SELECT value FROM counters WHERE name = 'tools'`)
}

// Leases assigns tasks that only one instance may do at a time.
type Leases struct{ db *DB }

// Take acquires or renews a lease until the given time. It returns false while another holder has
// it.
func (t Leases) Take(ctx context.Context, name, holder string, now, until time.Time) (bool, error) {
	n, err := t.db.exec(ctx, `INSERT INTO leases (name, holder, until_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_at = excluded.until_at
		WHERE leases.holder = excluded.holder OR leases.until_at < $4`, name, holder, millis(until), millis(now))
	return n > 0, err
}

// OthersHold reports whether another holder has an unexpired lease whose name begins with prefix.
// It also deletes such leases that expired more than an hour ago.
func (t Leases) OthersHold(ctx context.Context, prefix, holder string, now time.Time) (bool, error) {
	if _, err := t.db.exec(ctx, `DELETE FROM leases WHERE name LIKE $1 || '%' AND until_at < $2`, prefix,
		millis(now.Add(-time.Hour))); err != nil {
		return false, err
	}
	n, err := one(ctx, t.db, func(s scanner) (n int64, err error) { return n, s.Scan(&n) },
		`SELECT COUNT(*) FROM leases WHERE name LIKE $1 || '%' AND holder <> $2 AND until_at >= $3`, prefix, holder,
		millis(now))
	return n > 0, err
}

// Release releases a lease, if the holder has it.
func (t Leases) Release(ctx context.Context, name, holder string) error {
	_, err := t.db.exec(ctx, `DELETE FROM leases WHERE name = $1 AND holder = $2`, name, holder)
	return err
}
