// Package chat is the page where somebody talks with a bot of theirs, as they would with
// glasses on.
//
//	chat     the page, and what its forms do
//	answer   an answer that is being given
package chat

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"patchbay/internal/board"
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
	c := &chats{answering: map[place]map[*context.CancelCauseFunc]bool{}}
	return []page.Route{
		{Pattern: "GET /bots/{bot}/chat", Serve: c.page},
		{Pattern: "POST /bots/{bot}/chat", Serve: c.say, Large: true},
		{Pattern: "POST /bots/{bot}/chat/new", Serve: c.begin},
		{Pattern: "POST /bots/{bot}/chat/stop", Serve: c.stop},
	}
}

// chats are the conversations in which a bot is about to answer.
type chats struct {
	mu        sync.Mutex
	answering map[place]map[*context.CancelCauseFunc]bool
}

// place is a conversation.
type place struct {
	person       string
	bot          int64
	conversation string
}

// stoppable makes a context that ends when whoever is at a place stops the bot.
func (c *chats) stoppable(ctx context.Context, at place) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answering[at] == nil {
		c.answering[at] = map[*context.CancelCauseFunc]bool{}
	}
	c.answering[at][&cancel] = true
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		defer c.mu.Unlock()
		if delete(c.answering[at], &cancel); len(c.answering[at]) == 0 {
			delete(c.answering, at)
		}
	}
}

// said is what is on the page beside the conversation.
type said struct {
	Text  string // that was typed, and not sent
	Wrong string
	// Asked and Answer are what has come without a script.
	Asked  string
	Answer *answer
}

// page shows a conversation.
func (c *chats) page(v *page.Visit) {
	if chat, ok := c.read(v, v.FormValue("c")); ok {
		v.Show(http.StatusOK, chatPage(v, chat, said{}))
	}
}

func (c *chats) read(v *page.Visit, conversation string) (control.Chat, bool) {
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

// begin begins another conversation.
func (c *chats) begin(v *page.Visit) {
	if b, ok := bot(v); ok {
		v.To(base(b.Bot) + "?c=" + control.NewConversation())
	}
}

// stop stops what the bot is saying in a conversation. If that goes through another
// instance, nothing is known of it here, and it goes on.
func (c *chats) stop(v *page.Visit) {
	b, ok := bot(v)
	if !ok {
		return
	}
	conversation := v.FormValue("c")
	c.mu.Lock()
	for cancel := range c.answering[place{v.Who.Person.ID, b.Number, conversation}] {
		(*cancel)(board.ErrStopped)
	}
	c.mu.Unlock()
	if v.Partial() {
		v.W.WriteHeader(http.StatusNoContent)
		return
	}
	v.To(base(b.Bot) + "?c=" + url.QueryEscape(conversation))
}

// say puts a question to the bot: piece by piece for the script, otherwise with a page
// when the answer has ended.
func (c *chats) say(v *page.Visit) {
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
		c.stream(v, turn)
		return
	}
	chat, ok := c.read(v, v.FormValue("c"))
	if !ok {
		return
	}
	if err != nil {
		text, status := v.Wrong(err)
		v.Show(status, chatPage(v, chat, said{Text: v.FormValue("text"), Wrong: text}))
		return
	}
	c.whole(v, chat, turn)
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
