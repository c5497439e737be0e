package store

import (
	"context"
	"database/sql"
	"time"
)

// ToolWords are what a person calls a tool, instead of what its server does. What is empty stays as
// the server has it.
type ToolWords struct {
	Owner       string    `json:"owner"`
	Tool        string    `json:"tool"` // its original name
	Name        string    `json:"name,omitempty"`
	Title       string    `json:"title,omitempty"`
	Description string    `json:"description,omitempty"`
	Created     time.Time `json:"created_at"`
}

// ToolWordings accesses the table of tool words.
type ToolWordings struct{ db *DB }

// All lists every owner's words, by owner and tool.
func (t ToolWordings) All(ctx context.Context) ([]ToolWords, error) {
	return all(ctx, t.db, func(s scanner) (r ToolWords, err error) {
		var created int64
		err = s.Scan(&r.Owner, &r.Tool, &r.Name, &r.Title, &r.Description, &created)
		r.Created = fromMillis(created)
		return r, err
	}, `SELECT owner, tool, name, title, description, created_at FROM tool_words ORDER BY owner, tool`)
}

// Save stores or replaces the words for a tool; those without any are deleted. The error is
// [ErrExists] if the owner calls another tool by the name.
func (t ToolWordings) Save(ctx context.Context, r ToolWords) error {
	if r.Name == "" && r.Title == "" && r.Description == "" {
		return t.Remove(ctx, r.Owner, r.Tool)
	}
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		if r.Name != "" {
			var others int
			if err := tx.QueryRowContext(ctx,
				`SELECT COUNT(*) FROM tool_words WHERE owner = $1 AND name = $2 AND tool <> $3`,
				r.Owner, r.Name, r.Tool).Scan(&others); err != nil {
				return err
			}
			if others > 0 {
				return ErrExists
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO tool_words (owner, tool, name, title, description, created_at)
			VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (owner, tool) DO UPDATE SET name = excluded.name, title = excluded.title,
			description = excluded.description`, r.Owner, r.Tool, r.Name, r.Title, r.Description, millis(r.Created))
		return err
	})
}

// Remove removes the words for a tool. The error is [ErrNotFound] if there are none.
func (t ToolWordings) Remove(ctx context.Context, owner, tool string) error {
	return t.db.changeTools(ctx, func(tx *sql.Tx) error {
		return changed(tx.ExecContext(ctx, `DELETE FROM tool_words WHERE owner = $1 AND tool = $2`, owner, tool))
	})
}
