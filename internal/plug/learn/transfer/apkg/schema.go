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
	// typeID is the ID of Patchbay's note type. It must never change, so that Anki recognizes notes
	// from an earlier package.
	typeID int64 = 1_763_700_000_001
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
		"id": typeID, "name": "Patchbay", "type": 0, "mod": modified, "usn": -1, "sortf": 0, "did": 1, "vers": []int{},
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

// ourOptions returns Anki's default deck options (rslib/src/deckconfig/schema11.rs).
func ourOptions() object {
	return object{"1": object{
		"id": 1, "name": "Default", "mod": 0, "usn": 0, "maxTaken": 60, "autoplay": true, "timer": 0, "replayq": true,
		"dyn": false,
		"new": object{"delays": []int{1, 10}, "ints": []int{1, 4, 7}, "initialFactor": 2500, "order": 1, "perDay": 20,
			"bury": false, "separate": true},
		"rev": object{"perDay": 200, "ease4": 1.3, "ivlFct": 1, "maxIvl": 36500, "bury": false, "hardFactor": 1.2,
			"fuzz": 0.05, "minSpace": 1},
		"lapse": object{"delays": []int{10}, "mult": 0, "minInt": 1, "leechFails": 8, "leechAction": 1},
	}}
}

// writeCol writes the only row of the table col.
func (p *Writer) writeCol(created time.Time) error {
	modified := p.now.UnixMilli()
	_, west := created.Zone()
	conf := object{
		"schedVer": 2, "creationOffset": -west / 60, "rollover": int(p.o.DayStart / time.Hour), "nextPos": p.count + 1,
		"curDeck": 1, "activeDecks": []int{1},
		"curModel": typeID, "newSpread": 0, "collapseTime": 1200, "timeLim": 0, "estTimes": true, "dueCounts": true,
		"sortType":      "noteFld",
		"sortBackwards": false, "addToCur": true,
	}
	decks := make(map[int64]object, len(p.decks))
	for name, id := range p.decks {
		if id == 1 {
			name = "Default"
		}
		decks[id] = ourDeck(id, name, p.now.Unix())
	}
	args := []any{created.Unix(), modified, modified, schemaVersion}
	for _, v := range []any{conf, map[int64]object{typeID: ourType(p.now.Unix())}, decks, ourOptions(), object{}} {
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		args = append(args, string(text))
	}
	_, err := p.tx.Exec("INSERT INTO col VALUES (1, ?, ?, ?, ?, 0, 0, 0, ?, ?, ?, ?, ?)", args...)
	return err
}
