package activity

import (
	"net/url"
	"slices"
	"strconv"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
)

// conversation is the turns of one conversation that are on a page, newest first.
type conversation []control.TurnRow

// conversations groups turns; the group of the newest turn comes first. Turns without a
// conversation are alone.
func conversations(list []control.TurnRow) (out []conversation) {
	at := map[[4]string]int{}
	for _, t := range list {
		key := [4]string{strconv.FormatInt(t.Bot, 10), t.Channel, t.Person, t.Conversation}
		i, known := at[key]
		if !known || t.Conversation == "" {
			i = len(out)
			out, at[key] = append(out, nil), i
		}
		out[i] = append(out[i], t)
	}
	return out
}

// wrong counts the turns without a good end.
func (c conversation) wrong() (n int) {
	for _, t := range c {
		if t.Outcome != "done" {
			n++
		}
	}
	return n
}

// conversationRows renders the turns by conversation. Live pages have one row for each turn.
func conversationRows(v *page.Visit, f filter, list []control.TurnRow) []templ.Component {
	if f.Live {
		return each(list, turnRow(v, f))
	}
	var out []templ.Component
	for _, c := range conversations(list) {
		if len(c) == 1 {
			out = append(out, oneTurn(v, f, c[0]))
		} else {
			out = append(out, oneConversation(v, f, c))
		}
	}
	return out
}

// undecided returns the bots about which nobody has said whether to keep what is said.
func undecided(v *page.Visit, mine []store.Bot) []store.Bot {
	return slices.DeleteFunc(slices.Clone(mine), func(b store.Bot) bool {
		return v.Instance.Control.KeepsContent(b) != nil
	})
}

// isAskedToKeep reports whether to ask if what is said is to be kept: nobody has decided that for
// any of the bots, and the installation does not keep it.
func isAskedToKeep(v *page.Visit, mine []store.Bot) bool {
	return len(mine) > 0 && len(undecided(v, mine)) == len(mine) && !v.Instance.Control.Retention.Content
}

// keep answers that question for all bots of the person that are there.
func keep(v *page.Visit) {
	mine, err := bots(v)
	if err != nil {
		v.Fail(err)
		return
	}
	decision := strconv.FormatBool(v.FormValue("keep") == "yes")
	for _, b := range undecided(v, mine) {
		if _, err := v.Instance.Control.ChangeBot(v.Context(), v.Caller(), control.BotChange{
			Bot: strconv.FormatInt(b.Number, 10), Settings: control.SettingTexts{"keep_content": decision}}); err != nil {
			v.Fail(err)
			return
		}
	}
	path := "/activity"
	if turn := v.FormValue("turn"); turn != "" {
		path += "/turns/" + url.PathEscape(turn)
	}
	if decision == "true" {
		path += "?kept=yes"
	}
	v.Redirect(path)
}
