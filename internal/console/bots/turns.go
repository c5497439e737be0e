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

// asked is the keys of a bot, and what it was asked.
type asked struct {
	Bot   control.BotStatus
	Keys  []store.Key
	Turns []store.Trace
	Next  string // where older turns are; empty: there are none
	Older bool   // this page is not the first
}

// turnsPage shows the keys of a bot, and what it was asked.
func turnsPage(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	q := control.BotTurnsQuery{Bot: v.PathValue("bot"), Turn: v.FormValue("turn")}
	if text := v.FormValue("before"); text != "" {
		var err error
		if q.Before, err = time.Parse(time.RFC3339Nano, text); err != nil {
			v.Missing()
			return
		}
	}
	list, err := v.House.Control.BotTurns(v.Context(), v.Caller(), q)
	if err != nil {
		v.Fail(err)
		return
	}
	keys, err := v.House.Control.BotKeys(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	a := asked{Bot: b, Keys: keys.Keys, Turns: list.Turns, Older: !q.Before.IsZero()}
	if list.More {
		t := list.Turns[len(list.Turns)-1]
		a.Next = fmt.Sprintf("%s?before=%s&turn=%s", at(b, "turns"), url.QueryEscape(t.At.Format(time.RFC3339Nano)), t.Turn)
	}
	v.Show(http.StatusOK, askedPage(v, a))
}

// revoke ends a key of a bot.
func revoke(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	if _, err := v.House.Control.RevokeBotKey(v.Context(), v.Caller(), control.BotKeyRef{Bot: v.PathValue("bot"), Key: v.PathValue("key")}); err != nil {
		v.Fail(err)
		return
	}
	v.To(at(b, "turns") + "?done=revoked")
}
