package learn

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/plug/learn/transfer"
	"patchbay/internal/plug/learn/transfer/apkg"
	"patchbay/internal/store"
)

// optionsPackage is a package with two decks that share options, and one with options of its own.
// Texts of the latter, and of the deck, are replaced.
func optionsPackage(t *testing.T, replace ...string) string {
	t.Helper()
	group := func(id, extra string) []byte {
		return []byte(`{"id":` + id + `,"name":"G","mod":5,"usn":3,"autoplay":false,"timer":1,"maxTaken":33,"replayq":true,"dyn":false,
			"new":{"delays":[2,20],"ints":[1,4,0],"initialFactor":2500,"order":1,"perDay":7,"bury":true},
			"rev":{"perDay":77,"ease4":1.3,"ivlFct":1,"maxIvl":400,"bury":true,"hardFactor":1.2},
			"lapse":{"delays":[15],"mult":0.1,"minInt":2,"leechFails":5,"leechAction":0}` + extra + `}`)
	}
	deck := func(id, name, conf string) []byte {
		return []byte(`{"id":` + id + `,"name":"` + name + `","mod":4,"usn":0,"desc":"about","dyn":0,"conf":` + conf + `,
			"collapsed":true,"browserCollapsed":false,"extendNew":3,"extendRev":4,"newToday":[0,0],"revToday":[0,0],"lrnToday":[0,0],
			"timeToday":[0,0]}`)
	}
	model := `{"id":1700000000000,"name":"One","type":0,"mod":1700000000,"css":"","flds":[{"name":"F"},{"name":"B"}],
		"tmpls":[{"name":"A","qfmt":"{{F}}","afmt":"{{B}}"}]}`
	base := apkg.Contents{Created: 1_600_000_000, Day: 18518,
		Types: []apkg.Part{{ID: 1700000000000, Name: "One", JSON: []byte(model)}},
		Decks: []apkg.Part{{ID: 1600000000001, Name: "A", JSON: deck("1600000000001", "A", "1600000000011")},
			{ID: 1600000000002, Name: "B", JSON: deck("1600000000002", "B", "1600000000011")},
			{ID: 1600000000003, Name: "C", JSON: deck("1600000000003", "C", "1600000000012")}},
		Options: []apkg.Part{{ID: 1600000000011, Name: "G", JSON: group("1600000000011", "")},
			{ID: 1600000000012, Name: "G", JSON: group("1600000000012", `,"easyDaysPercentages":[1,1,1,1,1,0.5,0]`)}},
	}
	for _, part := range []*apkg.Part{&base.Decks[2], &base.Options[1]} {
		part.JSON = []byte(strings.NewReplacer(replace...).Replace(string(part.JSON)))
	}
	var b bytes.Buffer
	w, err := apkg.NewWriter(&b, apkg.WriteOptions{Temp: t.TempDir(), Whole: true, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"A", "B", "C"} {
		c := builtCard(int64(i), "front "+name, "back")
		c.Deck, c.NoteRow.Type, c.Day = name, 1700000000000, 18518
		if err := w.WriteNote(c.NoteRow); err != nil {
			t.Fatal(err)
		}
		if err := w.WriteCard(c, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// packageOptions reads the options of the decks of a package, by name.
func packageOptions(t *testing.T, file string) (options map[string]map[string]any, decks map[string]map[string]any) {
	t.Helper()
	options, decks = map[string]map[string]any{}, map[string]map[string]any{}
	o := apkg.Options{Temp: t.TempDir(), Contents: func(c *apkg.Contents) error {
		byID := map[int64]map[string]any{}
		for _, p := range c.Options {
			var v map[string]any
			if err := json.Unmarshal(p.JSON, &v); err != nil {
				return err
			}
			byID[p.ID] = v
		}
		for _, p := range c.Decks {
			var v map[string]any
			if err := json.Unmarshal(p.JSON, &v); err != nil {
				return err
			}
			conf, _ := v["conf"].(float64)
			options[p.Name], decks[p.Name] = byID[int64(conf)], v
		}
		return nil
	}}
	if err := apkg.Read(t.Context(), strings.NewReader(file), int64(len(file)), o,
		func(apkg.Card) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return options, decks
}

// Options of decks that were changed here are written into those of Anki, in both generations; what
// was not changed, and what only Anki knows, stays as it came, and decks that shared the options
// keep them.
func TestDeckOptionsAreWritten(t *testing.T) {
	weights := append([]float64{}, fsrs.Published[:]...)
	weights[0] = 0.25
	changed, err := json.Marshal(map[string]any{"steps": []int{3, 30, 300}, "relearn": []int{}, "retention": 0.85,
		"new_per_day": 11, "reviews_per_day": 111, "max_interval": 999, "leech": 0, "leech_suspend": false, "bury": false,
		"easy_days": map[string]int{"mon": 50, "sun": 0}, "balance": false, "weights": weights})
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, r *rig) {
		file := optionsPackage(t)
		if done := r.take("ada", "x.apkg", file, nil); done.Added != 3 {
			t.Fatalf("imported %+v", done)
		}
		before, _ := packageOptions(t, file)
		for _, newest := range []bool{false, true} {
			got, _ := packageOptions(t, r.exportAs("ada", ExportOptions{Format: transfer.Anki, Newest: newest}))
			for _, name := range []string{"A", "B", "C"} {
				if !sameNumbers(got[name]["new"], before[name]["new"]) || got[name]["mod"] != before[name]["mod"] {
					t.Errorf("unchanged, %s is %v, want %v", name, got[name], before[name])
				}
			}
		}
		for name, settings := range map[string]json.RawMessage{"A": changed, "C": []byte(`{"new_per_day": 12}`),
			"Mine": []byte(`{"retention": 0.95, "leech": 6}`)} {
			_, err := r.SaveDeck(ctx, "ada", DeckEdit{Name: name, Settings: settings}, nil)
			r.must(err)
		}
		r.add("ada", Draft{Question: "q", Answer: "a", Deck: "Mine"})
		l, err := r.Learner(ctx, "ada")
		r.must(err)
		for i, newest := range []bool{false, true} {
			out := r.exportAs("ada", ExportOptions{Format: transfer.Anki, Newest: newest})
			got, decks := packageOptions(t, out)
			a := got["A"]
			fresh, review, lapse := a["new"].(map[string]any), a["rev"].(map[string]any), a["lapse"].(map[string]any)
			if !sameNumbers(fresh["delays"], []int{3, 30, 300}) || !sameNumbers(lapse["delays"], []int{}) ||
				fresh["perDay"] != 11.0 || review["perDay"] != 111.0 || review["maxIvl"] != 999.0 || lapse["leechFails"] != 0.0 ||
				lapse["leechAction"] != 1.0 || review["bury"] != false || !sameNumbers(a["easyDaysPercentages"],
				[]float64{0.5, 1, 1, 1, 1, 1, 0}) || a["mod"] == 5.0 || a["maxTaken"] != 33.0 || a["autoplay"] != false {
				t.Errorf("newest %v: A has %v", newest, a)
			}
			if decks["A"]["conf"] == decks["B"]["conf"] || decks["A"]["desc"] != "about" {
				t.Errorf("newest %v: the decks are %v", newest, decks)
			}
			if b := got["B"]; b["mod"] != 5.0 || !sameNumbers(b["new"].(map[string]any)["delays"], []int{2, 20}) {
				t.Errorf("newest %v: B has %v", newest, b)
			}
			if c := got["C"]; c["id"] != 1600000000012.0 || c["new"].(map[string]any)["perDay"] != 12.0 {
				t.Errorf("newest %v: C has %v", newest, c)
			}
			if m := got["Mine"]; m["lapse"].(map[string]any)["leechFails"] != 6.0 || m["id"] == 1.0 {
				t.Errorf("newest %v: the own deck has %v", newest, m)
			}
			// Somebody else gets the same settings of them.
			other := r.person([]string{"old", "new"}[i])
			r.take(other, "x.apkg", out, nil)
			there, err := r.Learner(ctx, other)
			r.must(err)
			for _, name := range []string{"A", "B", "C", "Mine"} {
				mine, theirs := settingsOf(t, l, name), settingsOf(t, there, name)
				mine.Balance = theirs.Balance // Anki has none
				if !reflect.DeepEqual(mine, theirs) {
					t.Errorf("newest %v: %s came in as %+v, want %+v", newest, name, theirs, mine)
				}
			}
		}
	})
}

// An own deck without settings has the default options, and comes back without settings, unless the
// person has changed what all decks have in common.
func TestOptionsOfOwnDecks(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.add("ada", Draft{Question: "q", Answer: "a", Deck: "Bare"})
		r.add("ada", Draft{Question: "p", Answer: "a", Deck: "Mine"})
		_, err := r.SaveDeck(ctx, "ada", DeckEdit{Name: "Mine", Settings: []byte(`{"new_per_day": 5}`)}, nil)
		r.must(err)
		for i, newest := range []bool{false, true} {
			out := r.exportAs("ada", ExportOptions{Format: transfer.Anki, Newest: newest})
			got, decks := packageOptions(t, out)
			if decks["Bare"]["conf"] != 1.0 || got["Bare"]["mod"] != 0.0 {
				t.Errorf("newest %v: a deck without settings has %v", newest, got["Bare"])
			}
			mine := got["Mine"]
			if mine["id"] == 1.0 || mine["new"].(map[string]any)["perDay"] != 5.0 || !unset(mine["desiredRetention"]) ||
				!unset(mine["fsrsParams6"]) || !unset(mine["easyDaysPercentages"]) {
				t.Errorf("newest %v: a deck with a setting has %v", newest, mine)
			}
			other := r.person([]string{"old", "new"}[i])
			r.take(other, "x.apkg", out, nil)
			there, err := r.Learner(ctx, other)
			r.must(err)
			id, _ := there.DeckID("Bare")
			if s := there.deck(id).Settings; string(s) != "{}" {
				t.Errorf("newest %v: it comes back with %s", newest, s)
			}
		}
		r.settings("ada", `{"defaults": {"retention": 0.85, "new_per_day": 30}}`)
		l, err := r.Learner(ctx, "ada")
		r.must(err)
		other := r.person("common")
		r.take(other, "x.apkg", r.exportAs("ada", ExportOptions{Format: transfer.Anki}), nil)
		there, err := r.Learner(ctx, other)
		r.must(err)
		for _, name := range []string{"Bare", "Mine"} {
			if mine, theirs := settingsOf(t, l, name), settingsOf(t, there, name); !reflect.DeepEqual(mine, theirs) {
				t.Errorf("%s came in as %+v, want %+v", name, theirs, mine)
			}
		}
	})
}

// A setting that is reset goes out as the default, and options that no deck has any more are not
// left over when both decks that shared them are changed.
func TestSharedOptionsChanged(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.take("ada", "x.apkg", optionsPackage(t), nil)
		for name, settings := range map[string]string{"A": `{"new_per_day": null}`, "B": `{"max_interval": 300}`} {
			_, err := r.SaveDeck(ctx, "ada", DeckEdit{Name: name, Settings: []byte(settings)}, nil)
			r.must(err)
		}
		for _, newest := range []bool{false, true} {
			out := r.exportAs("ada", ExportOptions{Format: transfer.Colpkg, Newest: newest})
			got, decks := packageOptions(t, out)
			a, b := got["A"], got["B"]
			if fresh := a["new"].(map[string]any); fresh["perDay"] != 20.0 || !sameNumbers(fresh["delays"], []int{2, 20}) ||
				a["rev"].(map[string]any)["maxIvl"] != 400.0 {
				t.Errorf("newest %v: A has %v", newest, a)
			}
			if b["new"].(map[string]any)["perDay"] != 7.0 || b["rev"].(map[string]any)["maxIvl"] != 300.0 {
				t.Errorf("newest %v: B has %v", newest, b)
			}
			users := map[any]int{}
			for _, d := range decks {
				users[d["conf"]]++
			}
			o := apkg.Options{Temp: t.TempDir(), Contents: func(c *apkg.Contents) error {
				for _, p := range c.Options {
					if p.ID != 1 && users[float64(p.ID)] != 1 {
						t.Errorf("newest %v: options %d have %d decks", newest, p.ID, users[float64(p.ID)])
					}
				}
				return nil
			}}
			r.must(apkg.Read(ctx, strings.NewReader(out), int64(len(out)), o, func(apkg.Card) error { return nil }))
		}
	})
}

