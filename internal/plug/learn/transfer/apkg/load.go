package apkg

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	notecard "patchbay/internal/plug/learn/card"
)

// settings are the settings of a collection that affect the meaning of its numbers
// (rslib/src/config/schema11.rs).
type settings struct {
	Scheduler float64  // schedVer
	Offset    *float64 // creationOffset: minutes west of Greenwich
}

// parseSettings reads the settings, of which other programs leave some out.
func parseSettings(config []byte) (s settings) {
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(config, &fields)
	_ = json.Unmarshal(fields["schedVer"], &s.Scheduler)
	_ = json.Unmarshal(fields["creationOffset"], &s.Offset)
	return s
}

// oldType is the part of a note type that makes cards.
type oldType struct {
	Kind   json.RawMessage `json:"type"`
	Fields []struct {
		Name string `json:"name"`
	} `json:"flds"`
	Templates []struct {
		Question string `json:"qfmt"`
		Answer   string `json:"afmt"`
	} `json:"tmpls"`
}

func (old oldType) noteType() *noteType {
	t := &noteType{cloze: strings.Trim(string(old.Kind), `"`) == "1"}
	for _, f := range old.Fields {
		t.fields = append(t.fields, f.Name)
	}
	for _, tmpl := range old.Templates {
		t.templates = append(t.templates, template{notecard.Parse(tmpl.Question), notecard.Parse(tmpl.Answer)})
	}
	return t
}

// loadOld reads schema 11: JSON in the columns of the only row of col
// (rslib/src/storage/schema11.sql). Numbers may be texts.
func (c *collection) loadOld(ctx context.Context) error {
	var models, decks, options, config []byte
	err := c.row(ctx, `SELECT CAST(COALESCE(models, '') AS BLOB), CAST(COALESCE(decks, '') AS BLOB),
		CAST(COALESCE(dconf, '') AS BLOB), CAST(COALESCE(conf, '') AS BLOB) FROM col LIMIT 1`,
		&models, &decks, &options, &config)
	if err != nil {
		return err
	}
	if json.Valid(config) {
		c.contents.Config = config
	}
	if c.contents.Types, err = parts(models); err != nil {
		return msgTypes.Errorf(err)
	}
	if c.contents.Decks, err = parts(decks); err != nil {
		return msgDecks.Errorf(err)
	}
	if c.contents.Options, err = parts(options); err != nil {
		c.contents.Options = nil // other programs write incomplete packages
	}
	for _, list := range [][]Part{c.contents.Types, c.contents.Decks, c.contents.Options} {
		if len(list) > maxTypes {
			return msgManyTypes.Errorf()
		}
	}
	return nil
}

// parts reads an object of objects by id, and sorts them by it.
func parts(data []byte) ([]Part, error) {
	var all map[int64]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	var list []Part
	for _, id := range slices.Sorted(maps.Keys(all)) {
		var named struct {
			Name string `json:"name"`
		}
		if err := json.Unmarshal(all[id], &named); err != nil {
			return nil, err
		}
		list = append(list, Part{ID: id, Name: named.Name, JSON: all[id]})
	}
	return list, nil
}

