package activity

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"patchbay/internal/board"
	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// kept is a line of what is kept.
type kept struct {
	what    talk.Say
	setting string
	now     string
}

// keptNow is what the settings say.
func keptNow(v *page.Visit, k control.Keeping) []kept {
	yes := func(b bool, no talk.Say) string {
		if b {
			return v.Say(sayKeptYes)
		}
		return v.Say(no)
	}
	return []kept{
		{sayKeepTurns, "trace.keep", span(v, k.Traces)},
		{sayKeepContent, "trace.content", yes(k.Content, sayKeptNo)},
		{sayKeepHistory, "history.keep", span(v, k.Exchanges)},
		{sayKeepTold, "history.turns", v.Say(sayHowMany, k.Told)},
		{sayKeepCalls, "audit.keep", span(v, k.Calls)},
		{sayKeepArgs, "audit.args", yes(k.Args, sayKeptNoArgs)},
		{sayKeepPictures, "media.keep", span(v, k.Pictures)},
	}
}

// span is how long something is kept.
func span(v *page.Visit, d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return v.Say(sayForDays, int(d/(24*time.Hour)))
	case d >= 2*time.Hour:
		return v.Say(sayForHours, int(d/time.Hour))
	}
	return v.Say(sayForMinutes, int(d/time.Minute))
}

// otherwise are the bots whose owner decided otherwise about what is said.
type otherwise struct {
	store.Bot
	keeps bool
}

func others(v *page.Visit, mine []store.Bot) (out []otherwise) {
	for _, b := range mine {
		var c board.Common
		if v.House.Control.Board.Registry.Settings(b, &c) == nil && c.KeepContent != nil {
			out = append(out, otherwise{b, *c.KeepContent})
		}
	}
	return out
}

// deletion is what was chosen in the form, and what came of it.
type deletion struct {
	control.Forgetting
	Wrong string
	Done  *control.Forgotten
}

func privacy(v *page.Visit) {
	var d deletion
	if v.FormValue("deleted") != "" {
		d.Done = &control.Forgotten{Said: number(v, "said"), Turns: number(v, "turns"), Arguments: number(v, "arguments")}
	}
	showPrivacy(v, http.StatusOK, d)
}

func number(v *page.Visit, name string) int64 {
	n, _ := strconv.ParseInt(v.FormValue(name), 10, 64) // what is no number is none
	return max(n, 0)
}

func showPrivacy(v *page.Visit, status int, d deletion) {
	mine, err := bots(v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(status, privacyPage(v, keptNow(v, v.House.Control.Keeping), others(v, mine), mine, d))
}

func forget(v *page.Visit) {
	d := deletion{Forgetting: control.Forgetting{
		Bot: number(v, "bot"), Said: v.FormValue("said") != "", Turns: v.FormValue("turns") != "", Arguments: v.FormValue("arguments") != "",
	}}
	if v.FormValue("sure") == "" {
		d.Wrong = v.Say(sayConfirmFirst)
		showPrivacy(v, http.StatusUnprocessableEntity, d)
		return
	}
	gone, err := v.House.Control.Forget(v.Context(), v.Caller(), d.Forgetting)
	if err != nil {
		text, status := v.Wrong(err)
		d.Wrong = text
		showPrivacy(v, status, d)
		return
	}
	v.To("/activity/privacy?" + url.Values{
		"deleted": {"yes"}, "said": {strconv.FormatInt(gone.Said, 10)}, "turns": {strconv.FormatInt(gone.Turns, 10)}, "arguments": {strconv.FormatInt(gone.Arguments, 10)},
	}.Encode())
}
