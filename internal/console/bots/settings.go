package bots

import (
	"net/http"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// settingsOf is the form of a bot as it is set. If that failed, it was answered.
func settingsOf(v *page.Visit, b control.BotStatus) (form, bool) {
	list, set, err := v.House.Control.BotSettings(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return form{}, false
	}
	f := formOf(list, set)
	f.Name, f.Description = b.Name, b.Description
	return f, true
}

// settingsPage shows what is set about a bot.
func settingsPage(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	if f, ok := settingsOf(v, b); ok {
		v.Show(http.StatusOK, changePage(v, b, f))
	}
}

// change changes what is set about a bot.
func change(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	f, ok := settingsOf(v, b)
	if !ok {
		return
	}
	in := control.BotChange{Bot: v.PathValue("bot"), Settings: f.typed(v)}
	if f.Name != b.Name {
		in.Name = &f.Name
	}
	if f.Description != b.Description {
		in.Description = &f.Description
	}
	changed, err := v.House.Control.ChangeBot(v.Context(), v.Caller(), in)
	if err != nil {
		wrong(v, err, func(status int, text string) {
			f.blame(v, text)
			v.Show(status, changePage(v, b, f))
		})
		return
	}
	if changed.Notice != "" { // it is about this change, so only this answer shows it
		if f, ok = settingsOf(v, changed.BotStatus); ok {
			f.Notice = changed.Notice
			v.Show(http.StatusOK, changePage(v, changed.BotStatus, f))
		}
		return
	}
	v.To(at(b, "settings") + "?done=saved")
}

// rotatePage asks whether a bot is to have another token.
func rotatePage(v *page.Visit) {
	if b, ok := find(v); ok {
		v.Show(http.StatusOK, askRotate(v, b))
	}
}

// rotate gives a bot another token, and shows it.
func rotate(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	r, err := v.House.Control.RotateBot(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, tokenPage(v, b, r.SDKToken, v.Say(sayRotated, b.Name)))
}

// removePage asks whether a bot is to be removed.
func removePage(v *page.Visit) {
	b, err := v.House.Control.Bot(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(http.StatusOK, askRemove(v, b))
}

// remove removes a bot.
func remove(v *page.Visit) {
	if _, err := v.House.Control.RemoveBot(v.Context(), v.Caller(), ref(v)); err != nil {
		v.Fail(err)
		return
	}
	v.To("/bots?done=removed")
}