// A change of one setting leaves alone what cannot be had here as it is in Anki: steps of fractions
// of a minute, burying that differs between new and other cards, and a retention of the deck alone.
func TestForeignOptionsStay(t *testing.T) {
	for _, steps := range []string{"[1.5,20]", "[0.5,20]"} {
		r := newRig(t, store.Options{Folder: t.TempDir()})
		r.take("ada", "x.apkg", optionsPackage(t, "[2,20]", steps, `"perDay":7,"bury":true`, `"perDay":7,"bury":false`,
			`"desc":"about"`, `"desc":"about","desiredRetention":85`), nil)
		_, err := r.SaveDeck(ctx, "ada", DeckEdit{Name: "C", Settings: []byte(`{"new_per_day": 12}`)}, nil)
		r.must(err)
		for _, newest := range []bool{false, true} {
			got, decks := packageOptions(t, r.exportAs("ada", ExportOptions{Format: transfer.Anki, Newest: newest}))
			fresh := got["C"]["new"].(map[string]any)
			if fresh["perDay"] != 12.0 || !sameNumbers(fresh["delays"], json.RawMessage(steps)) || fresh["bury"] != false ||
				decks["C"]["desiredRetention"] != 85.0 || !unset(got["C"]["desiredRetention"]) {
				t.Errorf("newest %v: C has %v and %v", newest, got["C"], decks["C"])
			}
		}
		// Steps that the person chose replace them.
		_, err = r.SaveDeck(ctx, "ada", DeckEdit{Name: "C", Settings: []byte(`{"steps": [3]}`)}, nil)
		r.must(err)
		got, _ := packageOptions(t, r.exportAs("ada", ExportOptions{Format: transfer.Anki}))
		if fresh := got["C"]["new"].(map[string]any); !sameNumbers(fresh["delays"], []int{3}) {
			t.Errorf("C has the steps %v", fresh["delays"])
		}
	}
}

