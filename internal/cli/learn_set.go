package cli

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"patchbay/internal/i18n"
)

// learnRules are the scheduling settings. They are strings, so that an empty one can remove a
// setting.
type learnRules struct {
	Schedule      *string `help:"Scheduling algorithm: fsrs (adapts to your memory) or classic (after 1, 7, 16 and 35 days)." placeholder:"NAME"`
	Retention     *string `help:"Desired retention: probability of recall when a point is due, from 0.80 to 0.97." placeholder:"SHARE"`
	NewPerDay     *string `help:"New points per day." placeholder:"N"`
	ReviewsPerDay *string `help:"Reviews of other points per day." placeholder:"N"`
	MaxInterval   *string `help:"Maximum interval between two reviews, in days." placeholder:"N"`
	Steps         *string `help:"Learning steps: minutes between the first reviews of a new point, such as 1,10; none: whole days." placeholder:"LIST"`
	Relearn       *string `help:"Relearning steps: the same for a forgotten point." placeholder:"LIST"`
	Leech         *string `help:"Number of lapses after which a point is marked as a leech; 0: never." placeholder:"N"`
	LeechSuspend  *string `help:"Suspend leeches: yes or no." placeholder:"YES"`
	Bury          *string `help:"Schedule related points on different days: yes or no." placeholder:"YES"`
	Balance       *string `help:"Move due points to days with fewer reviews: yes or no." placeholder:"YES"`
	EasyDays      *string `help:"Workload per weekday, in percent of a normal day, such as sat=50,sun=0." placeholder:"LIST"`
}

// changes returns the given settings in the format of the tools.
func (r learnRules) changes() (map[string]any, error) {
	out := map[string]any{}
	for _, s := range []struct {
		flag, name string
		text       *string
		read       func(string) (any, error)
	}{
		{"schedule", "schedule", r.Schedule, readWord},
		{"retention", "retention", r.Retention, readShare},
		{"new-per-day", "new_per_day", r.NewPerDay, readCount},
		{"reviews-per-day", "reviews_per_day", r.ReviewsPerDay, readCount},
		{"max-interval", "max_interval", r.MaxInterval, readCount},
		{"steps", "steps", r.Steps, readMinutes},
		{"relearn", "relearn", r.Relearn, readMinutes},
		{"leech", "leech", r.Leech, readCount},
		{"leech-suspend", "leech_suspend", r.LeechSuspend, readYes},
		{"bury", "bury", r.Bury, readYes},
		{"balance", "balance", r.Balance, readYes},
		{"easy-days", "easy_days", r.EasyDays, readDays},
	} {
		switch {
		case s.text == nil:
		case *s.text == "":
			out[s.name] = nil
		default:
			v, err := s.read(*s.text)
			if err != nil {
				return nil, usage(i18n.Message("--%s is %q; %v"), s.flag, *s.text, err)
			}
			out[s.name] = v
		}
	}
	return out, nil
}

func readWord(text string) (any, error) { return text, nil }

func readShare(text string) (any, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v < 1) {
		return nil, i18n.Message("give a share such as 0.9").Errorf()
	}
	return v, nil
}

func readCount(text string) (any, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return nil, i18n.Message("give a number such as 20").Errorf()
	}
	return n, nil
}

func readMinutes(text string) (any, error) {
	list := []int{}
	if text == "none" {
		return list, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil || n < 1 {
			return nil, i18n.Message("give minutes such as 1,10, or none").Errorf()
		}
		list = append(list, n)
	}
	return list, nil
}

func readYes(text string) (any, error) {
	switch strings.ToLower(text) {
	case "yes", "true", "on":
		return true, nil
	case "no", "false", "off":
		return false, nil
	}
	return nil, i18n.Message("say yes or no").Errorf()
}

