package schedule

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"patchbay/internal/plug/learn/fsrs"
)

func TestValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Fatal(err)
	}
	weights := func(n int) []float64 {
		return append(make([]float64, 0, 30), append(fsrs.Published[:], 1, 2, 3)[:n]...)
	}
	wild := weights(21)
	wild[20] = 7
	for _, c := range []struct {
		name string
		f    func(*Settings)
		want string // expected in the error; empty: no error
	}{
		{"schedule", func(s *Settings) { s.Schedule = "sm2" }, `schedule is "sm2"`},
		{"classic", func(s *Settings) { s.Schedule = Classic }, ""},
		{"retention low", func(s *Settings) { s.Retention = 0.79 }, "from 0.80 to 0.97"},
		{"retention high", func(s *Settings) { s.Retention = 0.98 }, "retention is 0.98"},
		{"retention none", func(s *Settings) { s.Retention = math.NaN() }, "retention is NaN"},
		{"retention ends", func(s *Settings) { s.Retention = 0.97 }, ""},
		{"interval low", func(s *Settings) { s.MaxInterval = 0 }, "max_interval is 0; it must be from 1 to 36500"},
		{"interval high", func(s *Settings) { s.MaxInterval = 36501 }, "max_interval"},
		{"step low", func(s *Settings) { s.Steps = []int{1, 0} }, "steps has a step of 0 minutes"},
		{"step high", func(s *Settings) { s.Relearn = []int{10081} }, "relearn has a step of 10081 minutes"},
		{"steps fall", func(s *Settings) { s.Steps = []int{10, 1} }, ""},
		{"many steps", func(s *Settings) { s.Steps = []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1} }, "at most 10"},
		{"no steps", func(s *Settings) { s.Steps, s.Relearn = nil, nil }, ""},
		{"20 weights", func(s *Settings) { s.Weights = weights(20) }, "weights are 20 numbers; there must be 21"},
		{"21 weights", func(s *Settings) { s.Weights = weights(21) }, ""},
		{"22 weights", func(s *Settings) { s.Weights = weights(22) }, "22 numbers"},
		{"wild weight", func(s *Settings) { s.Weights = wild }, "weights: w20 is 7; it must be from 0.1 to 0.8"},
		{"new", func(s *Settings) { s.NewPerDay = -1 }, "new_per_day is -1"},
		{"reviews", func(s *Settings) { s.ReviewsPerDay = 10000 }, "reviews_per_day is 10000"},
		{"no reviews", func(s *Settings) { s.NewPerDay, s.ReviewsPerDay, s.Leech = 0, 0, 0 }, ""},
		{"leech", func(s *Settings) { s.Leech = 100 }, "leech is 100; it must be from 0 to 99"},
		{"weekday", func(s *Settings) { s.EasyDays = map[string]int{"sunday": 0} },
			`easy_days has "sunday"; the days are sun, mon`},
		{"percent", func(s *Settings) { s.EasyDays = map[string]int{"sun": 101} }, "easy_days.sun is 101"},
		{"easy", func(s *Settings) { s.EasyDays = map[string]int{"sun": 0, "sat": 100} }, ""},
	} {
		s := Default()
		c.f(&s)
		err := s.Validate()
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	s := Default()
	s.Leech, s.Retention = 100, 1
	if err := s.Validate(); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two faults: %v", err)
	}
}

func TestWith(t *testing.T) {
	base := Default()
	base.EasyDays = map[string]int{"sun": 0}
	base.Retention, base.Steps = 0.85, []int{5}
	for _, c := range []struct {
		patch string
		want  func(*Settings)
		err   string
	}{
		{"", nil, ""},
		{" null ", nil, ""},
		{"{}", nil, ""},
		{`{"retention": 0.92, "schedule": "classic"}`, func(s *Settings) { s.Retention, s.Schedule = 0.92, Classic },
			""},
		{`{"retention": null, "steps": null, "easy_days": null}`,
			func(s *Settings) { s.Retention, s.Steps, s.EasyDays = 0.9, []int{1, 10}, nil }, ""},
		{`{"easy_days": {"sat": 50}}`, func(s *Settings) { s.EasyDays = map[string]int{"sat": 50} }, ""},
		{`{"steps": [7, 8, 9], "bury": false}`, func(s *Settings) { s.Steps, s.Bury = []int{7, 8, 9}, false }, ""},
		{`{"steps": []}`, func(s *Settings) { s.Steps = []int{} }, ""},
		{`[]`, nil, "settings must be a JSON object"},
		{`{"a":1} x`, nil, "settings must be a JSON object"},
		{`{"retentoin": 0.9}`, nil, `there is no setting "retentoin"; there are schedule, retention,`},
		{`{"Retention": 0.9}`, nil, `there is no setting "Retention"`},
		{`{"retention": "high"}`, nil, "retention must be a number"},
		{`{"max_interval": 1.5}`, nil, "max_interval must be a whole number"},
		{`{"steps": 10}`, nil, "steps must be a list of whole numbers"},
		{`{"weights": {}}`, nil, "weights must be a list of numbers"},
		{`{"easy_days": ["sun"]}`, nil, "easy_days must be an object"},
		{`{"bury": 1}`, nil, "bury must be true or false"},
		{`{"schedule": 1}`, nil, "schedule must be a text"},
		{`{"retention": 0.5}`, nil, "retention is 0.5"},
		{`{"steps": [null]}`, nil, "a step of 0 minutes"},
	} {
		before, _ := json.Marshal(base)
		got, err := base.With([]byte(c.patch))
		if after, _ := json.Marshal(base); string(after) != string(before) {
			t.Fatalf("%s: changed what it came from: %s", c.patch, after)
		}
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || !reflect.DeepEqual(got, base) {
				t.Errorf("%s: %v", c.patch, err)
			}
			continue
		}
		want := base
		if c.want != nil {
			c.want(&want)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", c.patch, got, err)
		}
	}
}

func FuzzWith(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"retention": 0.92, "schedule": "classic"}`, `{"steps": [7, 8], "easy_days": {"sat": 50}}`,
		`{"weights": [1], "x": 2}`, `{"retention": null, "steps": null, "leech": 1e9}`, `[`, `{"easy_days": {"": -1}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, patch []byte) {
		s, err := Default().With(patch)
		if err != nil {
			if len(err.Error()) > 5000 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		// Encoded settings decode to the same settings.
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Default().With(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if second, _ := json.Marshal(again); string(second) != string(text) {
			t.Errorf("%s, and then %s", text, second)
		}
	})
}
