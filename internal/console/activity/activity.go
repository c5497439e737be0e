// Package activity is the pages of what has happened: turns, calls of tools, charts of the
// last day, and what is kept of all that.
package activity

import (
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
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Routes are the pages.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /activity", Serve: turns},
		{Pattern: "GET /activity/live", Serve: turnsLive},
		{Pattern: "GET /activity/turns/{turn}", Serve: turn},
		{Pattern: "GET /activity/calls", Serve: calls},
		{Pattern: "GET /activity/calls/live", Serve: callsLive},
		{Pattern: "GET /activity/charts", Serve: charts},
		{Pattern: "GET /activity/privacy", Serve: privacy},
		{Pattern: "POST /activity/privacy/delete", Serve: forget},
	}
}

// place is a list of records: turns, or calls.
type place struct {
	path           string // with /live behind it, what keeps it up to date
	title, told    talk.Say
	none, noneTold talk.Say // if there are no records
	to             string   // where there will be some
	toName         talk.Say
}

var (
	turnsPlace = place{"/activity", sayTurns, sayTurnsTold, sayNoTurns, sayNoTurnsTold, "/bots", sayToBots}
	callsPlace = place{"/activity/calls", sayCalls, sayCallsTold, sayNoCalls, sayNoCallsTold, "/tools", sayToTools}
)

// turnRow and callRow draw a record.
func turnRow(v *page.Visit, f filter) func(control.TurnRow) templ.Component {
	return func(t control.TurnRow) templ.Component { return oneTurn(v, f, t) }
}

func callRow(v *page.Visit, f filter) func(control.Call) templ.Component {
	return func(c control.Call) templ.Component { return oneCall(v, f, c) }
}

// each draws records.
func each[T any](list []T, row func(T) templ.Component) []templ.Component {
	out := make([]templ.Component, len(list))
	for i := range list {
		out[i] = row(list[i])
	}
	return out
}

// rowID is what the row of a record is called on its page: what records are called may
// have letters that no selector can have.
func rowID(record string) string {
	sum := sha256.Sum256([]byte(record))
	return "r" + hex.EncodeToString(sum[:8])
}

// rowsShown is how many records are on a page.
const rowsShown = 50

// filter is what somebody wants to see.
type filter struct {
	Bot       int64
	Door      string
	Tool, Key string
	Outcome   string
	Day       string // as 2026-03-23
	Everybody bool   // for whoever runs the installation
	After     string
	Live      bool

	from, until time.Time
}

// readFilter reads what is asked for in the address. What makes no sense is left out.
func readFilter(v *page.Visit) (f filter) {
	f.Bot, _ = strconv.ParseInt(v.FormValue("bot"), 10, 64) // what is no number is none
	f.Door, f.Tool, f.Key, f.After = v.FormValue("door"), strings.TrimSpace(v.FormValue("tool")), v.FormValue("key"), v.FormValue("after")
	f.Outcome = v.FormValue("outcome")
	f.Everybody = v.Admin() && v.FormValue("everybody") != ""
	if day, err := time.ParseInLocation(time.DateOnly, v.FormValue("day"), v.Zone()); err == nil {
		f.Day, f.from, f.until = v.FormValue("day"), day, day.AddDate(0, 0, 1)
	}
	f.Live = v.FormValue("live") != "" && f.After == ""
	return f
}

// caller is as whom the records are looked at.
func (f *filter) caller(v *page.Visit) control.Caller {
	if f.Everybody {
		return v.Operator()
	}
	return v.Caller()
}

// used says whether it excludes something.
func (f *filter) used() bool {
	return f.Bot != 0 || f.Door != "" || f.Tool != "" || f.Key != "" || f.Outcome != "" || f.Day != "" || f.Everybody
}

