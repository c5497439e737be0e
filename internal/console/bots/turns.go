package bots

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
)

// turnsView is the data of the page with a bot's keys and turns.
type turnsView struct {
	Bot   control.BotStatus
	Keys  []store.Key
	Turns []control.TurnRow
	Next  string // path of the next page with older turns; empty if there are none
	Older bool   // not the first page
}

// turnsPage shows the keys and the turns of a bot.
func turnsPage(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	q := control.BotTurnsQuery{Bot: v.PathValue("bot"), Turn: v.FormValue("turn")}
	if text := v.FormValue("before"); text != "" {
		var err error
		if q.Before, err = time.Parse(time.RFC3339Nano, text); err != nil {
			v.NotFound()
			return
		}
	}
	list, err := v.Instance.Control.BotTurns(v.Context(), v.Caller(), q)
	if err != nil {
		v.Fail(err)
		return
	}
	keys, err := v.Instance.Control.BotKeys(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	a := turnsView{Bot: b, Keys: keys.Keys, Turns: list.Turns, Older: !q.Before.IsZero()}
	if list.More {
		t := list.Turns[len(list.Turns)-1]
		a.Next = fmt.Sprintf("%s?before=%s&turn=%s", botPath(b, "turns"),
			url.QueryEscape(t.At.Format(time.RFC3339Nano)), t.Turn)
	}
	v.Render(http.StatusOK, turnsListPage(v, a))
}

// revoke revokes a key of a bot.
func revoke(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	if _, err := v.Instance.Control.RevokeBotKey(v.Context(), v.Caller(),
		control.BotKeyRef{Bot: v.PathValue("bot"), Key: v.PathValue("key")}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(botPath(b, "turns") + "?done=revoked")
}
