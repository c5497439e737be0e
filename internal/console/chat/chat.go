// Package chat serves the page where a person talks with a bot of theirs, as with glasses.
//
//	chat          the page and its forms
//	answer        an answer in progress
//	active_turns  answers that were in progress when the page was opened
//	text          answers as Markdown, also while they come
//	tools         what the bot called meanwhile
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
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	// maxText is the maximum length of a question, in characters.
	maxText = 8000
	// maxName is the maximum length of a conversation's name, which browsers send back.
	maxName = 64
	// maxBody is the maximum size of a request: a picture and the rest of the form.
	maxBody = control.MaxPicture + 256<<10
)

// Routes returns the pages.
func Routes() []page.Route {
	return []page.Route{
		{Pattern: "GET /bots/{bot}/chat", Serve: show},
		{Pattern: "GET /bots/{bot}/chat/live", Serve: live},
		{Pattern: "POST /bots/{bot}/chat", Serve: submitQuestion, Large: true},
		{Pattern: "POST /bots/{bot}/chat/new", Serve: newConversation},
		{Pattern: "POST /bots/{bot}/chat/stop", Serve: stop},
	}
}

// questionForm holds what the page shows besides the conversation.
type questionForm struct {
	Text  string // typed, but not sent
	Wrong string
	// Turn and Answer are the result of a question sent without JavaScript.
	Turn   *talk.Turn
	Answer *answer
}

// show shows a conversation.
func show(v *page.Visit) {
	if chat, ok := read(v, v.FormValue("c")); ok {
		render(v, http.StatusOK, chat, questionForm{})
	}
}

// around is what the page shows beside the conversation, and in it besides texts.
type around struct {
	past []store.PastConversation
	said []stored
}

// stored is a question of the conversation with what came of it.
type stored struct {
	question string // as history stores it; empty: the rest of an answer, or a question that is not kept
	answer   *answer
}

// render shows the page.
func render(v *page.Visit, status int, chat control.Chat, s questionForm) {
	past, err := v.Instance.Control.PastChats(v.Context(), v.Caller(), chat.Bot.Bot)
	if err != nil {
		v.Fail(err)
		return
	}
	turns := make([]string, len(chat.Exchanges))
	for i, e := range chat.Exchanges {
		turns[i] = e.Turn
	}
	recorded, err := v.Instance.Control.PastTurns(v.Context(), v.Caller(), chat.Bot.Bot, turns)
	if err != nil {
		v.Fail(err)
		return
	}
	w := around{past: past}
	failures := chat.Failures
	for _, e := range chat.Exchanges {
		for len(failures) > 0 && failures[0].At.Before(e.At) {
			w.said = append(w.said, newFailed(v, chat, failures[0]))
			failures = failures[1:]
		}
		w.said = append(w.said, stored{e.Question, newStoredAnswer(v, chat, e, recorded[e.Turn])})
	}
	for _, f := range failures {
		w.said = append(w.said, newFailed(v, chat, f))
	}
	if n := len(w.said); n > 0 && len(chat.Ongoing) == 0 && s.Answer == nil {
		w.said[n-1].answer.setQuestion(w.said[n-1].question)
	}
	v.Render(status, chatPage(v, chat, s, w))
}

// newFailed returns a question that got no answer. Unlike others it can be asked again even if it
// is not the last one.
func newFailed(v *page.Visit, chat control.Chat, f control.FailedTurn) stored {
	a := newStoredAnswer(v, chat, store.Exchange{Turn: f.Turn, At: f.At, Answer: f.Answer},
		control.PastTurn{Took: f.Took, End: f.End})
	a.Forgotten = f.Question == ""
	a.setQuestion(f.Question)
	return stored{f.Question, a}
}

func read(v *page.Visit, conversation string) (control.Chat, bool) {
	if len(conversation) > maxName {
		v.NotFound()
		return control.Chat{}, false
	}
	chat, err := v.Instance.Control.Chat(v.Context(), v.Caller(),
		control.ChatRef{Bot: v.PathValue("bot"), Conversation: conversation})
	if err != nil {
		v.Fail(err)
		return chat, false
	}
	return chat, true
}

// base returns the path of a bot's chat page.
func base(b store.Bot) string { return "/bots/" + strconv.FormatInt(b.Number, 10) + "/chat" }

