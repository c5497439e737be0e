package transfer

import (
	"bytes"
	"encoding/json"
	"slices"

	"patchbay/internal/plug/learn/schedule"
	"patchbay/internal/plug/learn/transfer/apkg"
)

// Decks whose settings are not those of their options in Anki are written with the same values in
// their options, where Anki has that option (rslib/src/deckconfig/schema11.rs). Options that
// several decks share stay as they are: the deck that was changed gets options of its own.

// week are the days of easyDaysPercentages, which begins with Monday.
var week = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}

// writeOptions writes the settings of decks into the options of a package, which gets the decks
// that it lacks.
func (a *ankiWriter) writeOptions(base *apkg.Contents) {
	common, err := schedule.Default().With(a.o.Defaults)
	if err != nil {
		common = schedule.Default() // written by another version; nothing can be said
	}
	o := optionsWriter{base: base, common: common, modified: a.o.Now.Unix(), users: map[int64]int{1: 2}}
	for _, d := range base.Decks {
		o.users[whole(parseObject(d.JSON)["conf"])]++
	}
	for _, d := range a.o.Decks {
		name := cleanDeck(d.Name)
		at := slices.IndexFunc(base.Decks, func(p apkg.Part) bool { return d.Source == deckSource(p.ID) })
		if at < 0 {
			at = slices.IndexFunc(base.Decks, func(p apkg.Part) bool { return p.Name == name })
		}
		if at < 0 {
			at = len(base.Decks)
			base.Decks = append(base.Decks, apkg.NewDeck(name, a.o.Now, base.Decks))
		}
		deck := &base.Decks[at]
		if deck.ID == 1 || truthy(parseObject(deck.JSON)["dyn"]) {
			continue // a filtered deck has no options
		}
		o.write(deck, d.Settings)
	}
}

// optionsWriter writes settings of decks into the options of a package.
type optionsWriter struct {
	base     *apkg.Contents
	common   schedule.Settings // of all decks
	modified int64
	// users counts the decks of options, by id. Everybody has the default options, which count as
	// shared therefore.
	users map[int64]int
}

// write writes the settings of one deck, as far as its options do not say the same. Missing
// settings have our defaults, not Anki's. What cannot be had here stays as it is, unless the deck
// has a setting for it.
func (o *optionsWriter) write(deck *apkg.Part, settings json.RawMessage) {
	record := parseObject(deck.JSON)
	conf := whole(record["conf"])
	at := slices.IndexFunc(o.base.Options, func(p apkg.Part) bool { return p.ID == conf })
	options := parseObject(apkg.DefaultOptions())
	if at >= 0 {
		options = parseObject(o.base.Options[at].JSON)
	}
	here, err := o.common.With(settings)
	if err != nil {
		return // written by another version; nothing can be said
	}
	own, said := parseObject(settings), readOptions(record, options)
	differs := func(s *ankiSetting, there schedule.Settings) bool {
		return (own[s.name] != nil || !said.foreign[s.name]) && !s.same(&here, &there)
	}
	// Default options that nobody changed say nothing. Once they are options of this deck, all that
	// they say counts.
	there, _ := schedule.Default().With(deckSettings(record, options))
	if !slices.ContainsFunc(ankiSettings, func(s ankiSetting) bool { return differs(&s, there) }) {
		return
	}
	there, _ = schedule.Default().With(said.settings())
	for _, s := range ankiSettings {
		if differs(&s, there) {
			s.put(options, record, s.value(&here))
		}
	}
	o.save(deck, record, options, at)
}

