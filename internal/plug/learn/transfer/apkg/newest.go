package apkg

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/text/cases"
)

// newestVersion is the value of col.ver in packages of the newest generation.
const newestVersion = 18

// newestTables creates what schema 18 has instead of the JSON in col
// (rslib/src/storage/upgrades/schema14_upgrade.sql to schema18_upgrade.sql).
const newestTables = `
DROP TABLE graves;
CREATE TABLE graves (oid integer NOT NULL, type integer NOT NULL, usn integer NOT NULL, PRIMARY KEY (oid, type)) WITHOUT ROWID;
CREATE INDEX idx_graves_pending ON graves (usn);
CREATE TABLE deck_config (id integer PRIMARY KEY NOT NULL, name text NOT NULL COLLATE unicase, mtime_secs integer NOT NULL,
	usn integer NOT NULL, config blob NOT NULL);
CREATE TABLE config (KEY text NOT NULL PRIMARY KEY, usn integer NOT NULL, mtime_secs integer NOT NULL, val blob NOT NULL) WITHOUT ROWID;
CREATE TABLE fields (ntid integer NOT NULL, ord integer NOT NULL, name text NOT NULL COLLATE unicase, config blob NOT NULL,
	PRIMARY KEY (ntid, ord)) WITHOUT ROWID;
CREATE UNIQUE INDEX idx_fields_name_ntid ON fields (name, ntid);
CREATE TABLE templates (ntid integer NOT NULL, ord integer NOT NULL, name text NOT NULL COLLATE unicase,
	mtime_secs integer NOT NULL, usn integer NOT NULL, config blob NOT NULL, PRIMARY KEY (ntid, ord)) WITHOUT ROWID;
CREATE UNIQUE INDEX idx_templates_name_ntid ON templates (name, ntid);
CREATE INDEX idx_templates_usn ON templates (usn);
CREATE TABLE notetypes (id integer NOT NULL PRIMARY KEY, name text NOT NULL COLLATE unicase, mtime_secs integer NOT NULL,
	usn integer NOT NULL, config blob NOT NULL);
CREATE UNIQUE INDEX idx_notetypes_name ON notetypes (name);
CREATE INDEX idx_notetypes_usn ON notetypes (usn);
CREATE TABLE decks (id integer PRIMARY KEY NOT NULL, name text NOT NULL COLLATE unicase, mtime_secs integer NOT NULL,
	usn integer NOT NULL, common blob NOT NULL, kind blob NOT NULL);
CREATE UNIQUE INDEX idx_decks_name ON decks (name);
CREATE INDEX idx_notes_mid ON notes (mid);
CREATE INDEX idx_cards_odid ON cards (odid) WHERE odid != 0;
CREATE TABLE tags (tag text NOT NULL PRIMARY KEY COLLATE unicase, usn integer NOT NULL, collapsed boolean NOT NULL,
	config blob NULL) WITHOUT ROWID;
`

// compareUnicase compares names as Anki's collation "unicase" does: by their case-folded characters
// (rslib/src/storage/sqlite.rs). Indexes in another order would be damaged for Anki.
func compareUnicase(a, b string) int {
	fold := cases.Fold()
	return strings.Compare(fold.String(a), fold.String(b))
}

// writeTables writes the collection in the newest form.
func (p *Writer) writeTables(created time.Time) error {
	types, decks, options, err := p.parts()
	if err != nil {
		return err
	}
	if _, err := p.tx.Exec(newestTables); err != nil {
		return err
	}
	modified := p.now.UnixMilli()
	if _, err := p.tx.Exec("INSERT INTO col VALUES (1, ?, ?, ?, ?, 0, 0, 0, '', '', '', '', '')", created.Unix(), modified,
		modified, newestVersion); err != nil {
		return err
	}
	for _, write := range []func() error{
		func() error { return p.writeTypes(types) },
		func() error { return p.writeDecks(decks) },
		func() error { return p.writeOptions(options) },
		func() error { return p.writeConfig(p.config(created)) },
		p.writeTags,
	} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// columns returns the columns that note types, decks and options have in common.
func columns(r record) (name string, modified, usn int64) {
	name, _ = r["name"].(string)
	return name, integer(r["mod"]), integer(r["usn"])
}

// uniqueName returns a name that no earlier row of a table has: different collections can have used
// it for different things. Anki does the same (rslib/src/notetype/mod.rs,
// ensure_notetype_name_unique).
func uniqueName(name string, taken map[string]bool) string {
	for taken[cases.Fold().String(name)] {
		name += "+"
	}
	taken[cases.Fold().String(name)] = true
	return name
}

func (p *Writer) writeTypes(types map[int64]json.RawMessage) error {
	taken := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(types)) {
		r := parseRecord(types[id])
		name, modified, usn := columns(r)
		if _, err := p.tx.Exec("INSERT INTO notetypes VALUES (?, ?, ?, ?, ?)", id, uniqueName(name, taken), modified, usn,
			blob(toProto(r, typeAttrs, typeColumns...))); err != nil {
			return err
		}
		fields, _ := r["flds"].([]any)
		names := map[string]bool{}
		for i, f := range fields {
			r, _ := f.(record)
			name, _, _ := columns(r)
			if _, err := p.tx.Exec("INSERT INTO fields VALUES (?, ?, ?, ?)", id, i, uniqueName(name, names),
				blob(toProto(r, fieldAttrs, pieceColumns...))); err != nil {
				return err
			}
		}
		templates, _ := r["tmpls"].([]any)
		names = map[string]bool{}
		for i, t := range templates {
			r, _ := t.(record)
			name, _, _ := columns(r)
			if _, err := p.tx.Exec("INSERT INTO templates VALUES (?, ?, ?, ?, ?, ?)", id, i, uniqueName(name, names), modified,
				usn, blob(toProto(r, templateAttrs, pieceColumns...))); err != nil {
				return err
			}
		}
	}
	return nil
}

// blob makes an empty message one that is not NULL.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func (p *Writer) writeDecks(decks map[int64]json.RawMessage) error {
	taken := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(decks)) {
		r := parseRecord(decks[id])
		name, modified, usn := columns(r)
		common, kind := deckProto(r)
		if _, err := p.tx.Exec("INSERT INTO decks VALUES (?, ?, ?, ?, ?, ?)", id,
			uniqueName(strings.ReplaceAll(name, "::", "\x1f"), taken), modified, usn, blob(common), blob(kind)); err != nil {
			return err
		}
	}
	return nil
}

func (p *Writer) writeOptions(options map[int64]json.RawMessage) error {
	for _, id := range slices.Sorted(maps.Keys(options)) {
		r := parseRecord(options[id])
		name, modified, usn := columns(r)
		if _, err := p.tx.Exec("INSERT INTO deck_config VALUES (?, ?, ?, ?, ?)", id, name, modified, usn,
			blob(toProto(r, optionAttrs, rowColumns...))); err != nil {
			return err
		}
	}
	return nil
}

func (p *Writer) writeConfig(config map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(config)) {
		if _, err := p.tx.Exec("INSERT INTO config VALUES (?, 0, ?, ?)", name, p.now.Unix(), []byte(config[name])); err != nil {
			return err
		}
	}
	return nil
}

func (p *Writer) writeTags() error {
	for _, tag := range slices.Sorted(maps.Keys(p.tags)) {
		if _, err := p.tx.Exec("INSERT OR IGNORE INTO tags VALUES (?, -1, 0, NULL)", tag); err != nil {
			return err
		}
	}
	return nil
}
