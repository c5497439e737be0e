package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/fsrs"
)

// Limits of settings. Values outside are most likely typing errors, and some would make a deck that
// never comes back, or never ends.
const (
	minRetention   = 0.80
	maxRetention   = 0.97 // beyond, intervals become uselessly short
	maxMaxInterval = 36500
	maxSteps       = 10
	maxStep        = 10080 // one week, in minutes
	maxPerDay      = 9999
	maxLeech       = 99
)

// Errors of settings.
const (
	msgRange     = i18n.Message("%s is %d; it must be from %d to %d")
	msgSchedule  = i18n.Message("schedule is %.20q; it must be %q or %q")
	msgRetention = i18n.Message("retention is %v; it must be from %.2f to %.2f")
	msgManySteps = i18n.Message("%s are %d; there may be at most %d")
	msgStep      = i18n.Message("%s has a step of %d minutes; each must be from 1 to %d")
	msgWeights   = i18n.Message("weights are %d numbers; there must be %d, or none for the published ones")
	msgWeight    = i18n.Message("weights: %v")
	msgEasyDay   = i18n.Message("easy_days has %.20q; the days are %s")
	msgObject    = i18n.Message("settings must be a JSON object: %v")
	msgNoSetting = i18n.Message("there is no setting %.40q; there are %s")
	msgMustBe    = i18n.Message("%s must be %s")

	msgWholes  = i18n.Message("a list of whole numbers")
	msgNumbers = i18n.Message("a list of numbers")
	msgDays    = i18n.Message(`an object such as {"sat": 50, "sun": 0}`)
	msgText    = i18n.Message("a text")
	msgTruth   = i18n.Message("true or false")
	msgWhole   = i18n.Message("a whole number")
	msgNumber  = i18n.Message("a number")
)

// Validate returns an error with one line per invalid setting.
func (s Settings) Validate() error {
	var errs []error
	bad := func(s i18n.Message, args ...any) { errs = append(errs, s.Errorf(args...)) }
	number := func(name string, n, least, most int) {
		if n < least || n > most {
			bad(msgRange, name, n, least, most)
		}
	}
	if s.Schedule != Classic && s.Schedule != FSRS {
		bad(msgSchedule, s.Schedule, FSRS, Classic)
	}
	if !(s.Retention >= minRetention && s.Retention <= maxRetention) { // so that NaN fails
		bad(msgRetention, s.Retention, minRetention, maxRetention)
	}
	number("max_interval", s.MaxInterval, 1, maxMaxInterval)
	minutes := func(name string, steps []int) {
		if len(steps) > maxSteps {
			bad(msgManySteps, name, len(steps), maxSteps)
		}
		if i := slices.IndexFunc(steps, func(n int) bool { return n < 1 || n > maxStep }); i >= 0 {
			bad(msgStep, name, steps[i], maxStep)
		}
	}
	minutes("steps", s.Steps)
	minutes("relearn", s.Relearn)
	if n := len(s.Weights); n != 0 && n != len(fsrs.Weights{}) {
		bad(msgWeights, n, len(fsrs.Weights{}))
	} else if err := s.weights().Validate(); err != nil {
		bad(msgWeight, err)
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
	if known < len(s.EasyDays) { // report only one; there may be thousands
		for _, name := range slices.Sorted(maps.Keys(s.EasyDays)) {
			if !slices.Contains(weekdays[:], name) {
				bad(msgEasyDay, name, strings.Join(weekdays[:], ", "))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// With returns the settings with changes, a JSON object such as {"retention": 0.85, "steps": null}:
// null resets a field to its default, lists and easy_days are replaced as a whole. An empty patch
// or null changes nothing. The error lists the known fields if one is unknown, or names the type
// that a field requires, or is that of [Settings.Validate]; the settings then stay unchanged.
func (s Settings) With(patch []byte) (Settings, error) {
	if len(bytes.TrimSpace(patch)) == 0 {
		return s, s.Validate()
	}
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil {
		return s, msgObject.Errorf(err)
	}
	next, def := s, Default()
	to, from := reflect.ValueOf(&next).Elem(), reflect.ValueOf(def)
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		i := slices.Index(names, name)
		if i < 0 {
			return s, msgNoSetting.Errorf(name, strings.Join(names, ", "))
		}
		field := to.Field(i)
		if string(changes[name]) == "null" {
			field.Set(from.Field(i))
			continue
		}
		// A new value is needed: decoding into the old one would write into a slice or map that
		// other settings share.
		fresh := reflect.New(field.Type())
		if err := json.Unmarshal(changes[name], fresh.Interface()); err != nil {
			return s, msgMustBe.Errorf(name, expectedType(field.Type()))
		}
		field.Set(fresh.Elem())
	}
	if err := next.Validate(); err != nil {
		return s, err
	}
	return next, nil
}

// names are the JSON names of the fields, in their order.
var names = func() (list []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Settings]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		list = append(list, name)
	}
	return list
}()

// expectedType describes the JSON type of a Go type.
func expectedType(t reflect.Type) i18n.Message {
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Int {
			return msgWholes
		}
		return msgNumbers
	case reflect.Map:
		return msgDays
	case reflect.String:
		return msgText
	case reflect.Bool:
		return msgTruth
	case reflect.Int:
		return msgWhole
	}
	return msgNumber
}
