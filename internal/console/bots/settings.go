package bots

import (
	"net/http"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
)

// settingsOf returns the form with a bot's current settings. On failure it has responded and
// returns false.
func settingsOf(v *page.Visit, b control.BotStatus) (form, bool) {
	list, set, err := v.Instance.Control.BotSettings(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return form{}, false
	}
	f := newForm(list, set)
	f.Name, f.Description = b.Name, b.Description
	return f, true
}

// settingsPage shows the settings of a bot.
func settingsPage(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	if f, ok := settingsOf(v, b); ok {
		v.Render(http.StatusOK, changePage(v, b, f))
	}
}

// change saves the settings of a bot.
func change(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	f, ok := settingsOf(v, b)
	if !ok {
		return
	}
	in := control.BotChange{Bot: v.PathValue("bot"), Settings: f.readValues(v)}
	if f.Name != b.Name {
		in.Name = &f.Name
	}
	if f.Description != b.Description {
		in.Description = &f.Description
	}
	changed, err := v.Instance.Control.ChangeBot(v.Context(), v.Caller(), in)
	if err != nil {
		wrong(v, err, func(status int, text string) {
			f.setError(v, text)
			v.Render(status, changePage(v, b, f))
		})
		return
	}
	if changed.Notice != "" { // the notice is about this change, so only this response shows it
		if f, ok = settingsOf(v, changed.BotStatus); ok {
			f.Notice = changed.Notice
			v.Render(http.StatusOK, changePage(v, changed.BotStatus, f))
		}
		return
	}
	v.Redirect(botPath(b, "settings") + "?done=saved")
}

// rotatePage asks for confirmation before a new token is made.
func rotatePage(v *page.Visit) {
	if b, ok := find(v); ok {
		v.Render(http.StatusOK, rotateForm(v, b))
	}
}

// rotate replaces the token of a bot and shows the new one.
func rotate(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	r, err := v.Instance.Control.RotateBot(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, tokenPage(v, b, r.SDKToken, v.Text(msgRotated, b.Name)))
}

// removePage asks for confirmation before a bot is removed.
func removePage(v *page.Visit) {
	b, err := v.Instance.Control.Bot(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(http.StatusOK, removeForm(v, b))
}

// remove removes a bot.
func remove(v *page.Visit) {
	if _, err := v.Instance.Control.RemoveBot(v.Context(), v.Caller(), ref(v)); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/bots?done=removed")
}

// acceptCertificate pins the certificate of the bot's gateway whose fingerprint the visitor was
// shown.
func acceptCertificate(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	if _, err := v.Instance.Control.ChangeBot(v.Context(), v.Caller(), control.BotChange{Bot: v.PathValue("bot"),
		Settings: map[string]string{"tls_fingerprint": v.FormValue("fingerprint")}}); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(botPath(b, ""))
}
