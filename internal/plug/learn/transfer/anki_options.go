package transfer

import (
	"encoding/json"
	"math"

	"patchbay/internal/plug/learn/schedule"
)

// deckSettings returns the settings of a deck that its options in Anki stand for, as far as there
// are the same here; nil if the options are those that everybody has. options are in the form of
// rslib/src/deckconfig/schema11.rs.
func deckSettings(deck, options map[string]any) json.RawMessage {
	if options == nil || whole(options["id"]) == 1 && whole(options["mod"]) == 0 {
		return nil
	}
	return readOptions(deck, options).settings()
}

// readSettings are the settings that options stand for.
type readSettings struct {
	values map[string]json.RawMessage // by their names here
	// foreign are the names of those whose values in Anki cannot be had here, such as steps of half
	// a minute.
	foreign map[string]bool
}

// settings returns them as an object; nil if there are none.
func (r readSettings) settings() json.RawMessage {
	if len(r.values) == 0 {
		return nil
	}
	text, err := json.Marshal(r.values)
	if err != nil {
		return nil
	}
	return text
}

func (r readSettings) set(name string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		return
	}
	patch, _ := json.Marshal(map[string]json.RawMessage{name: text})
	if _, err := schedule.Default().With(patch); err != nil { // others have other limits
		r.foreign[name] = true
		return
	}
	r.values[name] = text
}

// readOptions is [deckSettings] of any options.
func readOptions(deck, options map[string]any) readSettings {
	fresh, _ := options["new"].(map[string]any)
	review, _ := options["rev"].(map[string]any)
	lapse, _ := options["lapse"].(map[string]any)
	r := readSettings{map[string]json.RawMessage{}, map[string]bool{}}
	number := func(name string, from map[string]any, key string) {
		if v, ok := from[key].(float64); ok {
			r.set(name, int(v))
		}
	}
	number("new_per_day", fresh, "perDay")
	number("reviews_per_day", review, "perDay")
	number("max_interval", review, "maxIvl")
	number("leech", lapse, "leechFails")
	if action, ok := lapse["leechAction"].(float64); ok {
		r.set("leech_suspend", action == 0)
	}
	if bury, ok := review["bury"].(bool); ok {
		r.set("bury", bury)
	}
	for name, value := range map[string]any{"steps": fresh["delays"], "relearn": lapse["delays"]} {
		if steps, ok := minutes(value); ok {
			r.set(name, steps)
		} else if value != nil {
			r.foreign[name] = true
		}
	}
	retention := options["desiredRetention"]
	if percent, ok := deck["desiredRetention"].(float64); ok { // of the deck alone
		retention = percent / 100
	}
	if share, ok := retention.(float64); ok && share > 0 {
		r.set("retention", math.Round(share*1000)/1000)
	}
	if weights, ok := options["fsrsParams6"].([]any); ok && len(weights) > 0 {
		r.set("weights", weights)
	}
	if days := easyDays(options["easyDaysPercentages"]); days != nil {
		r.set("easy_days", days)
	}
	return r
}

// minutes reads learning steps; ok is false if they are none of whole minutes.
func minutes(value any) (steps []int, ok bool) {
	list, ok := value.([]any)
	steps = []int{}
	for _, v := range list {
		f, number := v.(float64)
		if !number || f < 1 || f > 1e6 {
			return nil, false
		}
		steps = append(steps, int(math.Round(f)))
	}
	return steps, ok
}
