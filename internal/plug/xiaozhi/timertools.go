package xiaozhi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Names of the tools for timers.
const (
	ToolTimerSet    = "timer_set"
	ToolTimerList   = "timer_list"
	ToolTimerCancel = "timer_cancel"
)

// TurnTools are the tools that a bot may use in a turn of the board, although its owner has not
// allowed it any.
var TurnTools = []string{ToolTimerSet, ToolTimerList, ToolTimerCancel, ToolControlMusic}

const (
	// maxTimerText limits what a timer says, in runes.
	maxTimerText = 200
	// localForm is how results show a local time.
	localForm = "Mon 2006-01-02 15:04:05"
	// maxTimerAhead limits how far ahead a timer can be.
	maxTimerAhead = 366 * 24 * time.Hour
)

// timerTools are the built-in tools for timers.
func timerTools(object func(required, properties string) json.RawMessage) []tool.Tool {
	yes := true
	return []tool.Tool{
		{
			Name: ToolTimerSet, Title: "Set a timer",
			Description: "Sets a timer or a reminder: the board rings and says the text when it is due, also after a restart. Give either seconds or at.",
			Input: object("", fmt.Sprintf(`"text":{"type":"string","maxLength":%d,"description":"What to remind of, in the language of the person; empty for a plain timer"},`, maxTimerText)+
				fmt.Sprintf(`"seconds":{"type":"integer","minimum":1,"maximum":%d,"description":"From now"},`, int(maxTimerAhead.Seconds()))+
				`"at":{"type":"string","maxLength":20,"description":"Local time: 07:00 for the next time it is that, tomorrow 07:00, or 2026-11-30 07:00"},`+
				`"repeat":{"type":"string","enum":["daily","weekdays"],"description":"Weekdays are Monday to Friday"},`+
				`"time_zone":{"type":"string","maxLength":64,"description":"Such as Asia/Shanghai, if it is not the usual one of the owner"}`),
		}, {
			Name: ToolTimerList, Title: "List timers",
			Description: "Lists the timers and reminders that are set at the board, the next one first, and the local time.",
			Input:       object("", ""), Hints: tool.ReadOnlyHints(),
		}, {
			Name: ToolTimerCancel, Title: "Cancel a timer", Description: "Cancels a timer or a reminder by its id, or all of them.",
			Input: object("", `"id":{"type":"integer","minimum":1},"all":{"type":"boolean"}`),
			Hints: tool.Hints{Idempotent: &yes},
		},
	}
}

// timerRow is a timer in a result.
type timerRow struct {
	ID      int64     `json:"id"`
	Text    string    `json:"text,omitempty"`
	Due     time.Time `json:"due_at"`
	Local   string    `json:"local"` // the same, at the place of the timer
	Seconds int       `json:"in_seconds"`
	Repeat  string    `json:"repeat,omitempty"`
}

func timerRowOf(r store.Timer, now time.Time) timerRow {
	zone, err := time.LoadLocation(r.Zone)
	if err != nil {
		zone = time.UTC
	}
	return timerRow{r.Number, r.Text, r.Due, r.Due.In(zone).Format(localForm),
		int(r.Due.Sub(now).Round(time.Second).Seconds()), r.Repeat}
}

// timerTool carries out a tool for timers. It does not need the board.
func (b *Board) timerTool(ctx context.Context, call *tool.Call, a toolArgs) (*tool.Result, error) {
	now := time.Now()
	switch call.Tool {
	case ToolTimerSet:
		return b.setTimer(ctx, a, now)
	case ToolTimerCancel:
		return b.cancelTimer(ctx, a)
	}
	list, err := b.boards.Store.Timers.Of(ctx, b.number)
	if err != nil {
		return nil, err
	}
	rows := make([]timerRow, len(list))
	for i, r := range list {
		rows[i] = timerRowOf(r, now)
	}
	return tool.JSON(map[string]any{"timers": rows, "now": now.In(b.zone(ctx)).Format(localForm)}), nil
}

// zone returns the time zone of the board's owner.
func (b *Board) zone(ctx context.Context) *time.Location {
	b.mu.Lock()
	owner := b.device.Owner
	b.mu.Unlock()
	if b.boards.Zone != nil {
		return b.boards.Zone(ctx, owner)
	}
	return time.UTC
}

