package learn

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/plug/learn/schedule"
)

// settingsForm is the form of a person's settings.
type settingsForm struct {
	Zone, DayStart  string
	Here            string // time zone that applies if none is set
	Bot, Strictness string
	At, Webhook     string
	Via             []string
	Bots            []choice
	Rules           ruleForm
	Now             string // current time in that zone
	Wrong, Note     string
	Push            *pushPart // nil: browsers cannot be reminded
}

// zones are the suggested time zones: the largest of each region.
var zones = []string{
	"Asia/Shanghai", "Asia/Hong_Kong", "Asia/Taipei", "Asia/Singapore", "Asia/Tokyo", "Asia/Seoul", "Asia/Kolkata",
	"Asia/Dubai", "Asia/Bangkok", "Asia/Jakarta",
	"Australia/Sydney", "Pacific/Auckland", "Europe/London", "Europe/Berlin", "Europe/Paris", "Europe/Madrid",
	"Europe/Rome", "Europe/Moscow", "Europe/Istanbul",
	"Africa/Cairo", "Africa/Johannesburg", "Africa/Lagos", "America/New_York", "America/Chicago", "America/Denver",
	"America/Los_Angeles", "America/Toronto", "America/Mexico_City", "America/Sao_Paulo",
	"UTC",
}

// strictnesses are the levels of judging recalls.
var strictnesses = []choiceSay{{"", msgNormal}, {"lenient", msgLenient}, {"strict", msgStrict}}

// vias are the ways to deliver reminders.
var vias = []choiceSay{{"glasses", msgByGlasses}, {"push", msgByPush}, {"webhook", msgByWebhook},
	{"calendar", msgByCalendar}}

func (p *pages) settingsForm(v *page.Visit) (*settingsForm, error) {
	l, err := p.Points.Learner(v.Context(), personID(v))
	if err != nil {
		return nil, err
	}
	f := &settingsForm{
		Zone: l.Profile.Zone, DayStart: l.Profile.DayStart, Here: p.Points.Zone.String(), Bot: l.Profile.Bot,
		Strictness: l.Profile.Strictness,
		At:         l.Profile.Remind.At, Webhook: l.Profile.Remind.Webhook, Via: l.Profile.Remind.Via,
		Rules: ruleFormOf(l.Profile.Defaults, l.Settings(""), schedule.Default(), false),
		Now:   l.Now.In(l.Calendar.Zone).Format("15:04"),
	}
	if f.Push, err = p.pushOf(v); err != nil {
		return nil, err
	}
	bots, err := v.Instance.Control.BotStates(v.Context(), v.Caller())
	if err != nil {
		return nil, err
	}
	f.Bots = []choice{{"", v.Text(msgFirstModel)}, {"none", v.Text(msgNobody)}}
	known := f.Bot == "" || f.Bot == "none"
	for _, b := range bots {
		number := strconv.FormatInt(b.Number, 10)
		if f.Bot == b.Name || f.Bot == number {
			f.Bot, known = number, true
		}
		f.Bots = append(f.Bots, choice{number, b.Name})
	}
	if !known {
		f.Bots = append(f.Bots, choice{f.Bot, f.Bot})
	}
	return f, nil
}

// settings shows a person's settings.
func (p *pages) settings(v *page.Visit) {
	f, err := p.settingsForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	if v.FormValue("saved") != "" {
		f.Note = v.Text(msgSaved)
	}
	v.Render(ok, settingsPage(v, f))
}

// saveSettings saves the settings. A change of the schedule may take a while.
func (p *pages) saveSettings(v *page.Visit) {
	f, err := p.settingsForm(v)
	if err != nil {
		v.Fail(err)
		return
	}
	typed := func(name string) string { return strings.TrimSpace(v.FormValue(name)) }
	f.Zone, f.DayStart, f.Bot, f.Strictness, f.At, f.Webhook = typed("time_zone"), typed("day_start"), typed("bot"),
		typed("strictness"), typed("at"), typed("webhook")
	f.Via = v.Form["via"]
	rules, wrong := f.Rules.readChanges(v)
	if f.Zone != "" {
		if _, err := time.LoadLocation(f.Zone); err != nil || f.Zone == "Local" {
			wrong = v.Text(msgNoZone, f.Zone)
		}
	}
	if f.Webhook != "" && !strings.HasPrefix(f.Webhook, "https://") && !strings.HasPrefix(f.Webhook, "http://") {
		wrong = v.Text(msgBadWebhook)
	}
	if slices.Contains(f.Via, "webhook") && f.Webhook == "" {
		wrong = v.Text(msgNeedWebhook)
	}
	again := func(status int, wrong string) {
		f.Wrong = wrong
		v.Render(status, settingsPage(v, f))
	}
	if wrong != "" {
		refuse(v, http.StatusUnprocessableEntity, wrong, again)
		return
	}
	remind := map[string]any{"at": orNull(f.At), "webhook": orNull(f.Webhook), "via": f.Via}
	if len(f.Via) == 0 {
		remind["via"] = nil
	}
	changes, err := json.Marshal(map[string]any{
		"time_zone": orNull(f.Zone), "day_start": orNull(f.DayStart), "bot": orNull(f.Bot),
		"strictness": orNull(f.Strictness), "remind": remind, "defaults": rules,
	})
	if err != nil {
		v.Fail(err)
		return
	}
	save := func(ctx context.Context, progress func(done, total int)) error {
		return learnError(changeAudited(v, "update_learning_settings", json.RawMessage(changes), func() error {
			_, err := p.Points.SaveProfile(ctx, personID(v), changes, progress)
			return err
		}))
	}
	p.saveWithProgress(v, save, "/learn/settings?saved=1", again)
}

// orNull returns nil, which removes a setting, for an empty text.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
