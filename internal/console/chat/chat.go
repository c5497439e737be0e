// Package chat is the page where somebody talks with a bot of theirs, as they would with
// glasses on.
//
//	chat     the page, and what its forms do
//	answer   an answer that is being given
//	ongoing  one that was being given when the page was opened
package chat

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	// maxText bounds what is said at a time, in characters.
	maxText = 8000
	// maxName bounds the name of a conversation, which browsers give back to us.
	maxName = 64
	// maxBody is a picture and what is around it.
	maxBody = control.MaxPicture + 256<<10
)

// Routes are the pages.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /bots/{bot}/chat", Serve: show},
		{Pattern: "GET /bots/{bot}/chat/live", Serve: live},
		{Pattern: "POST /bots/{bot}/chat", Serve: say, Large: true},
		{Pattern: "POST /bots/{bot}/chat/new", Serve: begin},
		{Pattern: "POST /bots/{bot}/chat/stop", Serve: stop},
	}
}

// said is what is on the page beside the conversation.
type said struct {
	Text  string // that was typed, and not sent
	Wrong string
	// Turn and Answer are what has come without a script.
	Turn   *talk.Turn
	Answer *answer
}

// show shows a conversation.
func show(v *page.Visit) {
	if chat, ok := read(v, v.FormValue("c")); ok {
		v.Show(http.StatusOK, chatPage(v, chat, said{}))
	}
}

func read(v *page.Visit, conversation string) (control.Chat, bool) {
	if len(conversation) > maxName {
		v.Missing()
		return control.Chat{}, false
	}
	chat, err := v.House.Control.Chat(v.Context(), v.Caller(), control.ChatRef{Bot: v.PathValue("bot"), Conversation: conversation})
	if err != nil {
		v.Fail(err)
		return chat, false
	}
	return chat, true
}

// base is where one talks with a bot.
func base(b store.Bot) string { return "/bots/" + strconv.FormatInt(b.Number, 10) + "/chat" }

// bot finds the bot that the address names.
func bot(v *page.Visit) (control.BotStatus, bool) {
	b, err := v.House.Control.BotState(v.Context(), v.Caller(), control.BotRef{Bot: v.PathValue("bot")})
	if err != nil {
		v.Fail(err)
	}
	return b, err == nil
}

// after is how a bot is after an answer, or was before if that cannot be found out.
func after(ctx context.Context, v *page.Visit, b control.BotStatus) control.BotStatus {
	if now, err := v.House.Control.BotState(ctx, v.Caller(), control.BotRef{Bot: v.PathValue("bot")}); err == nil {
		return now
	}
	return b
}

// begin begins another conversation.
func begin(v *page.Visit) {
	if b, ok := bot(v); ok {
		v.To(base(b.Bot) + "?c=" + control.NewConversation())
	}
}

// stop stops what the bot is saying in a conversation, on whatever instance it was asked.
// What has come of it is shown where the answer is.
func stop(v *page.Visit) {
	b, ok := bot(v)
	if !ok {
		return
	}
	conversation := v.FormValue("c")
	if conversation == "" || len(conversation) > maxName {
		v.Missing()
		return
	}
	stopped, err := v.House.Control.StopChat(v.Context(), v.Caller(), control.ChatStop{Bot: v.PathValue("bot"), Conversation: conversation})
	switch {
	case err != nil:
		v.Fail(err)
	case !v.Partial():
		v.To(base(b.Bot) + "?c=" + url.QueryEscape(conversation))
	case stopped.Turns == 0: // it has ended, and the page has not heard of that
		v.Show(http.StatusOK, quiet())
	default:
		v.W.WriteHeader(http.StatusNoContent)
	}
}

// say puts a question to the bot: piece by piece for the script, otherwise with a page
// when the answer has ended.
func say(v *page.Visit) {
	q, err := question(v)
	if err != nil && v.FormValue("c") == "" {
		v.Fail(err)
		return
	}
	var turn *talk.Turn
	if err == nil {
		turn, err = v.House.Control.Turn(v.Context(), v.Caller(), q)
	}
	if e := control.AsError(err); err != nil && (e == nil || e.Reason == control.Missing || v.Partial()) {
		v.Fail(err)
		return
	}
	if v.Partial() {
		stream(v, turn)
		return
	}
	chat, ok := read(v, v.FormValue("c"))
	if !ok {
		return
	}
	if err != nil {
		text, status := v.Wrong(err)
		v.Show(status, chatPage(v, chat, said{Text: v.FormValue("text"), Wrong: text}))
		return
	}
	whole(v, chat, turn)
}

// question reads what was said.
func question(v *page.Visit) (q control.Question, err error) {
	v.Body = http.MaxBytesReader(v.W, v.Body, maxBody)
	err = v.ParseMultipartForm(maxBody)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return q, control.Fail(control.TooLarge, sayPictureTooLarge, control.MaxPicture>>20)
	}
	if err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return q, control.Fail(control.Invalid, sayNotUnderstood)
	}
	q = control.Question{
		Bot: v.PathValue("bot"), Conversation: v.FormValue("c"), Lang: string(v.Lang),
		Text: strings.TrimSpace(strings.ReplaceAll(v.FormValue("text"), "\r\n", "\n")),
	}
	switch {
	case q.Conversation == "" || len(q.Conversation) > maxName:
		return q, control.Fail(control.Invalid, sayNotUnderstood)
	case utf8.RuneCountInString(q.Text) > maxText:
		return q, control.Fail(control.Invalid, sayTextTooLong, maxText)
	}
	q.Image, err = picture(v)
	return q, err
}

// picture reads the picture that was chosen, if one was: there is a field for the camera
// and one for files.
func picture(v *page.Visit) ([]byte, error) {
	if v.MultipartForm == nil {
		return nil, nil
	}
	for _, h := range v.MultipartForm.File["picture"] {
		if h.Size == 0 {
			continue
		}
		if h.Size > control.MaxPicture {
			return nil, control.Fail(control.TooLarge, sayPictureTooLarge, control.MaxPicture>>20)
		}
		f, err := h.Open()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(f)
	}
	return nil, nil
}