// bot returns the bot that the path names.
func bot(v *page.Visit) (control.BotStatus, bool) {
	b, err := v.Instance.Control.BotState(v.Context(), v.Caller(), control.BotRef{Bot: v.PathValue("bot")})
	if err != nil {
		v.Fail(err)
	}
	return b, err == nil
}

// refreshBot returns the current state of a bot, or b if it cannot be read.
func refreshBot(ctx context.Context, v *page.Visit, b control.BotStatus) control.BotStatus {
	if now, err := v.Instance.Control.BotState(ctx, v.Caller(), control.BotRef{Bot: v.PathValue("bot")}); err == nil {
		return now
	}
	return b
}

// newConversation starts another conversation.
func newConversation(v *page.Visit) {
	if b, ok := bot(v); ok {
		v.Redirect(base(b.Bot) + "?c=" + control.NewConversation())
	}
}

// stop stops the answers in progress of a conversation, on whatever instance they run. The partial
// answer stays on the page.
func stop(v *page.Visit) {
	b, ok := bot(v)
	if !ok {
		return
	}
	conversation := v.FormValue("c")
	if conversation == "" || len(conversation) > maxName {
		v.NotFound()
		return
	}
	stopped, err := v.Instance.Control.StopChat(v.Context(), v.Caller(),
		control.ChatStop{Bot: v.PathValue("bot"), Conversation: conversation})
	switch {
	case err != nil:
		v.Fail(err)
	case !v.IsPartial():
		v.Redirect(base(b.Bot) + "?c=" + url.QueryEscape(conversation))
	case stopped.Turns == 0: // it has ended, but the page does not know yet
		v.Render(http.StatusOK, idleControls())
	default:
		v.W.WriteHeader(http.StatusNoContent)
	}
}

// submitQuestion asks the bot. The script gets the answer piece by piece; without JavaScript the
// response is a page with the complete answer.
func submitQuestion(v *page.Visit) {
	q, err := question(v)
	if err != nil && v.FormValue("c") == "" {
		v.Fail(err)
		return
	}
	var turn *talk.Turn
	if err == nil {
		turn, err = v.Instance.Control.Turn(v.Context(), v.Caller(), q)
	}
	if e := control.AsError(err); err != nil && (e == nil || e.Code == problem.NotFound || v.IsPartial()) {
		v.Fail(err)
		return
	}
	if v.IsPartial() {
		stream(v, turn)
		return
	}
	chat, ok := read(v, v.FormValue("c"))
	if !ok {
		return
	}
	if err != nil {
		text, status := v.Wrong(err)
		render(v, status, chat, questionForm{Text: v.FormValue("text"), Wrong: text})
		return
	}
	showWhole(v, chat, turn)
}

// question reads the submitted question.
func question(v *page.Visit) (q control.Question, err error) {
	v.Body = http.MaxBytesReader(v.W, v.Body, maxBody)
	err = v.ParseMultipartForm(maxBody)
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return q, problem.New(problem.TooLarge, msgPictureTooLarge, control.MaxPicture>>20)
	}
	if err != nil && !errors.Is(err, http.ErrNotMultipart) {
		return q, problem.New(problem.Invalid, msgNotUnderstood)
	}
	q = control.Question{
		Bot: v.PathValue("bot"), Conversation: v.FormValue("c"), Lang: string(v.Lang),
		Text: strings.TrimSpace(strings.ReplaceAll(v.FormValue("text"), "\r\n", "\n")),
	}
	switch {
	case q.Conversation == "" || len(q.Conversation) > maxName:
		return q, problem.New(problem.Invalid, msgNotUnderstood)
	case utf8.RuneCountInString(q.Text) > maxText:
		return q, problem.New(problem.Invalid, msgTextTooLong, maxText)
	}
	q.Image, err = picture(v)
	return q, err
}

// picture reads the picture if one was chosen: there is one input for the camera and one for files.
func picture(v *page.Visit) ([]byte, error) {
	if v.MultipartForm == nil {
		return nil, nil
	}
	for _, h := range v.MultipartForm.File["picture"] {
		if h.Size == 0 {
			continue
		}
		if h.Size > control.MaxPicture {
			return nil, problem.New(problem.TooLarge, msgPictureTooLarge, control.MaxPicture>>20)
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