func (b *Board) setTimer(ctx context.Context, a toolArgs, now time.Time) (*tool.Result, error) {
	zone := b.zone(ctx)
	if a.Zone != "" {
		z, err := time.LoadLocation(a.Zone)
		if err != nil || a.Zone == "Local" {
			return nil, tool.Fail(tool.BadArgs,
				"There is no time zone "+a.Zone+"; it should be like Asia/Shanghai.", err)
		}
		zone = z
	}
	due := now.Add(time.Duration(a.Seconds) * time.Second)
	switch {
	case (a.Seconds > 0) == (a.At != ""):
		return nil, tool.Fail(tool.BadArgs, "Give either seconds or at.", nil)
	case a.At != "":
		var err error
		if due, err = parseLocal(a.At, now.In(zone)); err != nil {
			return nil, err
		}
	}
	r := store.Timer{Device: b.number, Text: strings.TrimSpace(a.Text), Due: due, Repeat: a.Repeat, Zone: zone.String(),
		Clock: due.In(zone).Format(time.TimeOnly), Created: now}
	if weekend := due.In(zone).Weekday(); a.Repeat == store.RepeatWeekdays &&
		(weekend == time.Saturday || weekend == time.Sunday) {
		r.Due = r.Next(due)
	}
	r, err := b.boards.Store.Timers.Add(ctx, r)
	switch {
	case errors.Is(err, store.ErrFull):
		return nil, tool.Fail(tool.Busy, fmt.Sprintf("There are too many timers: %d of the board, or %d of its owner. Cancel some.",
			store.MaxTimers, store.MaxTimersOfOwner), nil)
	case err != nil:
		return nil, err
	}
	return tool.JSON(timerRowOf(r, now)), nil
}

// cutTomorrow returns the time of day that follows the word for tomorrow, in the languages of the
// console.
func cutTomorrow(text string) (clock string, ok bool) {
	for _, word := range []string{"tomorrow ", "明天", "明日"} {
		if clock, ok = strings.CutPrefix(text, word); ok {
			return strings.TrimSpace(clock), true
		}
	}
	return text, false
}

// fromNow matches a time from now in the languages of the console, such as "10 min".
var fromNow = regexp.MustCompile(
	`^(?:in )?(\d{1,4}) ?(?:(s|sec|seconds?|秒钟?)|(m|min|minutes?|分钟?)|(?:h|hours?|小时|个小时|時間))(?: ?(?:later|后|後))?$`)

// parseFromNow returns how long it is until a time from now.
func parseFromNow(text string) (d time.Duration, ok bool) {
	m := fromNow.FindStringSubmatch(text)
	if m == nil {
		return 0, false
	}
	n, _ := strconv.Atoi(m[1]) // it has four digits at most
	unit := time.Hour
	if m[2] != "" {
		unit = time.Second
	} else if m[3] != "" {
		unit = time.Minute
	}
	return time.Duration(n) * unit, n > 0
}

// toldNoTime is the error about a time that cannot be read.
const toldNoTime = "That is no local time. Give 07:00, tomorrow 07:00, 2026-11-30 07:00, or 10 minutes."

// parseLocal parses a local time: a time of day, which is the next one, or tomorrow's, or that of a
// date; or a time from now. Its error is a *[tool.Error].
func parseLocal(text string, now time.Time) (time.Time, error) {
	wrong := func(words string) (time.Time, error) { return now, tool.Fail(tool.BadArgs, words, nil) }
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	parse := func(text, date, between string) (at time.Time, ok bool) {
		for _, clock := range []string{"15:04", time.TimeOnly} {
			at, err := time.ParseInLocation(date+between+clock, text, now.Location())
			if err == nil {
				return at, true
			}
		}
		return at, false
	}
	if d, ok := parseFromNow(text); ok && d <= maxTimerAhead {
		return now.Add(d), nil
	}
	at, dated := parse(text, time.DateOnly, " ")
	if !dated {
		at, dated = parse(text, time.DateOnly, "t")
	}
	clock, tomorrow := cutTomorrow(text)
	if !dated {
		var ok bool
		if at, ok = parse(clock, "", ""); !ok {
			return wrong(toldNoTime)
		}
	}
	on := func(days int) time.Time {
		return time.Date(now.Year(), now.Month(), now.Day()+days, at.Hour(), at.Minute(), at.Second(), 0,
			now.Location())
	}
	switch {
	case dated && !at.After(now):
		return wrong("That is over: it is " + now.Format(localForm) + " now.")
	case dated && at.Sub(now) > maxTimerAhead:
		return wrong("That is more than a year ahead.")
	case dated:
		return at, nil
	case !tomorrow && on(0).After(now):
		return on(0), nil
	}
	return on(1), nil
}

func (b *Board) cancelTimer(ctx context.Context, a toolArgs) (*tool.Result, error) {
	if (a.ID > 0) == a.All {
		return nil, tool.Fail(tool.BadArgs, "Give either id or all.", nil)
	}
	ids := []int64{a.ID}
	if a.All {
		list, err := b.boards.Store.Timers.Of(ctx, b.number)
		if err != nil {
			return nil, err
		}
		ids = ids[:0]
		for _, r := range list {
			ids = append(ids, r.Number)
		}
	}
	n := 0
	for _, id := range ids {
		err := b.boards.Store.Timers.Remove(ctx, b.number, id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			n++
		}
	}
	if n == 0 && !a.All {
		return nil, tool.Fail(tool.BadArgs,
			fmt.Sprintf("There is no timer %d; %s lists them.", a.ID, ToolTimerList), nil)
	}
	return tool.JSON(map[string]any{"cancelled": n}), nil
}