// A new deck with the name that another one had is another deck in packages, too; and an empty deck
// has those above it.
func TestDecksOfTheSameName(t *testing.T) {
	each(t, func(t *testing.T, r *rig) {
		r.add("ada", Draft{Question: "first", Answer: "a", Deck: "Plain"})
		r.take("ada", "x.apkg", r.exportAs("ada", ExportOptions{Format: transfer.Anki}), nil)
		_, err := r.SaveDeck(ctx, "ada", DeckEdit{Name: "Plain", NewName: "Renamed"}, nil)
		r.must(err)
		r.add("ada", Draft{Question: "second", Answer: "a", Deck: "Plain"})
		_, err = r.SaveDeck(ctx, "ada", DeckEdit{Name: "P::Q"}, nil)
		r.must(err)
		for i, o := range []ExportOptions{{Format: transfer.Anki}, {Format: transfer.Colpkg, Newest: true}} {
			out := r.exportAs("ada", o)
			_, decks := packageOptions(t, out)
			if len(decks) != 5 || decks["P"] == nil || decks["P::Q"] == nil {
				t.Errorf("%+v: the decks are %v", o, decks)
			}
			other := r.person([]string{"old", "new"}[i])
			r.take(other, "x.apkg", out, nil)
			l, err := r.Learner(ctx, other)
			r.must(err)
			list, err := r.List(ctx, other, store.PointFilter{}, store.PointKey{}, 9)
			r.must(err)
			for _, e := range list {
				if name := l.DeckName(e.Deck); name != map[string]string{"first": "Renamed", "second": "Plain"}[e.Question] {
					t.Errorf("%+v: %s is in %s", o, e.Question, name)
				}
			}
		}
	})
}

func settingsOf(t *testing.T, l *Learner, deck string) schedule.Settings {
	t.Helper()
	id, ok := l.DeckID(deck)
	if !ok {
		t.Fatalf("no deck %s", deck)
	}
	return l.Settings(id)
}

// sameNumbers compares values as JSON has them.
func sameNumbers(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// unset reports whether an attribute has no value; in the newest generation it is there all the
// same.
func unset(v any) bool { return v == nil || sameNumbers(v, 0) || sameNumbers(v, []int{}) }