// loadModern reads the tables of schema 15 and later
// (rslib/src/storage/upgrades/schema15_upgrade.sql) into the form of schema 11.
func (c *collection) loadModern(ctx context.Context) error {
	for _, table := range []string{"fields", "templates", "decks", "config"} {
		if ok, err := c.plainTable(ctx, table); err != nil || !ok {
			return errors.Join(err, msgNoTable.Errorf(table))
		}
	}
	for _, load := range []func(context.Context) error{c.loadTypes, c.loadDecks, c.loadOptions, c.loadConfig} {
		if err := load(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *collection) loadTypes(ctx context.Context) error {
	types := map[int64]record{}
	var id, modified, usn int64
	var name string
	var config []byte
	err := c.each(ctx, `SELECT CAST(id AS INTEGER), CAST(COALESCE(name, '') AS TEXT), CAST(COALESCE(mtime_secs, 0) AS INTEGER),
		CAST(COALESCE(usn, 0) AS INTEGER), CAST(config AS BLOB) FROM notetypes ORDER BY id`, func() error {
		if len(types) == maxTypes {
			return msgManyTypes.Errorf()
		}
		types[id] = record{"id": id, "name": name, "mod": modified, "usn": usn, "flds": []any{}, "tmpls": []any{}}
		return fromProto(types[id], config, typeAttrs)
	}, &id, &name, &modified, &usn, &config)
	if err != nil {
		return err
	}
	for query, piece := range map[string]struct {
		list  string
		attrs []attr
	}{
		`SELECT CAST(ntid AS INTEGER), CAST(name AS TEXT), CAST(config AS BLOB) FROM fields ORDER BY ntid, ord`: {
			"flds", fieldAttrs},
		`SELECT CAST(ntid AS INTEGER), CAST(name AS TEXT), CAST(config AS BLOB) FROM templates ORDER BY ntid, ord`: {
			"tmpls", templateAttrs},
	} {
		err := c.each(ctx, query, func() error {
			t := types[id]
			if t == nil {
				return nil
			}
			list := t[piece.list].([]any)
			if len(list) == maxTypes {
				return msgManyTypes.Errorf()
			}
			r := record{"name": name, "ord": len(list)}
			t[piece.list] = append(list, r)
			return fromProto(r, config, piece.attrs)
		}, &id, &name, &config)
		if err != nil {
			return err
		}
	}
	c.contents.Types, err = recordParts(types)
	return err
}

// recordParts encodes records by their ids.
func recordParts(all map[int64]record) ([]Part, error) {
	var list []Part
	for _, id := range slices.Sorted(maps.Keys(all)) {
		data, err := json.Marshal(all[id])
		if err != nil {
			return nil, err
		}
		name, _ := all[id]["name"].(string)
		list = append(list, Part{ID: id, Name: name, JSON: data})
	}
	return list, nil
}

func (c *collection) loadDecks(ctx context.Context) error {
	decks := map[int64]record{}
	var id, modified, usn int64
	var name string
	var common, kind []byte
	err := c.each(ctx, `SELECT CAST(id AS INTEGER), CAST(name AS TEXT), CAST(COALESCE(mtime_secs, 0) AS INTEGER),
		CAST(COALESCE(usn, 0) AS INTEGER), CAST(common AS BLOB), CAST(kind AS BLOB) FROM decks`, func() error {
		if len(decks) == maxTypes {
			return msgManyTypes.Errorf()
		}
		r, err := deckRecord(common, kind)
		if err != nil {
			return err
		}
		r["id"], r["name"], r["mod"], r["usn"] = id, strings.ReplaceAll(name, "\x1f", "::"), modified, usn
		decks[id] = r
		return nil
	}, &id, &name, &modified, &usn, &common, &kind)
	if err != nil {
		return err
	}
	c.contents.Decks, err = recordParts(decks)
	return err
}

// loadOptions reads the table of deck options, which not all programs write.
func (c *collection) loadOptions(ctx context.Context) error {
	if ok, err := c.plainTable(ctx, "deck_config"); err != nil || !ok {
		return err
	}
	options := map[int64]record{}
	var id, modified, usn int64
	var name string
	var config []byte
	err := c.each(ctx, `SELECT CAST(id AS INTEGER), CAST(name AS TEXT), CAST(COALESCE(mtime_secs, 0) AS INTEGER),
		CAST(COALESCE(usn, 0) AS INTEGER), CAST(config AS BLOB) FROM deck_config`, func() error {
		if len(options) == maxTypes {
			return msgManyTypes.Errorf()
		}
		r := record{}
		options[id] = r
		err := fromProto(r, config, optionAttrs)
		r["id"], r["name"], r["mod"], r["usn"], r["dyn"] = id, name, modified, usn, false
		return err
	}, &id, &name, &modified, &usn, &config)
	if err != nil {
		return err
	}
	c.contents.Options, err = recordParts(options)
	return err
}

// maxConfig limits the settings of a collection.
const maxConfig = 10_000

func (c *collection) loadConfig(ctx context.Context) error {
	config := map[string]json.RawMessage{}
	var name string
	var value []byte
	err := c.each(ctx, "SELECT CAST(KEY AS TEXT), CAST(val AS BLOB) FROM config", func() error {
		if json.Valid(value) && len(config) < maxConfig {
			config[name] = slices.Clone(value)
		}
		return nil
	}, &name, &value)
	if err != nil {
		return err
	}
	c.contents.Config, err = json.Marshal(config)
	return err
}
