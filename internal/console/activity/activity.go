// Package activity serves the pages about past activity: turns, tool calls, charts of the last day,
// and the retention of records.
package activity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Routes returns the pages.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /activity", Serve: turns},
		{Pattern: "GET /activity/live", Serve: turnsLive},
		{Pattern: "POST /activity/keep", Access: page.Confirmed, Serve: keep},
		{Pattern: "GET /activity/turns/{turn}", Serve: turn},
		{Pattern: "GET /activity/turns/{turn}/sound/{part}", Serve: turnSound},
		{Pattern: "GET /activity/calls", Serve: calls},
		{Pattern: "GET /activity/calls/live", Serve: callsLive},
		{Pattern: "GET /activity/charts", Serve: charts},
		{Pattern: "GET /activity/privacy", Serve: privacy},
		{Pattern: "POST /activity/privacy/delete", Serve: forget},
	}
}

// recordKind describes a list of records: turns or calls.
type recordKind struct {
	path           string // the live updates are at this path with /live appended
	title, told    i18n.Message
	none, noneTold i18n.Message // shown if there are no records
	to             string       // path of the page where records come from
	toName         i18n.Message
}

var (
	turnRecords = recordKind{"/activity", msgTurns, msgTurnsTold, msgNoTurns, msgNoTurnsTold, "/bots", msgToBots}
	callRecords = recordKind{"/activity/calls", msgCalls, msgCallsTold, msgNoCalls, msgNoCallsTold,
		"/tools", msgToTools}
)

// turnRow and callRow return functions that render a record.
func turnRow(v *page.Visit, f filter) func(control.TurnRow) templ.Component {
	return func(t control.TurnRow) templ.Component { return oneTurn(v, f, t) }
}

func callRow(v *page.Visit, f filter) func(control.Call) templ.Component {
	return func(c control.Call) templ.Component { return oneCall(v, f, c) }
}

// each renders each record with row.
func each[T any](list []T, row func(T) templ.Component) []templ.Component {
	out := make([]templ.Component, len(list))
	for i := range list {
		out[i] = row(list[i])
	}
	return out
}

// rowID returns the element ID of a record's row. Record IDs may contain characters that CSS
// selectors do not allow.
func rowID(record string) string {
	sum := sha256.Sum256([]byte(record))
	return "r" + hex.EncodeToString(sum[:8])
}

// pageSize is the number of records on a page.
const pageSize = 50

// filter selects the records to show.
type filter struct {
	Bot       int64
	Channel   string
	Tool, Key string
	Outcome   string
	Day       string // as 2026-03-23
	Recorded  bool   // only turns with a recording
	Everybody bool   // all people's records; for administrators
	After     string
	Live      bool

	from, until time.Time
}

// readFilter reads the filter from the URL and ignores invalid values.
func readFilter(v *page.Visit) (f filter) {
	f.Bot, _ = strconv.ParseInt(v.FormValue("bot"), 10, 64) // invalid means none
	f.Channel, f.Tool, f.Key, f.After = v.FormValue("channel"), strings.TrimSpace(v.FormValue("tool")),
		v.FormValue("key"), v.FormValue("after")
	f.Outcome = v.FormValue("outcome")
	f.Recorded = v.FormValue("recorded") != ""
	f.Everybody = v.IsAdmin() && v.FormValue("everybody") != ""
	if day, err := time.ParseInLocation(time.DateOnly, v.FormValue("day"), v.Zone()); err == nil {
		f.Day, f.from, f.until = v.FormValue("day"), day, day.AddDate(0, 0, 1)
	}
	f.Live = v.FormValue("live") != "" && f.After == ""
	return f
}

// caller returns the caller that reads the records.
func (f *filter) caller(v *page.Visit) control.Caller {
	if f.Everybody {
		return v.Operator()
	}
	return v.Caller()
}

// isSet reports whether the filter excludes any record.
func (f *filter) isSet() bool {
	return f.Bot != 0 || f.Channel != "" || f.Tool != "" || f.Key != "" || f.Outcome != "" || f.Day != "" || f.Recorded ||
		f.Everybody
}

// path returns the URL of path with the filter and more pairs of names and values.
func (f *filter) path(path string, more ...string) string {
	q := url.Values{}
	if f.Bot != 0 {
		q.Set("bot", strconv.FormatInt(f.Bot, 10))
	}
	for _, field := range [][2]string{{"channel", f.Channel}, {"tool", f.Tool}, {"key", f.Key}, {"outcome", f.Outcome},
		{"day", f.Day}} {
		if field[1] != "" {
			q.Set(field[0], field[1])
		}
	}
	if f.Recorded {
		q.Set("recorded", "on")
	}
	if f.Everybody {
		q.Set("everybody", "on")
	}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// bots returns the bots that the filter offers.
func bots(v *page.Visit) ([]store.Bot, error) {
	return v.Instance.Control.BotChoices(v.Context(), v.Caller())
}

func (f *filter) turns(v *page.Visit, limit int) (control.TurnPage, error) {
	return v.Instance.Control.TurnsAsked(v.Context(), f.caller(v), control.TurnQuery{
		Bot: f.Bot, Channel: f.Channel, Outcome: f.Outcome, From: f.from, Until: f.until, Recorded: f.Recorded,
		After: f.After, Limit: limit,
	})
}

func turns(v *page.Visit) {
	f := readFilter(v)
	list, err := f.turns(v, pageSize)
	if err != nil {
		v.Fail(err)
		return
	}
	mine, err := bots(v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, turnsPage(v, f, list, mine))
}

func turn(v *page.Visit) {
	c := v.Caller()
	if v.FormValue("everybody") != "" {
		c = v.Operator()
	}
	d, err := v.Instance.Control.TurnRecord(v.Context(), c, control.TurnRef{Turn: v.PathValue("turn")})
	if err != nil {
		v.Fail(err)
		return
	}
	asks := false
	if d.Question == "" && d.Answer == "" && d.Owner == v.Session.Person.ID {
		mine, err := bots(v)
		if err != nil {
			v.Fail(err)
			return
		}
		asks = isAskedToKeep(v, mine)
	}
	failed, err := turnFailure(v, c, d)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, turnPage(v, d, failed, asks))
}

