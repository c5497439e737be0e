// Package bots serves the pages about bots: the list, the settings, the bound glasses, the keys and
// the turns of each.
//
//	list       the list of bots
//	add        adding a bot
//	bot        the page of a bot, with a question to try it
//	share      who may ask it, and the page of a bot of somebody else
//	settings   its settings
//	glasses    the values for the glasses platform, and the bound users
//	bind       the code that binds glasses
//	turns      its keys and turns
package bots

import (
	"net/http"
	"strconv"
	"time"

	"github.com/a-h/templ"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/hub"
	"patchbay/internal/talk"
)

// Routes returns the pages about bots.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /bots", Serve: list},
		{Pattern: "GET /bots/live", Serve: listLive},
		{Pattern: "GET /bots/new", Serve: addPage},
		{Pattern: "POST /bots", Access: page.Confirmed, Serve: add},
		{Pattern: "GET /bots/{bot}", Serve: show},
		{Pattern: "GET /bots/{bot}/live", Serve: showLive},
		{Pattern: "POST /bots/{bot}/share", Access: page.Confirmed, Serve: share},
		{Pattern: "POST /bots/{bot}/test", Serve: try},
		{Pattern: "GET /bots/{bot}/settings", Serve: settingsPage},
		{Pattern: "POST /bots/{bot}/settings", Access: page.Confirmed, Serve: change},
		{Pattern: "POST /bots/{bot}/accept", Access: page.Confirmed, Serve: acceptCertificate},
		{Pattern: "POST /bots/{bot}/rotate", Access: page.Confirmed, Serve: rotate},
		{Pattern: "GET /bots/{bot}/rotate", Access: page.Confirmed, Serve: rotatePage},
		{Pattern: "GET /bots/{bot}/remove", Serve: removePage},
		{Pattern: "POST /bots/{bot}/remove", Serve: remove},
		{Pattern: "GET /bots/{bot}/glasses", Serve: glassesPage},
		{Pattern: "POST /bots/{bot}/unbind", Serve: unbind},
		{Pattern: "GET /bots/{bot}/bind", Access: page.Confirmed, Serve: bindPage},
		{Pattern: "GET /bots/{bot}/bind/live", Serve: bindLive},
		{Pattern: "GET /bots/{bot}/key", Access: page.Confirmed, Serve: keyPage},
		{Pattern: "POST /bots/{bot}/key", Access: page.Confirmed, Serve: makeKey},
		{Pattern: "GET /bots/{bot}/turns", Serve: turnsPage},
		{Pattern: "POST /bots/{bot}/keys/{key}/revoke", Serve: revoke},
	}
}

// ref returns the bot that the path names.
func ref(v *page.Visit) control.BotRef { return control.BotRef{Bot: v.PathValue("bot")} }

// find returns the bot of the visitor that the path names. If there is none, it has responded and
// returns false.
func find(v *page.Visit) (b control.BotStatus, ok bool) {
	b, err := v.Instance.Control.BotState(v.Context(), v.Caller(), ref(v))
	switch {
	case err != nil:
		v.Fail(err)
	case b.Shared:
		v.NotFound()
	default:
		return b, true
	}
	return b, false
}

// botPath returns the path of a page of a bot.
func botPath(b control.BotStatus, page string) string {
	path := "/bots/" + strconv.FormatInt(b.Number, 10)
	if page != "" {
		path += "/" + page
	}
	return path
}

// kindText returns the texts about a kind: its own, or those of this package.
func kindText(v *page.Visit, kind string) hub.KindText {
	if own := v.Instance.Control.KindText(kind); own.Name != "" {
		return own
	}
	return kindWords[kind]
}

// kindName returns the name of a kind in the visitor's language.
func kindName(v *page.Visit, kind string) string {
	if name := kindText(v, kind).Name; name != "" {
		return v.Text(name)
	}
	return kind
}

// doneNote returns the confirmation of the action that led to this page.
func doneNote(v *page.Visit) string {
	if s, ok := doneSays[v.URL.Query().Get("done")]; ok {
		return v.Text(s)
	}
	return ""
}

// isAdded reports whether the page follows the addition of a bot.
func isAdded(v *page.Visit) bool { return v.URL.Query().Get("done") == "added" }

// justAdded is how long after its addition a bot is asked the test question by itself.
const justAdded = time.Minute

// askedAtOnce has a model that was just added asked the test question when the page is loaded, so
// that a wrong address or key shows. It is asked once: the address of the page changes. Other bots
// connect by themselves, or wait for an approval.
func askedAtOnce(v *page.Visit, b control.BotStatus) templ.Attributes {
	if !isAdded(v) || b.Kind != "openai" || time.Since(b.Created) > justAdded {
		return nil
	}
	return templ.Attributes{"hx-trigger": "load, submit", "hx-replace-url": botPath(b, "")}
}

// outcome returns the state and the name of a turn's outcome.
func outcome(v *page.Visit, b control.BotStatus, name, code string) (page.State, string) {
	switch name {
	case "done":
		return page.On, v.Text(msgAnswered)
	case "disconnected":
		return page.Wait, v.Text(msgDisconnected)
	}
	return page.Bad, page.NewTurnFailure(v, &talk.Failure{Code: talk.Code(code)}, b.Bot, !b.Shared).Text
}

// wrong shows a form again with its error. For a missing object or an internal error it responds
// with an error page.
func wrong(v *page.Visit, err error, show func(status int, text string)) {
	text, status := v.Wrong(err)
	switch {
	case text == "":
	case status == http.StatusNotFound || status == http.StatusInternalServerError:
		v.Fail(err)
	default:
		show(status, text)
	}
}
