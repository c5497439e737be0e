package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"patchbay/internal/plug/learn/fsrs"
)

// Limits of settings. What lies beyond is a slip of the hand, and some of it would
// make a deck that never comes again, or never ends.
const (
	minRetention   = 0.80
	maxRetention   = 0.97 // beyond, intervals shrink towards nothing
	maxMaxInterval = 36500
	maxSteps       = 10
	maxStep        = 10080 // minutes: a week
	maxPerDay      = 9999
	maxLeech       = 99
)

// Validate says, in words for whoever typed them, which settings cannot be: all of
// them, a line each.
func (s Settings) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	number := func(name string, n, least, most int) {
		if n < least || n > most {
			bad("%s is %d; it must be from %d to %d", name, n, least, most)
		}
	}
	if s.Schedule != Classic && s.Schedule != FSRS {
		bad("schedule is %.20q; it must be %q or %q", s.Schedule, FSRS, Classic)
	}
	if !(s.Retention >= minRetention && s.Retention <= maxRetention) { // so that NaN fails
		bad("retention is %v; it must be from %.2f to %.2f", s.Retention, minRetention, maxRetention)
	}
	number("max_interval", s.MaxInterval, 1, maxMaxInterval)
	minutes := func(name string, steps []int) {
		if len(steps) > maxSteps {
			bad("%s are %d; there may be at most %d", name, len(steps), maxSteps)
		}
		if i := slices.IndexFunc(steps, func(n int) bool { return n < 1 || n > maxStep }); i >= 0 {
			bad("%s has a step of %d minutes; each must be from 1 to %d", name, steps[i], maxStep)
		}
	}
	minutes("steps", s.Steps)
	minutes("relearn", s.Relearn)
	if n := len(s.Weights); n != 0 && n != len(fsrs.Weights{}) {
		bad("weights are %d numbers; there must be %d, or none for the published ones", n, len(fsrs.Weights{}))
	} else if err := s.weights().Validate(); err != nil {
		bad("weights: %w", err)
	}
	number("new_per_day", s.NewPerDay, 0, maxPerDay)
	number("reviews_per_day", s.ReviewsPerDay, 0, maxPerDay)
	number("leech", s.Leech, 0, maxLeech)
	known := 0
	for _, name := range weekdays {
		if percent, ok := s.EasyDays[name]; ok {
			known++
			number("easy_days."+name, percent, 0, 100)
		}
	}
	if known < len(s.EasyDays) { // one is enough to tell; there may be thousands
		for _, name := range slices.Sorted(maps.Keys(s.EasyDays)) {
			if !slices.Contains(weekdays[:], name) {
				bad("easy_days has %.20q; the days are %s", name, strings.Join(weekdays[:], ", "))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// With is the settings with changes, a JSON object such as
// {"retention": 0.85, "steps": null}: null puts a field back to its default, lists and
// easy_days are replaced whole. An empty patch or null changes nothing. The error
// names the fields that there are if one is unknown, or what a field wants, or is
// that of [Settings.Validate]; the settings are then unchanged.
func (s Settings) With(patch []byte) (Settings, error) {
	if len(bytes.TrimSpace(patch)) == 0 {
		return s, s.Validate()
	}
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil {
		return s, fmt.Errorf("settings must be a JSON object: %w", err)
	}
	next, def := s, Default()
	to, from := reflect.ValueOf(&next).Elem(), reflect.ValueOf(def)
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		i := slices.Index(names, name)
		if i < 0 {
			return s, fmt.Errorf("there is no setting %.40q; there are %s", name, strings.Join(names, ", "))
		}
		field := to.Field(i)
		if string(changes[name]) == "null" {
			field.Set(from.Field(i))
			continue
		}
		// A new value, because decoding into the old one would write into a slice or
		// map that other settings share.
		fresh := reflect.New(field.Type())
		if err := json.Unmarshal(changes[name], fresh.Interface()); err != nil {
			return s, fmt.Errorf("%s must be %s", name, wanted(field.Type()))
		}
		field.Set(fresh.Elem())
	}
	if err := next.Validate(); err != nil {
		return s, err
	}
	return next, nil
}

// names are the fields' names in JSON, in the order of the fields.
var names = func() (list []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		list = append(list, name)
	}
	return list
}()

// wanted says what a value of that type is in JSON.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Int {
			return "a list of whole numbers"
		}
		return "a list of numbers"
	case reflect.Map:
		return `an object such as {"sat": 50, "sun": 0}`
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	}
	return "a number"
}