// at is an address with the filter, and some more names and values.
func (f *filter) at(path string, more ...string) string {
	q := url.Values{}
	if f.Bot != 0 {
		q.Set("bot", strconv.FormatInt(f.Bot, 10))
	}
	for _, field := range [][2]string{{"door", f.Door}, {"tool", f.Tool}, {"key", f.Key}, {"outcome", f.Outcome}, {"day", f.Day}} {
		if field[1] != "" {
			q.Set(field[0], field[1])
		}
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

// bots are those that can be chosen.
func bots(v *page.Visit) ([]store.Bot, error) {
	return v.House.Control.BotChoices(v.Context(), v.Caller())
}

func (f *filter) turns(v *page.Visit, limit int) (control.TurnPage, error) {
	return v.House.Control.Turns(v.Context(), f.caller(v), control.TurnQuery{
		Bot: f.Bot, Door: f.Door, Outcome: f.Outcome, From: f.from, Until: f.until, After: f.After, Limit: limit,
	})
}

func turns(v *page.Visit) {
	f := readFilter(v)
	list, err := f.turns(v, rowsShown)
	if err != nil {
		v.Fail(err)
		return
	}
	mine, err := bots(v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, turnsPage(v, f, list, mine))
}

func turn(v *page.Visit) {
	c := v.Caller()
	if v.FormValue("everybody") != "" {
		c = v.Operator()
	}
	d, err := v.House.Control.TurnRecord(v.Context(), c, control.TurnRef{Turn: v.PathValue("turn")})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, turnPage(v, d))
}

func (f *filter) calls(v *page.Visit, limit int) (control.CallPage, error) {
	return v.House.Control.Calls(v.Context(), f.caller(v), control.CallQuery{
		Tool: f.Tool, Key: f.Key, Bot: f.Bot, Outcome: f.Outcome, From: f.from, Before: f.until, After: f.After, Limit: limit,
	}, "")
}

func calls(v *page.Visit) {
	f := readFilter(v)
	list, err := f.calls(v, rowsShown)
	if err != nil {
		v.Fail(err)
		return
	}
	mine, err := bots(v)
	if err != nil {
		v.Fail(err)
		return
	}
	keys, err := v.House.Control.Keys(v.Context(), v.Caller(), control.KeyQuery{})
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, callsPage(v, f, list, mine, keys.Keys))
}

// door is where something came from, in words.
func door(v *page.Visit, name string) string {
	for _, d := range doors {
		if d.name == name {
			return v.Say(d.say)
		}
	}
	return name
}

// outcome is how a turn ended.
func outcome(t store.Trace) (page.State, talk.Say) {
	switch t.Outcome {
	case "done":
		return page.On, sayDone
	case "hung_up":
		return page.Wait, sayHungUp
	}
	return page.Off, sayFailed
}

// callOutcome is how a call ended.
func callOutcome(c store.Call) (page.State, talk.Say) {
	switch c.Outcome {
	case "done":
		return page.On, sayCallDone
	case "asked":
		return page.Wait, sayCallAsked
	case "trouble":
		return page.Off, sayCallTrouble
	case "refused":
		return page.Off, sayCallRefused
	}
	return page.Off, sayCallFailed
}

// turnOutcomes and callOutcomes are what can be chosen.
var (
	turnOutcomes = []choice{{"", sayAnyOutcome}, {control.Wrong, sayWrong}, {"done", sayDone}, {"failed", sayFailed}, {"hung_up", sayHungUp}}
	callOutcomes = []choice{
		{"", sayAnyOutcome}, {control.Wrong, sayWrong}, {"done", sayCallDone}, {"trouble", sayCallTrouble},
		{"failed", sayCallFailed}, {"refused", sayCallRefused}, {"asked", sayCallAsked},
	}
)

type choice struct {
	value string
	say   talk.Say
}

// botName is what a bot is called; one that is gone has its number still.
func botName(v *page.Visit, name string, number int64) string {
	if name == "" {
		return v.Say(sayBotOf, number)
	}
	return name
}

// moment is when something was: today's by the clock, with the day otherwise.
func moment(v *page.Visit, t time.Time) string {
	now, then := time.Now().In(v.Zone()), t.In(v.Zone())
	if now.YearDay() == then.YearDay() && now.Year() == then.Year() {
		return v.Clock(t)
	}
	return v.Date(t)
}

// who is by whom a call was made.
func who(v *page.Visit, c control.Call) string {
	switch {
	case c.ByMachine():
		return v.Say(sayByMachine)
	case c.ActorName != "":
		return c.ActorName
	case c.ByOther():
		return v.Say(sayGonePerson)
	case c.Bot != 0:
		return botName(v, c.BotName, c.Bot)
	case c.KeyName != "":
		return c.KeyName
	case c.Key != "":
		return v.Say(sayGoneKey)
	case c.Person == v.Who.Person.ID:
		return v.Say(sayPersonSelf)
	}
	return c.PersonName
}