// save saves options, of which the deck gets its own if other decks have them, too.
func (o *optionsWriter) save(deck *apkg.Part, record, options map[string]any, at int) {
	options["mod"], options["usn"] = o.modified, -1
	if conf := whole(record["conf"]); at < 0 || o.users[conf] > 1 {
		o.users[conf]--
		conf, at = freeOptions(o.base.Options, deck.ID), len(o.base.Options)
		options["id"], options["name"], record["conf"] = conf, deck.Name, conf
		o.users[conf]++
		o.base.Options = append(o.base.Options, apkg.Part{ID: conf, Name: deck.Name})
	}
	if text, err := json.Marshal(options); err == nil {
		o.base.Options[at].JSON = text
	}
	record["mod"], record["usn"] = o.modified, -1
	if text, err := json.Marshal(record); err == nil {
		deck.JSON = text
	}
}

// freeOptions returns an id that no options have, the same in each package.
func freeOptions(list []apkg.Part, id int64) int64 {
	for slices.ContainsFunc(list, func(o apkg.Part) bool { return o.ID == id }) {
		id++
	}
	return id
}

// ankiSetting is a setting that Anki has, too.
type ankiSetting struct {
	name  string // here
	value func(*schedule.Settings) any
	put   func(options, deck map[string]any, value any)
}

// same reports whether the setting has the same value in two settings.
func (s *ankiSetting) same(a, b *schedule.Settings) bool {
	x, err := json.Marshal(s.value(a))
	y, err2 := json.Marshal(s.value(b))
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// ankiSettings are the settings that Anki has, too, with the values of its options.
var ankiSettings = []ankiSetting{
	{"new_per_day", func(s *schedule.Settings) any { return s.NewPerDay }, putOption("perDay", "new")},
	{"reviews_per_day", func(s *schedule.Settings) any { return s.ReviewsPerDay }, putOption("perDay", "rev")},
	{"max_interval", func(s *schedule.Settings) any { return s.MaxInterval }, putOption("maxIvl", "rev")},
	{"steps", func(s *schedule.Settings) any { return append([]int{}, s.Steps...) }, putOption("delays", "new")},
	{"relearn", func(s *schedule.Settings) any { return append([]int{}, s.Relearn...) }, putOption("delays", "lapse")},
	{"leech", func(s *schedule.Settings) any { return s.Leech }, putOption("leechFails", "lapse")},
	{"leech_suspend", func(s *schedule.Settings) any { return map[bool]int{true: 0, false: 1}[s.LeechSuspend] },
		putOption("leechAction", "lapse")},
	{"bury", func(s *schedule.Settings) any { return s.Bury }, putOption("bury", "new", "rev")},
	{"retention", func(s *schedule.Settings) any { return s.Retention }, func(options, deck map[string]any, value any) {
		options["desiredRetention"] = value
		delete(deck, "desiredRetention") // one of the deck alone would go before
	}},
	{"weights", func(s *schedule.Settings) any { return append([]float64{}, s.Weights...) },
		func(options, _ map[string]any, value any) { options["fsrsParams6"] = value }},
	{"easy_days", func(s *schedule.Settings) any { return dayShares(s.EasyDays) },
		func(options, _ map[string]any, value any) { options["easyDaysPercentages"] = value }},
}

// putOption returns a function that sets an attribute of groups of options.
func putOption(name string, groups ...string) func(options, deck map[string]any, value any) {
	return func(options, _ map[string]any, value any) {
		for _, group := range groups {
			into, ok := options[group].(map[string]any)
			if !ok {
				into = map[string]any{}
				options[group] = into
			}
			into[name] = value
		}
	}
}

// dayShares returns the shares of the days of a week.
func dayShares(days map[string]int) []float64 {
	shares := make([]float64, len(week))
	for i, day := range week {
		shares[i] = 1
		if percent, ok := days[day]; ok {
			shares[i] = float64(percent) / 100
		}
	}
	return shares
}

// easyDays reads the shares of the days of a week; nil if all are whole days or there are none.
func easyDays(value any) map[string]int {
	list, ok := value.([]any)
	if !ok || len(list) != len(week) {
		return nil
	}
	out := map[string]int{}
	for i, v := range list {
		share, ok := v.(float64)
		if !ok || share < 0 || share > 1 {
			return nil
		}
		if share < 1 {
			out[week[i]] = int(share*100 + 0.5)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