// turnFailure explains why a turn failed, to a caller who may read its record; nil: it has not. A
// turn that the person stopped has a cause, and is no failure.
func turnFailure(v *page.Visit, c control.Caller, d control.TurnDetail) (*page.TurnFailure, error) {
	if d.Code == "" && d.Outcome != "failed" {
		return nil, nil
	}
	b, err := v.Instance.Control.FindBot(v.Context(), c, strconv.FormatInt(d.Bot, 10))
	gone := problem.Is(err, problem.NotFound) // or somebody else's, who lets the caller ask it
	if err != nil && !gone {
		return nil, err
	}
	f := &talk.Failure{Code: talk.Code(d.Code), Cause: strings.TrimPrefix(d.Cause, d.Code+": ")}
	return page.NewTurnFailure(v, f, b, !gone || d.BotName == "" && d.Owner == v.Session.Person.ID), nil
}

// turnSound sends a sound of a recorded turn.
func turnSound(v *page.Visit) {
	file, err := v.Instance.Control.TurnSound(v.Context(), v.Caller(),
		control.TurnSoundRef{Turn: v.PathValue("turn"), Part: v.PathValue("part")})
	if err != nil {
		v.Fail(err)
		return
	}
	h := v.W.Header()
	h.Set("Content-Type", control.SoundOgg)
	h.Set("Cache-Control", "private, no-store")
	http.ServeContent(v.W, v.Request, "", time.Time{}, bytes.NewReader(file))
}

func (f *filter) calls(v *page.Visit, limit int) (control.CallPage, error) {
	return v.Instance.Control.Calls(v.Context(), f.caller(v), control.CallQuery{
		Tool: f.Tool, Key: f.Key, Bot: f.Bot, Outcome: f.Outcome, From: f.from, Before: f.until, After: f.After,
		Limit: limit,
	})
}

func calls(v *page.Visit) {
	f := readFilter(v)
	list, err := f.calls(v, pageSize)
	if err != nil {
		v.Fail(err)
		return
	}
	mine, err := bots(v)
	if err != nil {
		v.Fail(err)
		return
	}
	keys, err := v.Instance.Control.Keys(v.Context(), v.Caller(), control.KeyQuery{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, callsPage(v, f, list, mine, keys.Keys))
}

// outcome returns the state and the name of a turn's outcome.
func outcome(t store.Trace) (page.State, i18n.Message) {
	switch t.Outcome {
	case "done":
		return page.On, msgDone
	case "disconnected":
		return page.Wait, msgDisconnected
	}
	return page.Off, msgFailed
}

// callOutcome returns the state and the name of a call's outcome.
func callOutcome(c store.Call) (page.State, i18n.Message) {
	switch c.Outcome {
	case "done":
		return page.On, msgCallDone
	case "asked":
		return page.Wait, msgCallAsked
	case "tool_error":
		return page.Off, msgCallToolError
	case "refused":
		return page.Off, msgCallRefused
	}
	return page.Off, msgCallFailed
}

// turnOutcomes and callOutcomes are the outcomes that the filter offers.
var (
	turnOutcomes = []choice{{"", msgAnyOutcome}, {control.Wrong, msgWrong}, {"done", msgDone}, {"failed", msgFailed},
		{"disconnected", msgDisconnected}}
	callOutcomes = []choice{
		{"", msgAnyOutcome}, {control.Wrong, msgWrong}, {"done", msgCallDone}, {"tool_error", msgCallToolError},
		{"failed", msgCallFailed}, {"refused", msgCallRefused}, {"asked", msgCallAsked},
	}
)

type choice struct {
	value string
	say   i18n.Message
}

// botName returns the name of a bot, or its number if the bot was removed.
func botName(v *page.Visit, name string, number int64) string {
	if name == "" {
		return v.Text(msgBotOf, number)
	}
	return name
}

// formatMoment formats a time: the time of day for today, with the date otherwise.
func formatMoment(v *page.Visit, t time.Time) string {
	now, then := time.Now().In(v.Zone()), t.In(v.Zone())
	if now.YearDay() == then.YearDay() && now.Year() == then.Year() {
		return v.FormatClock(t)
	}
	return v.FormatDate(t)
}

// callerName returns who made a call.
func callerName(v *page.Visit, c control.Call) string {
	switch {
	case c.IsActorMachine():
		return v.Text(msgByMachine)
	case c.ActorName != "":
		return c.ActorName
	case c.IsActorOther():
		return v.Text(msgGonePerson)
	case c.Bot != 0:
		return botName(v, c.BotName, c.Bot)
	case c.KeyName != "":
		return c.KeyName
	case c.Key != "":
		return v.Text(msgGoneKey)
	case c.Person == v.Session.Person.ID:
		return v.Text(msgPersonSelf)
	}
	return c.PersonName
}
