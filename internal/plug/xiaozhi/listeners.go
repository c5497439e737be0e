package xiaozhi

import (
	"context"
	"slices"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/tool"
)

// The values of Listener.What.
const (
	listenLive      = "listen"
	listenRecording = "record"
	listenPhoto     = "photo"
	listenVideo     = "video"
)

// nameTimeout limits the lookup of a listener's name, since the listener waits for it.
const nameTimeout = 2 * time.Second

// Listener is a caller that hears or sees what is near a board. Until is zero while it lasts.
type Listener struct {
	Name  string    `json:"name"`
	What  string    `json:"what"` // listen, record, photo or video
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
}

// What a board shows when a listener begins, in its owner's language.
var (
	msgEars = map[string]i18n.Message{
		listenLive:      "%s is listening",
		listenRecording: "%s is recording",
		listenPhoto:     "%s is taking a photo",
		listenVideo:     "%s is taking pictures",
	}
	msgAttention = i18n.Message("Attention")
	msgMachine   = i18n.Message("Whoever runs the server")
	msgSomebody  = i18n.Message("Somebody")
)

// activeListener is a [Listener] of a board that has not ended.
type activeListener struct {
	Listener
	board   *Board
	title   string // alert title on the board
	text    string
	shownIn *Conversation // conversation in which the alert was last shown
}

// addListener records a listener, shows an alert on the board, and publishes a notice to its
// owner. It waits for neither.
func (b *Board) addListener(who tool.Caller, what string) *activeListener {
	lang, name := b.listenerName(who)
	e := &activeListener{board: b, Listener: Listener{Name: name, What: what,
		Since: time.Now().UTC().Truncate(time.Millisecond)},
		title: msgAttention.In(lang), text: msgEars[what].In(lang, name)}
	b.mu.Lock()
	b.activeListeners = append(b.activeListeners, e)
	b.mu.Unlock()
	e.show(b.conversation())
	b.publishNotice(NoticeListenStart, e.Listener)
	return e
}

// listenerName returns the language of the board's owner, and the caller's name in it.
func (b *Board) listenerName(who tool.Caller) (i18n.Lang, string) {
	ctx, cancel := context.WithTimeout(b.ctx, nameTimeout)
	defer cancel()
	b.mu.Lock()
	owner := b.device.Owner
	b.mu.Unlock()
	lang, db := i18n.Chinese, b.boards.Store
	p, err := db.People.ByID(ctx, owner)
	if err == nil {
		lang = i18n.ParseLang(p.Lang, lang)
	}
	switch {
	case who.Bot != 0:
		if bot, err := db.Bots.ByNumber(ctx, who.Bot); err == nil {
			return lang, bot.Name
		}
	case who.Actor == "-":
		return lang, msgMachine.In(lang)
	case who.Actor != "" || who.Person != "":
		id := who.Actor
		if id == "" {
			id = who.Person
		}
		if p, err := db.People.ByID(ctx, id); err == nil {
			return lang, p.Name
		}
	}
	return lang, msgSomebody.In(lang)
}

// show shows the alert on the board, once per conversation, since a new conversation clears the
// display. An asleep board shows nothing, and hears nothing.
func (e *activeListener) show(c *Conversation) {
	l := e.board.connection()
	if l == nil || c != nil && c == e.shownIn {
		return
	}
	e.shownIn = c
	m := wire.Message{Type: wire.TypeAlert, Status: e.title, Message: e.text, Emotion: "neutral"}
	if c != nil {
		m.SessionID = c.id
	}
	e.board.boards.spawn(func() {
		if err := l.send(m.Append(nil)); err != nil {
			e.board.boards.Logger.Info("a board was not told who listens", "device", e.board.number, "error", err)
		}
	})
}

// stop records that the listener has ended.
func (e *activeListener) stop() {
	b := e.board
	b.mu.Lock()
	b.activeListeners = slices.DeleteFunc(b.activeListeners, func(other *activeListener) bool { return other == e })
	last := e.Listener
	last.Until = time.Now().UTC().Truncate(time.Millisecond)
	b.lastListener = &last
	b.mu.Unlock()
	b.publishNotice(NoticeListenEnd, last)
}

// listeners returns the active listeners, at most maxTaps, and the last one that ended. Requires
// mu.
func (b *Board) listeners() (now []Listener, last *Listener) {
	for _, e := range b.activeListeners[:min(len(b.activeListeners), maxTaps)] {
		now = append(now, e.Listener)
	}
	return now, b.lastListener
}