func readDays(text string) (any, error) {
	days := map[string]int{}
	for part := range strings.SplitSeq(text, ",") {
		day, percent, _ := strings.Cut(strings.TrimSpace(part), "=")
		n, err := strconv.Atoi(percent)
		if err != nil {
			return nil, i18n.Message("give days such as sat=50,sun=0").Errorf()
		}
		days[strings.ToLower(day)] = n
	}
	return days, nil
}

type learnSetCmd struct {
	TimeZone   *string `help:"Time zone, such as Asia/Shanghai." placeholder:"ZONE"`
	DayStart   *string `help:"Start of the day, such as 04:00; reviews before it count for the previous day." placeholder:"TIME"`
	Remind     *string `help:"Time of the daily reminder, such as 20:00." placeholder:"TIME"`
	Via        *string `help:"Reminder channels: glasses, push, webhook, calendar, or a comma-separated list of them." placeholder:"WAYS"`
	Webhook    *string `help:"Webhook URL that reminders are posted to." placeholder:"URL"`
	Bot        *string `help:"Number or name of the bot that grades answers; none: no bot." placeholder:"BOT"`
	Strictness *string `help:"Strictness of the bot: lenient, normal or strict." placeholder:"WORD"`
	FitMonthly *string `help:"Fit the memory model to your reviews each month: yes or no." placeholder:"YES"`
	learnRules `embed:""`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnSetCmd) Help() string {
	return `Without flags it shows the settings. "" resets a setting to its default. The scheduling settings apply to all decks that do not override them (patchbay learn deck). Changing the scheduling algorithm reschedules all points and keeps their history.

Examples:

    patchbay learn set
    patchbay learn set --time-zone Asia/Shanghai --day-start 04:00 --new-per-day 10
    patchbay learn set --remind 20:00 --via glasses
    patchbay learn set --schedule classic
    patchbay learn set --remind ""`
}

// learnSettings are the scheduling settings.
type learnSettings struct {
	Schedule  string  `json:"schedule"`
	Retention float64 `json:"retention"`
	Max       int     `json:"max_interval"`
	Steps     []int   `json:"steps"`
	Relearn   []int   `json:"relearn"`
	New       int     `json:"new_per_day"`
	Reviews   int     `json:"reviews_per_day"`
	Leech     int     `json:"leech"`
}

// learnProfile holds a person's learning settings and values derived from them.
type learnProfile struct {
	Zone       string        `json:"time_zone"`
	DayStart   string        `json:"day_start"`
	Bot        string        `json:"bot"`
	Strictness string        `json:"strictness"`
	Remind     learnRemind   `json:"remind"`
	FitMonthly bool          `json:"fit_monthly"`
	Settings   learnSettings `json:"settings"`
}

// learnRemind says when and how a person is reminded of due points.
type learnRemind struct {
	At      string   `json:"at,omitempty"`
	Via     []string `json:"via,omitempty"`
	Webhook string   `json:"webhook,omitempty"`
}

const (
	msgLearnZone      = i18n.Message("Time zone")
	msgLearnDayStart  = i18n.Message("Day starts at")
	msgLearnRemind    = i18n.Message("Reminder")
	msgLearnJudge     = i18n.Message("Bot that judges")
	msgLearnStrict    = i18n.Message("Judges")
	msgLearnSchedule  = i18n.Message("SCHEDULE")
	msgLearnScheduled = i18n.Message("Schedule")
	msgLearnRetention = i18n.Message("Retention")
	msgLearnPerDay    = i18n.Message("New per day")
	msgLearnReviews   = i18n.Message("Reviews per day")
	msgLearnInterval  = i18n.Message("Longest interval (days)")
	msgLearnSteps     = i18n.Message("Steps of new points (min)")
	msgLearnRelearn   = i18n.Message("Steps after forgetting (min)")
	msgLearnLeech     = i18n.Message("Lapses of a leech")
	msgLearnFits      = i18n.Message("Fits the memory model")
	msgLearnMonthly   = i18n.Message("each month")
	msgLearnFirst     = i18n.Message("the first available model")
)

