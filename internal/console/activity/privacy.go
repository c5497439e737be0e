package activity

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// retentionRow is one line of the retention table.
type retentionRow struct {
	what    i18n.Message
	setting string
	now     string
}

// retentionRows returns the retention settings as rows.
func retentionRows(v *page.Visit, k control.RetentionPolicy) []retentionRow {
	yes := func(b bool, no i18n.Message) string {
		if b {
			return v.Text(msgKeptYes)
		}
		return v.Text(no)
	}
	return []retentionRow{
		{msgKeepTurns, "trace.keep", formatSpan(v, k.Traces)},
		{msgKeepContent, "trace.content", yes(k.Content, msgKeptNo)},
		{msgKeepHistory, "history.keep", formatSpan(v, k.Exchanges)},
		{msgKeepTold, "history.turns", v.Text(msgHowMany, k.HistoryTurns)},
		{msgKeepCalls, "audit.keep", formatSpan(v, k.Calls)},
		{msgKeepArgs, "audit.args", yes(k.Args, msgKeptNoArgs)},
		{msgKeepPictures, "media.keep", formatSpan(v, k.Pictures)},
	}
}

// formatSpan formats a retention period.
func formatSpan(v *page.Visit, d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return v.Text(msgForDays, int(d/(24*time.Hour)))
	case d >= 2*time.Hour:
		return v.Text(msgForHours, int(d/time.Hour))
	}
	return v.Text(msgForMinutes, int(d/time.Minute))
}

// botRetention lists the bots whose owner has set another retention for conversation text.
type botRetention struct {
	store.Bot
	keeps bool
}

func botRetentions(v *page.Visit, mine []store.Bot) (out []botRetention) {
	for _, b := range mine {
		if keeps := v.Instance.Control.KeepsContent(b); keeps != nil {
			out = append(out, botRetention{b, *keeps})
		}
	}
	return out
}

// deletion holds the submitted deletion form and its result.
type deletion struct {
	control.Forgetting
	Wrong string
	Done  *control.Forgotten
}

func privacy(v *page.Visit) {
	var d deletion
	if v.FormValue("deleted") != "" {
		d.Done = &control.Forgotten{Said: number(v, "said"), Turns: number(v, "turns"),
			Arguments: number(v, "arguments")}
	}
	showPrivacy(v, http.StatusOK, d)
}

func number(v *page.Visit, name string) int64 {
	n, _ := strconv.ParseInt(v.FormValue(name), 10, 64) // invalid means none
	return max(n, 0)
}

func showPrivacy(v *page.Visit, status int, d deletion) {
	mine, err := bots(v)
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(status, privacyPage(v, retentionRows(v, v.Instance.Control.Retention), botRetentions(v, mine), mine, d))
}

func forget(v *page.Visit) {
	d := deletion{Forgetting: control.Forgetting{
		Bot: number(v, "bot"), Said: v.FormValue("said") != "", Turns: v.FormValue("turns") != "",
		Arguments: v.FormValue("arguments") != "",
	}}
	if v.FormValue("sure") == "" {
		d.Wrong = v.Text(msgConfirmFirst)
		showPrivacy(v, http.StatusUnprocessableEntity, d)
		return
	}
	gone, err := v.Instance.Control.Forget(v.Context(), v.Caller(), d.Forgetting)
	if err != nil {
		text, status := v.Wrong(err)
		d.Wrong = text
		showPrivacy(v, status, d)
		return
	}
	v.Redirect("/activity/privacy?" + url.Values{
		"deleted": {"yes"}, "said": {strconv.FormatInt(gone.Said, 10)}, "turns": {strconv.FormatInt(gone.Turns, 10)},
		"arguments": {strconv.FormatInt(gone.Arguments, 10)},
	}.Encode())
}
