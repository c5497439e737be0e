package schedule

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"patchbay/internal/plug/learn/fsrs"
	"patchbay/internal/talk"
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
var (
	sayRange     = talk.Say{Zh: "%s 是 %d；要在 %d 到 %d 之间", En: "%s is %d; it must be from %d to %d"}
	saySchedule  = talk.Say{Zh: "schedule 是 %.20q；要是 %q 或 %q", En: "schedule is %.20q; it must be %q or %q"}
	sayRetention = talk.Say{Zh: "retention 是 %v；要在 %.2f 到 %.2f 之间", En: "retention is %v; it must be from %.2f to %.2f"}
	sayManySteps = talk.Say{Zh: "%s 有 %d 个；最多 %d 个", En: "%s are %d; there may be at most %d"}
	sayStep      = talk.Say{Zh: "%s 里有一步是 %d 分钟；每一步要在 1 到 %d 之间",
		En: "%s has a step of %d minutes; each must be from 1 to %d"}
	sayWeights = talk.Say{Zh: "weights 有 %d 个数字；要有 %d 个，或者一个也没有，即用公开的那些",
		En: "weights are %d numbers; there must be %d, or none for the published ones"}
	sayWeight    = talk.Say{Zh: "weights：%v", En: "weights: %v"}
	sayEasyDay   = talk.Say{Zh: "easy_days 里有 %.20q；星期要写成 %s", En: "easy_days has %.20q; the days are %s"}
	sayObject    = talk.Say{Zh: "设置要是 JSON 对象：%v", En: "settings must be a JSON object: %v"}
	sayNoSetting = talk.Say{Zh: "没有设置 %.40q；有 %s", En: "there is no setting %.40q; there are %s"}
	sayMustBe    = talk.Say{Zh: "%s 要是%s", En: "%s must be %s"}

	sayWholes  = talk.Say{Zh: "整数的列表", En: "a list of whole numbers"}
	sayNumbers = talk.Say{Zh: "数字的列表", En: "a list of numbers"}
	sayDays    = talk.Say{Zh: `对象，例如 {"sat": 50, "sun": 0}`, En: `an object such as {"sat": 50, "sun": 0}`}
	sayText    = talk.Say{Zh: "文本", En: "a text"}
	sayTruth   = talk.Say{Zh: " true 或 false", En: "true or false"}
	sayWhole   = talk.Say{Zh: "整数", En: "a whole number"}
	sayNumber  = talk.Say{Zh: "数字", En: "a number"}
)

// Validate returns an error with one line per invalid setting.
func (s Settings) Validate() error {
	var errs []error
	bad := func(s talk.Say, args ...any) { errs = append(errs, s.Wrong(args...)) }
	number := func(name string, n, least, most int) {
		if n < least || n > most {
			bad(sayRange, name, n, least, most)
		}
	}
	if s.Schedule != Classic && s.Schedule != FSRS {
		bad(saySchedule, s.Schedule, FSRS, Classic)
	}
	if !(s.Retention >= minRetention && s.Retention <= maxRetention) { // so that NaN fails
		bad(sayRetention, s.Retention, minRetention, maxRetention)
	}
	number("max_interval", s.MaxInterval, 1, maxMaxInterval)
	minutes := func(name string, steps []int) {
		if len(steps) > maxSteps {
			bad(sayManySteps, name, len(steps), maxSteps)
		}
		if i := slices.IndexFunc(steps, func(n int) bool { return n < 1 || n > maxStep }); i >= 0 {
			bad(sayStep, name, steps[i], maxStep)
		}
	}
	minutes("steps", s.Steps)
	minutes("relearn", s.Relearn)
	if n := len(s.Weights); n != 0 && n != len(fsrs.Weights{}) {
		bad(sayWeights, n, len(fsrs.Weights{}))
	} else if err := s.weights().Validate(); err != nil {
		bad(sayWeight, err)
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
				bad(sayEasyDay, name, strings.Join(weekdays[:], ", "))
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
		return s, sayObject.Wrong(err)
	}
	next, def := s, Default()
	to, from := reflect.ValueOf(&next).Elem(), reflect.ValueOf(def)
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		i := slices.Index(names, name)
		if i < 0 {
			return s, sayNoSetting.Wrong(name, strings.Join(names, ", "))
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
			return s, sayMustBe.Wrong(name, expectedType(field.Type()))
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
func expectedType(t reflect.Type) talk.Say {
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Int {
			return sayWholes
		}
		return sayNumbers
	case reflect.Map:
		return sayDays
	case reflect.String:
		return sayText
	case reflect.Bool:
		return sayTruth
	case reflect.Int:
		return sayWhole
	}
	return sayNumber
}
