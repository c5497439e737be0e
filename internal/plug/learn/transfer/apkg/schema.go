package apkg

import (
	"encoding/json"
	"time"
)

// schema creates the tables of schema 11, with the column names and order that readers rely on
// (rslib/src/storage/schema11.sql).
const schema = `
CREATE TABLE col (id integer PRIMARY KEY, crt integer NOT NULL, mod integer NOT NULL, scm integer NOT NULL, ver integer NOT NULL,
	dty integer NOT NULL, usn integer NOT NULL, ls integer NOT NULL, conf text NOT NULL, models text NOT NULL, decks text NOT NULL,
	dconf text NOT NULL, tags text NOT NULL);
CREATE TABLE notes (id integer PRIMARY KEY, guid text NOT NULL, mid integer NOT NULL, mod integer NOT NULL, usn integer NOT NULL,
	tags text NOT NULL, flds text NOT NULL, sfld integer NOT NULL, csum integer NOT NULL, flags integer NOT NULL, data text NOT NULL);
CREATE TABLE cards (id integer PRIMARY KEY, nid integer NOT NULL, did integer NOT NULL, ord integer NOT NULL, mod integer NOT NULL,
	usn integer NOT NULL, type integer NOT NULL, queue integer NOT NULL, due integer NOT NULL, ivl integer NOT NULL, factor integer NOT NULL,
	reps integer NOT NULL, lapses integer NOT NULL, left integer NOT NULL, odue integer NOT NULL, odid integer NOT NULL,
	flags integer NOT NULL, data text NOT NULL);
CREATE TABLE revlog (id integer PRIMARY KEY, cid integer NOT NULL, usn integer NOT NULL, ease integer NOT NULL, ivl integer NOT NULL,
	lastIvl integer NOT NULL, factor integer NOT NULL, time integer NOT NULL, type integer NOT NULL);
CREATE TABLE graves (usn integer NOT NULL, oid integer NOT NULL, type integer NOT NULL);
`

// indexes are created after all rows are inserted, which is faster.
const indexes = `
CREATE INDEX ix_notes_usn ON notes (usn);
CREATE INDEX ix_cards_usn ON cards (usn);
CREATE INDEX ix_revlog_usn ON revlog (usn);
CREATE INDEX ix_cards_nid ON cards (nid);
CREATE INDEX ix_cards_sched ON cards (did, queue, due);
CREATE INDEX ix_revlog_cid ON revlog (cid);
CREATE INDEX ix_notes_csum ON notes (csum);
`

const (
	// TypeID is the ID of Patchbay's note type. It must never change, so that Anki recognizes notes
	// from an earlier package.
	TypeID int64 = 1_763_700_000_001
	// schemaVersion is the value of col.ver.
	schemaVersion = 11
)

type object map[string]any

const css = ".card { font-family: arial; font-size: 20px; text-align: center; color: black; background-color: white; }"

func ourType(modified int64) object {
	field := func(name string, order int) object {
		return object{"name": name, "ord": order, "sticky": false, "rtl": false, "font": "Arial", "size": 20,
			"media": []string{}}
	}
	return object{
		"id": TypeID, "name": "Patchbay", "type": 0, "mod": modified, "usn": -1, "sortf": 0, "did": 1, "vers": []int{},
		"tags": []string{},
		"flds": []object{field("Question", 0), field("Answer", 1)},
		"tmpls": []object{{"name": "Card 1", "ord": 0, "qfmt": "{{Question}}",
			"afmt":  "{{FrontSide}}\n\n<hr id=answer>\n\n{{Answer}}",
			"bqfmt": "", "bafmt": "", "did": nil}},
		"css": css, "latexPre": "\\documentclass[12pt]{article}\n\\begin{document}\n", "latexPost": "\\end{document}",
		"req": []any{[]any{0, "any", []int{0}}},
	}
}

func ourDeck(id int64, name string, modified int64) object {
	return object{
		"id": id, "name": name, "mod": modified, "usn": -1, "desc": "", "dyn": 0, "conf": 1, "collapsed": false,
		"browserCollapsed": false,
		"extendNew":        0, "extendRev": 0, "newToday": []int{0, 0}, "revToday": []int{0, 0},
		"lrnToday":  []int{0, 0},
		"timeToday": []int{0, 0},
	}
}

// NewDeck returns a deck that no package had, with the default options and the ID of [FreeDeckID].
func NewDeck(name string, modified time.Time, there []Part) Part {
	id := FreeDeckID(name, there)
	text, err := json.Marshal(ourDeck(id, name, modified.Unix()))
	if err != nil {
		return Part{ID: id, Name: name} // it has only numbers and texts
	}
	return Part{ID: id, Name: name, JSON: text}
}

