package store

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// ToolSet is a set of tools that a person has given a name.
type ToolSet struct {
	Owner   string    `json:"owner"`
	Name    string    `json:"name"`
	Tools   []string  `json:"tools"` // names and patterns with *
	Created time.Time `json:"created_at"`
}

// ToolSets accesses the table of tool sets.
type ToolSets struct{ db *DB }

// All lists every owner's sets.
func (t ToolSets) All(ctx context.Context) ([]ToolSet, error) {
	return all(ctx, t.db, func(s scanner) (r ToolSet, err error) {
		var created int64
		var tools string
		err = s.Scan(&r.Owner, &r.Name, &tools, &created)
		r.Tools, r.Created = strings.Fields(tools), fromMillis(created)
		return r, err
	}, `SELECT owner, name, tools, created_at FROM tool_sets ORDER BY owner, name`)
}

// Save stores a set, or replaces the tools of the set of that name.
func (t ToolSets) Save(ctx context.Context, r ToolSet) error {
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO tool_sets (owner, name, tools, created_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (owner, name) DO UPDATE SET tools = excluded.tools`, r.Owner, r.Name,
			strings.Join(r.Tools, " "), millis(r.Created))
		return err
	})
}

// Remove removes a set. The error is [ErrNotFound] if there is none.
func (t ToolSets) Remove(ctx context.Context, owner, name string) error {
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `DELETE FROM tool_sets WHERE owner = $1 AND name = $2`, owner, name))
	})
}
