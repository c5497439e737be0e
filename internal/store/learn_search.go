package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"strings"
)

// personWord is a word that every point of a person has, so that a search looks
// at that person's points only.
func personWord(person string) string {
	sum := sha256.Sum256([]byte(person))
	return "p0" + hex.EncodeToString(sum[:8])
}

// writeWords notes what a point is found by. This is the other place where the
// databases differ: each searches in its own way.
func (db *DB) writeWords(ctx context.Context, tx *sql.Tx, p *Point, replace bool) error {
	words := personWord(p.Person) + " " + strings.Join(p.Words, " ")
	query := `INSERT INTO learn_words (rowid, words) VALUES ($1, $2)`
	switch {
	case db.dialect == "postgres":
		query = `INSERT INTO learn_words (point, words) VALUES ($1, $2::tsvector) ON CONFLICT (point) DO UPDATE SET words = excluded.words`
	case replace:
		query = `INSERT OR REPLACE INTO learn_words (rowid, words) VALUES ($1, $2)`
	}
	_, err := tx.ExecContext(ctx, query, p.Number, words)
	return err
}

// dropWords forgets what points were found by. In PostgreSQL it goes with them.
func (db *DB) dropWords(ctx context.Context, tx *sql.Tx, condition string, args ...any) error {
	if db.dialect == "postgres" {
		return nil
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM learn_words WHERE rowid IN (SELECT number FROM learn_points WHERE `+condition+`)`, args...)
	return err
}

// Search lists the newest points that have all the words, which are ASCII letters
// and digits; a word that ends in * stands for all that begin like it.
func (t Learn) Search(ctx context.Context, person string, words []string, limit int) ([]Point, error) {
	query := `SELECT ` + pointColumns + ` FROM learn_words CROSS JOIN learn_points p
		WHERE learn_words MATCH $1 AND p.number = learn_words.rowid AND p.person = $2 AND p.deleted_at IS NULL AND p.staged IS NULL
		ORDER BY learn_words.rowid DESC LIMIT $3`
	terms := []string{personWord(person)}
	if t.db.dialect == "postgres" {
		query = `SELECT ` + pointColumns + ` FROM learn_words w JOIN learn_points p ON p.number = w.point
			WHERE w.words @@ $1::tsquery AND p.person = $2 AND p.deleted_at IS NULL AND p.staged IS NULL ORDER BY w.point DESC LIMIT $3`
		for _, word := range words {
			if head, prefix := strings.CutSuffix(word, "*"); prefix {
				word = head + ":*"
			}
			terms = append(terms, word)
		}
		return all(ctx, t.db, readPoint, query, strings.Join(terms, " & "), person, limit)
	}
	return all(ctx, t.db, readPoint, query, strings.Join(append(terms, words...), " AND "), person, limit)
}

// Vector is where a point lies in the space of an embedding model.
type Vector struct {
	Point int64
	Data  []byte // 8-bit numbers
}

// Vectors lists a person's vectors by a model, by point, behind one.
func (t Learn) Vectors(ctx context.Context, person, model string, after int64, limit int) ([]Vector, error) {
	return all(ctx, t.db, func(s scanner) (v Vector, err error) { return v, s.Scan(&v.Point, &v.Data) },
		`SELECT point, data FROM learn_vectors WHERE person = $1 AND model = $2 AND point > $3 ORDER BY point LIMIT $4`, person, model, after, limit)
}

// SaveVectors keeps vectors.
func (t Learn) SaveVectors(ctx context.Context, person, model string, vectors []Vector) error {
	return t.db.tx(ctx, func(tx *sql.Tx) error {
		for _, v := range vectors {
			if _, err := tx.ExecContext(ctx, `INSERT INTO learn_vectors (point, person, model, data) VALUES ($1, $2, $3, $4)
				ON CONFLICT (point) DO UPDATE SET model = excluded.model, data = excluded.data`, v.Point, person, model, v.Data); err != nil {
				return err
			}
		}
		return nil
	})
}

// WithoutVector lists a person's points that have no vector by a model, oldest
// first.
func (t Learn) WithoutVector(ctx context.Context, person, model string, limit int) ([]Point, error) {
	return all(ctx, t.db, readPoint, `SELECT `+pointColumns+` FROM learn_points p WHERE person = $1 AND deleted_at IS NULL AND staged IS NULL
		AND NOT EXISTS (SELECT 1 FROM learn_vectors v WHERE v.point = p.number AND v.model = $2) ORDER BY number LIMIT $3`, person, model, limit)
}