// DefaultOptions returns the default deck options of Anki, as they are read from a package.
func DefaultOptions() json.RawMessage {
	text, err := json.Marshal(ourOptions())
	if err != nil {
		return nil // it has only numbers and texts
	}
	return text
}

// ourOptions returns Anki's default deck options (rslib/src/deckconfig/schema11.rs).
func ourOptions() object {
	return object{
		"id": 1, "name": "Default", "mod": 0, "usn": 0, "maxTaken": 60, "autoplay": true, "timer": 0, "replayq": true,
		"dyn": false,
		"new": object{"delays": []int{1, 10}, "ints": []int{1, 4, 7}, "initialFactor": 2500, "order": 1, "perDay": 20,
			"bury": false, "separate": true},
		"rev": object{"perDay": 200, "ease4": 1.3, "ivlFct": 1, "maxIvl": 36500, "bury": false, "hardFactor": 1.2,
			"fuzz": 0.05, "minSpace": 1},
		"lapse": object{"delays": []int{10}, "mult": 0, "minInt": 1, "leechFails": 8, "leechAction": 1},
	}
}

// config returns the settings of the collection: those that were read, and what they lack.
func (p *Writer) config(created time.Time) map[string]json.RawMessage {
	conf := map[string]json.RawMessage{}
	_ = json.Unmarshal(p.o.Base.Config, &conf)
	_, west := created.Zone()
	for name, value := range (object{
		"creationOffset": -west / 60, "rollover": int(p.o.DayStart / time.Hour), "nextPos": p.count + 1,
		"curDeck": 1, "activeDecks": []int{1}, "newSpread": 0, "collapseTime": 1200, "timeLim": 0, "estTimes": true,
		"dueCounts": true, "sortType": "noteFld", "sortBackwards": false, "addToCur": true,
	}) {
		if conf[name] == nil {
			conf[name], _ = json.Marshal(value)
		}
	}
	if parseSettings(p.o.Base.Config).Scheduler < 2 { // the answers were converted when they were read
		conf["schedVer"] = json.RawMessage("2")
	}
	return conf
}

// parts returns the note types, decks and options to write, by id.
func (p *Writer) parts() (types, decks, options map[int64]json.RawMessage, err error) {
	types, decks, options = map[int64]json.RawMessage{}, map[int64]json.RawMessage{}, map[int64]json.RawMessage{}
	for _, t := range p.o.Base.Types {
		if p.o.Whole || p.types[t.ID] {
			types[t.ID] = t.JSON
		}
	}
	if p.types[TypeID] || len(types) == 0 {
		if types[TypeID], err = json.Marshal(ourType(p.now.Unix())); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, d := range p.o.Base.Decks {
		if d.ID != 1 && (p.o.Whole || p.used[d.ID]) {
			p.parents(d.Name)
		}
	}
	needed := map[int64]bool{1: true}
	for _, d := range p.o.Base.Decks {
		if p.o.Whole || p.used[d.ID] || d.ID == 1 {
			decks[d.ID] = d.JSON
			needed[integer(parseRecord(d.JSON)["conf"])] = true
		}
	}
	for name, id := range p.decks {
		if decks[id] != nil || !p.used[id] && id != 1 {
			continue
		}
		if id == 1 {
			name = "Default"
		}
		if decks[id], err = json.Marshal(ourDeck(id, name, p.now.Unix())); err != nil {
			return nil, nil, nil, err
		}
	}
	for _, o := range p.o.Base.Options {
		if p.o.Whole || needed[o.ID] {
			options[o.ID] = o.JSON
		}
	}
	if options[1] == nil {
		options[1], err = json.Marshal(ourOptions())
	}
	return types, decks, options, err
}

// writeCol writes the only row of the table col.
func (p *Writer) writeCol(created time.Time) error {
	modified := p.now.UnixMilli()
	types, decks, options, err := p.parts()
	if err != nil {
		return err
	}
	conf := p.config(created)
	if conf["curModel"] == nil {
		for id := range types {
			conf["curModel"], _ = json.Marshal(id)
		}
	}
	args := []any{created.Unix(), modified, modified, schemaVersion}
	for _, v := range []any{conf, types, decks, options, object{}} {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		args = append(args, string(text))
	}
	_, err = p.tx.Exec("INSERT INTO col VALUES (1, ?, ?, ?, ?, 0, 0, 0, ?, ?, ?, ?, ?)", args...)
	return err
}
