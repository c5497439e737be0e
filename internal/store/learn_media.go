package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// MediaFile is a picture or a sound of a person's points.
type MediaFile struct {
	Name  string // how texts refer to it
	Type  string // media type, such as image/png
	Size  int64  // bytes
	Hash  string // SHA-256 of its content, in hexadecimal digits
	Added time.Time
}

// MediaHash returns the hash of a picture or sound, as [MediaFile] has it.
func MediaHash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// SaveMedia writes a picture or sound under a name, replacing what had the name.
func (t Learn) SaveMedia(ctx context.Context, person string, m *MediaFile, data []byte) error {
	m.Size, m.Hash = int64(len(data)), MediaHash(data)
	_, err := t.db.exec(ctx, `INSERT INTO learn_media (person, name, type, size, hash, added_at, data)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (person, name) DO UPDATE SET type = excluded.type, size = excluded.size, hash = excluded.hash,
		added_at = excluded.added_at, data = excluded.data`,
		person, m.Name, m.Type, m.Size, m.Hash, millis(m.Added), data)
	return err
}

const mediaColumns = `name, type, size, hash, added_at`

func (m *MediaFile) fields(added *int64) []any {
	return []any{&m.Name, &m.Type, &m.Size, &m.Hash, added}
}

// Media returns a picture or sound of a person with its content, or [ErrNotFound].
func (t Learn) Media(ctx context.Context, person, name string) (MediaFile, []byte, error) {
	var data []byte
	m, err := one(ctx, t.db, func(s scanner) (m MediaFile, err error) {
		var added int64
		err = s.Scan(append(m.fields(&added), &data)...)
		m.Added = fromMillis(added)
		return m, err
	}, `SELECT `+mediaColumns+`, data FROM learn_media WHERE person = $1 AND name = $2`, person, name)
	return m, data, err
}

// MediaNamed returns a picture or sound of a person without its content, or [ErrNotFound].
func (t Learn) MediaNamed(ctx context.Context, person, name string) (MediaFile, error) {
	return one(ctx, t.db, readMediaFile, `SELECT `+mediaColumns+` FROM learn_media WHERE person = $1 AND name = $2`,
		person, name)
}

// MediaByName returns those of a person's pictures and sounds that have one of some names, without
// their content, in any order.
func (t Learn) MediaByName(ctx context.Context, person string, names []string) (out []MediaFile, err error) {
	for some := range slices.Chunk(names, inListSize) {
		found, err := all(ctx, t.db, readMediaFile, `SELECT `+mediaColumns+
			` FROM learn_media WHERE person = $1 AND name IN (`+inPlaceholders(2)+`)`,
			append([]any{person}, inArgs(some)...)...)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func readMediaFile(s scanner) (m MediaFile, err error) {
	var added int64
	err = s.Scan(m.fields(&added)...)
	m.Added = fromMillis(added)
	return m, err
}

// MediaList lists a person's pictures and sounds after a name, by name.
func (t Learn) MediaList(ctx context.Context, person, after string, limit int) ([]MediaFile, error) {
	return all(ctx, t.db, readMediaFile, `SELECT `+mediaColumns+
		` FROM learn_media WHERE person = $1 AND name > $2 ORDER BY name LIMIT $3`, person, after, limit)
}

// MediaSize returns how many bytes a person's pictures and sounds have together.
func (t Learn) MediaSize(ctx context.Context, person string) (int64, error) {
	return one(ctx, t.db, func(s scanner) (n int64, err error) { return n, s.Scan(&n) },
		`SELECT COALESCE(SUM(size), 0) FROM learn_media WHERE person = $1`, person)
}

// RemoveMedia deletes a picture or sound, or returns [ErrNotFound].
func (t Learn) RemoveMedia(ctx context.Context, person, name string) error {
	return t.db.execOne(ctx, `DELETE FROM learn_media WHERE person = $1 AND name = $2`, person, name)
}
