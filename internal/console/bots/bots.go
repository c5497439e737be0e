// Package bots is the pages about bots: which there are and how they are, what is set
// about each, the glasses that are bound to it, its keys and its turns.
//
//	list       which there are
//	add        another one
//	bot        one of them, and the question that tries it
//	settings   what is set about it
//	glasses    the platform's form, and who is bound
//	bind       the code by which glasses are bound
//	turns      its keys, and what it was asked
package bots

import (
	"net/http"
	"strconv"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/talk"
)

// Routes are the pages about bots.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /bots", Serve: list},
		{Pattern: "GET /bots/live", Serve: listLive},
		{Pattern: "GET /bots/new", Serve: addPage},
		{Pattern: "POST /bots", Access: page.Fresh, Serve: add},
		{Pattern: "GET /bots/{bot}", Serve: show},
		{Pattern: "GET /bots/{bot}/live", Serve: showLive},
		{Pattern: "POST /bots/{bot}/test", Serve: try},
		{Pattern: "GET /bots/{bot}/settings", Serve: settingsPage},
		{Pattern: "POST /bots/{bot}/settings", Access: page.Fresh, Serve: change},
		{Pattern: "POST /bots/{bot}/rotate", Access: page.Fresh, Serve: rotate},
		{Pattern: "GET /bots/{bot}/rotate", Access: page.Fresh, Serve: rotatePage},
		{Pattern: "GET /bots/{bot}/remove", Serve: removePage},
		{Pattern: "POST /bots/{bot}/remove", Serve: remove},
		{Pattern: "GET /bots/{bot}/glasses", Serve: glassesPage},
		{Pattern: "POST /bots/{bot}/unbind", Serve: unbind},
		{Pattern: "GET /bots/{bot}/bind", Access: page.Fresh, Serve: bindPage},
		{Pattern: "GET /bots/{bot}/bind/live", Serve: bindLive},
		{Pattern: "GET /bots/{bot}/key", Access: page.Fresh, Serve: keyPage},
		{Pattern: "POST /bots/{bot}/key", Access: page.Fresh, Serve: makeKey},
		{Pattern: "GET /bots/{bot}/turns", Serve: turnsPage},
		{Pattern: "POST /bots/{bot}/keys/{key}/revoke", Serve: revoke},
	}
}

// ref names the bot of a page.
func ref(v *page.Visit) control.BotRef { return control.BotRef{Bot: v.PathValue("bot")} }

// find is the bot of a page. If there is none of the visitor's, that was answered.
func find(v *page.Visit) (b control.BotStatus, ok bool) {
	b, err := v.House.Control.BotState(v.Context(), v.Caller(), ref(v))
	if err != nil {
		v.Fail(err)
		return b, false
	}
	return b, true
}

// at is the address of a page of a bot.
func at(b control.BotStatus, page string) string {
	path := "/bots/" + strconv.FormatInt(b.Number, 10)
	if page != "" {
		path += "/" + page
	}
	return path
}

// kindName is a kind in words.
func kindName(v *page.Visit, kind string) string {
	if k, ok := kindWords[kind]; ok {
		return v.Say(k.name)
	}
	return kind
}

// done is what a page tells about what was done just before.
func done(v *page.Visit) string {
	if s, ok := doneSays[v.URL.Query().Get("done")]; ok {
		return v.Say(s)
	}
	return ""
}

// doorName is where a question came in, in words.
func doorName(v *page.Visit, door string) string {
	if s, ok := doorSays[door]; ok {
		return v.Say(s)
	}
	return door
}

// outcome is how a turn ended, in words, and the light that goes with it.
func outcome(v *page.Visit, name, code string) (page.State, string) {
	switch name {
	case "done":
		return page.On, v.Say(sayAnswered)
	case "hung_up":
		return page.Wait, v.Say(sayHungUp)
	}
	if s, ok := codeSays[talk.Code(code)]; ok {
		return page.Bad, v.Say(s)
	}
	return page.Bad, v.Say(sayFailed)
}

// wrong shows a form once more, with what is wrong. What is missing, or our own fault, is
// a page of its own.
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
