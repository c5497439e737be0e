package learn

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn/schedule"
)

// rule is a scheduling setting of one deck or of all.
type rule struct {
	name        string
	label, hint i18n.Message
	// read converts the submitted text to a JSON value.
	read func(string) (any, bool)
	// shown formats the value for the input.
	shown func(s schedule.Settings) string
	// choices are the allowed values; nil means free input.
	choices     []choiceSay
	kind        string // type of the input
	least, most int    // limits of a number
	wide        bool   // advanced; shown separately
}

type choiceSay struct {
	value string
	name  i18n.Message
}

var yesNo = []choiceSay{{"true", msgYes}, {"false", msgNo}}

// rules are the settings in the order of the form; those of weekdays follow.
var rules = []rule{
	{
		name: "schedule", label: msgSchedule, hint: msgScheduleHint, read: readWord,
		shown:   func(s schedule.Settings) string { return s.Schedule },
		choices: []choiceSay{{schedule.FSRS, msgFSRS}, {schedule.Classic, msgClassic}},
	},
	{name: "retention", label: msgRetentionWanted, hint: msgRetentionHint, read: readPercent, kind: "number", least: 80,
		most: 97, shown: func(s schedule.Settings) string {
			return strconv.FormatFloat(s.Retention*100, 'g', 4, 64)
		}},
	{name: "new_per_day", label: msgNewPerDay, hint: msgNewPerDayHint, read: readCount(0, 9999),
		kind: "number", least: 0, most: 9999,
		shown: func(s schedule.Settings) string { return strconv.Itoa(s.NewPerDay) }},
	{name: "reviews_per_day", label: msgReviewsPerDay, hint: msgReviewsPerDayHint, read: readCount(0, 9999),
		kind: "number", least: 0, most: 9999,
		shown: func(s schedule.Settings) string { return strconv.Itoa(s.ReviewsPerDay) }},
	{name: "steps", label: msgSteps, hint: msgStepsHint, read: readMinutes,
		kind: "text", shown: func(s schedule.Settings) string { return minutes(s.Steps) }},
	{name: "relearn", label: msgRelearn, hint: msgRelearnHint, read: readMinutes,
		kind: "text", shown: func(s schedule.Settings) string { return minutes(s.Relearn) }},
	{name: "max_interval", label: msgMaxInterval, hint: msgMaxIntervalHint, read: readCount(1, 36500),
		kind: "number", least: 1, most: 36500,
		shown: func(s schedule.Settings) string { return strconv.Itoa(s.MaxInterval) }},
	{name: "leech", label: msgLeechAfter, hint: msgLeechHint, read: readCount(0, 99), kind: "number", least: 0,
		most: 99, shown: func(s schedule.Settings) string { return strconv.Itoa(s.Leech) }},
	{name: "leech_suspend", label: msgLeechSuspend, hint: msgLeechSuspendHint, read: readYes, choices: yesNo,
		shown: func(s schedule.Settings) string { return strconv.FormatBool(s.LeechSuspend) }},
	{name: "bury", label: msgBury, hint: msgBuryHint, read: readYes, choices: yesNo,
		shown: func(s schedule.Settings) string { return strconv.FormatBool(s.Bury) }},
	{name: "balance", label: msgBalance, hint: msgBalanceHint, read: readYes, choices: yesNo,
		shown: func(s schedule.Settings) string { return strconv.FormatBool(s.Balance) }},
	{name: "weights", label: msgWeights, hint: msgWeightsHint, read: readNumbers, kind: "text", wide: true,
		shown: func(s schedule.Settings) string { return numbers(s.Weights) }},
}

// days are the weekdays as named in the settings.
var days = []choiceSay{{"mon", msgMonday}, {"tue", msgTuesday}, {"wed", msgWednesday}, {"thu", msgThursday},
	{"fri", msgFriday}, {"sat", msgSaturday}, {"sun", msgSunday}}

func readWord(text string) (any, bool) { return text, true }

func readPercent(text string) (any, bool) {
	n, err := strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64)
	return n / 100, err == nil && n >= 80 && n <= 97
}

func readCount(least, most int) func(string) (any, bool) {
	return func(text string) (any, bool) {
		n, err := strconv.Atoi(text)
		return n, err == nil && n >= least && n <= most
	}
}

func readYes(text string) (any, bool) { return text == "true", text == "true" || text == "false" }

func readMinutes(text string) (any, bool) {
	list := []int{}
	if text == "-" {
		return list, true
	}
	for _, part := range tagsOf(strings.ReplaceAll(text, " ", ",")) {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 || n > 7*24*60 {
			return nil, false
		}
		list = append(list, n)
	}
	return list, len(list) <= 10
}

func readNumbers(text string) (any, bool) {
	list := []float64{}
	for _, part := range tagsOf(strings.ReplaceAll(text, " ", ",")) {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return nil, false
		}
		list = append(list, n)
	}
	return list, len(list) == 21
}

// minutes formats learning steps for the input.
func minutes(list []int) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}

func numbers(list []float64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}

// ruleForm is the form of the scheduling settings.
type ruleForm struct {
	Values map[string]string // by name; weekdays as easy_days.mon
	// Defaults are the values that apply where nothing is set.
	Defaults schedule.Settings
	Deck     bool // settings of one deck, not of all
}

// ruleFormOf returns the form for the settings in own, which is a JSON object.
func ruleFormOf(own json.RawMessage, all, usual schedule.Settings, deck bool) ruleForm {
	f := ruleForm{Values: map[string]string{}, Defaults: usual, Deck: deck}
	var decided map[string]json.RawMessage
	json.Unmarshal(own, &decided) //nolint:errcheck // invalid means nothing is set
	for _, r := range rules {
		if _, is := decided[r.name]; is {
			f.Values[r.name] = r.shown(all)
		}
	}
	if _, is := decided["easy_days"]; is {
		for _, d := range days {
			if percent, is := all.EasyDays[d.value]; is {
				f.Values["easy_days."+d.value] = strconv.Itoa(percent)
			}
		}
	}
	return f
}

// readChanges reads the form. It returns the changes in the format of the service, where null
// removes a setting.
func (f *ruleForm) readChanges(v *page.Visit) (changes map[string]any, wrong string) {
	f.Values = map[string]string{}
	changes = map[string]any{}
	for _, r := range rules {
		text := strings.TrimSpace(v.FormValue(r.name))
		f.Values[r.name] = text
		if text == "" {
			changes[r.name] = nil
			continue
		}
		value, fine := r.read(text)
		if !fine && wrong == "" {
			wrong = v.Text(msgBadRule, v.Text(r.label), v.Text(r.hint))
		}
		changes[r.name] = value
	}
	easy := map[string]int{}
	for _, d := range days {
		name := "easy_days." + d.value
		text := strings.TrimSpace(v.FormValue(name))
		f.Values[name] = text
		if text == "" {
			continue
		}
		percent, err := strconv.Atoi(text)
		if (err != nil || percent < 0 || percent > 100) && wrong == "" {
			wrong = v.Text(msgBadRule, v.Text(d.name), v.Text(msgEasyDaysHint))
		}
		easy[d.value] = percent
	}
	changes["easy_days"] = nil
	if len(easy) > 0 {
		changes["easy_days"] = easy
	}
	return changes, wrong
}

// defaultText describes the default of a rule.
func (f *ruleForm) defaultText(v *page.Visit, r rule) string {
	text := r.shown(f.Defaults)
	for _, c := range r.choices {
		if c.value == text {
			text = v.Text(c.name)
		}
	}
	if f.Deck {
		return v.Text(msgAsAll, text)
	}
	return v.Text(msgUsually, text)
}