// Run prints or changes the settings.
func (c *learnSetCmd) Run(ctx context.Context, sh *shell) error {
	changes, err := c.all()
	if err != nil {
		return err
	}
	return c.open(ctx, sh, func(l learnCaller) error {
		tool := "get_learning_settings"
		if len(changes) > 0 {
			tool = "update_learning_settings"
		}
		var raw json.RawMessage
		if err := l.call(ctx, tool, changes, &raw); err != nil {
			return err
		}
		var p learnProfile
		if err := json.Unmarshal(raw, &p); err != nil {
			return err
		}
		return sh.result(raw, func() { sh.learnProfile(p) })
	})
}

// all returns all changes.
func (c *learnSetCmd) all() (map[string]any, error) {
	out := map[string]any{}
	for name, text := range map[string]*string{"time_zone": c.TimeZone, "day_start": c.DayStart, "bot": c.Bot,
		"strictness": c.Strictness} {
		switch {
		case text == nil:
		case *text == "":
			out[name] = nil
		default:
			out[name] = *text
		}
	}
	if c.FitMonthly != nil {
		out["fit_monthly"] = nil
		if *c.FitMonthly != "" {
			yes, err := readYes(*c.FitMonthly)
			if err != nil {
				return nil, usage(i18n.Message("--%s is %q; %v"), "fit-monthly", *c.FitMonthly, err)
			}
			out["fit_monthly"] = yes
		}
	}
	if remind := c.remind(); len(remind) > 0 {
		out["remind"] = remind
	}
	rules, err := c.changes()
	if len(rules) > 0 {
		out["defaults"] = rules
	}
	return out, err
}

// remind returns the changes of the reminder.
func (c *learnSetCmd) remind() map[string]any {
	out := map[string]any{}
	for name, text := range map[string]*string{"at": c.Remind, "webhook": c.Webhook} {
		switch {
		case text == nil:
		case *text == "":
			out[name] = nil
		default:
			out[name] = *text
		}
	}
	if c.Via != nil {
		out["via"] = strings.FieldsFunc(*c.Via, func(r rune) bool { return r == ',' || r == ' ' })
	}
	return out
}

func (sh *shell) learnProfile(p learnProfile) {
	remind := msgNever.In(sh.lang)
	if p.Remind.At != "" {
		remind = strings.TrimSpace(p.Remind.At + " " + strings.Join(p.Remind.Via, ", ") + " " + p.Remind.Webhook)
	}
	judge := p.Bot
	if judge == "" {
		judge = msgLearnFirst.In(sh.lang)
	}
	strictness := p.Strictness
	if strictness == "" {
		strictness = "normal"
	}
	fits := msgNever
	if p.FitMonthly {
		fits = msgLearnMonthly
	}
	s := p.Settings
	rows := []struct {
		name  i18n.Message
		value string
	}{
		{msgLearnZone, p.Zone}, {msgLearnDayStart, p.DayStart}, {msgLearnRemind, remind}, {msgLearnJudge, judge},
		{msgLearnStrict, strictness},
		{msgLearnScheduled, s.Schedule}, {msgLearnRetention, strconv.FormatFloat(s.Retention, 'g', 4, 64)},
		{msgLearnPerDay, strconv.Itoa(s.New)}, {msgLearnReviews, strconv.Itoa(s.Reviews)},
		{msgLearnInterval, strconv.Itoa(s.Max)},
		{msgLearnSteps, minutes(s.Steps)}, {msgLearnRelearn, minutes(s.Relearn)},
		{msgLearnLeech, strconv.Itoa(s.Leech)}, {msgLearnFits, fits.In(sh.lang)},
	}
	wide := 0
	for _, r := range rows {
		wide = max(wide, columns(r.name.In(sh.lang)))
	}
	for _, r := range rows {
		name := r.name.In(sh.lang)
		sh.printf("%s%s  %s\n", name, strings.Repeat(" ", wide-columns(name)), plain(r.value))
	}
}

// minutes formats learning steps.
func minutes(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ",")
}
