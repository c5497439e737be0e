package xiaozhi

import (
	"context"
	"slices"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// The ways in which somebody hears or sees what is near a board.
const (
	heardLive  = "listen"
	heardFile  = "record"
	heardPhoto = "photo"
)

// nameLimit is how long it may take to find out how somebody is called who listens: they
// are not kept waiting for more.
const nameLimit = 2 * time.Second

// Ear is somebody who hears or sees what is near a board. Until is zero while it lasts.
type Ear struct {
	Name  string    `json:"name"`
	What  string    `json:"what"` // listen, record or photo
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`
}

// What a board shows of somebody who begins, in its owner's language.
var (
	sayEars = map[string]talk.Say{
		heardLive:  {Zh: "%s 正在收听", En: "%s is listening"},
		heardFile:  {Zh: "%s 正在录音", En: "%s is recording"},
		heardPhoto: {Zh: "%s 正在拍照", En: "%s is taking a photo"},
	}
	sayAttention = talk.Say{Zh: "注意", En: "Attention"}
	sayMachine   = talk.Say{Zh: "服务器管理员", En: "Whoever runs the server"}
	saySomebody  = talk.Say{Zh: "有人", En: "Somebody"}
)

// ear is an [Ear] of a board.
type ear struct {
	Ear
	board *Board
	title string // what the board shows
	text  string
	shown *Conversation // in which that was shown last
}

// heardBy notes that somebody begins to hear or see what is near the board, shows it on
// the board, and tells its owner. It waits for neither.
func (b *Board) heardBy(who tool.Caller, what string) *ear {
	lang, name := b.earName(who)
	e := &ear{board: b, Ear: Ear{Name: name, What: what, Since: time.Now().UTC().Truncate(time.Millisecond)},
		title: sayAttention.In(lang), text: sayEars[what].In(lang, name)}
	b.mu.Lock()
	b.ears = append(b.ears, e)
	b.mu.Unlock()
	e.show(b.conversation())
	b.tells(NoticeHeard, e.Ear)
	return e
}

// earName is how somebody is called who listens, and the language of the board's owner.
func (b *Board) earName(who tool.Caller) (talk.Lang, string) {
	ctx, cancel := context.WithTimeout(b.ctx, nameLimit)
	defer cancel()
	b.mu.Lock()
	owner := b.device.Owner
	b.mu.Unlock()
	lang, db := talk.Chinese, b.house.Store
	p, err := db.People.ByID(ctx, owner)
	if err == nil && p.Lang == string(talk.English) {
		lang = talk.English
	}
	switch {
	case who.Bot != 0:
		if bot, err := db.Bots.ByNumber(ctx, who.Bot); err == nil {
			return lang, bot.Name
		}
	case who.Actor == "-":
		return lang, sayMachine.In(lang)
	case who.Actor != "" || who.Person != "":
		id := who.Actor
		if id == "" {
			id = who.Person
		}
		if p, err := db.People.ByID(ctx, id); err == nil {
			return lang, p.Name
		}
	}
	return lang, saySomebody.In(lang)
}

// show has the board show it, unless it has in this conversation: boards show other things
// when one begins. One that is asleep shows nothing, and has nothing to hear with.
func (e *ear) show(c *Conversation) {
	l := e.board.connection()
	if l == nil || c != nil && c == e.shown {
		return
	}
	e.shown = c
	m := wire.Message{Type: wire.TypeAlert, Status: e.title, Message: e.text, Emotion: "neutral"}
	if c != nil {
		m.SessionID = c.id
	}
	e.board.house.spawn(func() {
		if err := l.send(m.Append(nil)); err != nil {
			e.board.house.Logger.Info("a board was not told who listens", "device", e.board.number, "error", err)
		}
	})
}

// over notes that somebody hears nothing any more.
func (e *ear) over() {
	b := e.board
	b.mu.Lock()
	b.ears = slices.DeleteFunc(b.ears, func(other *ear) bool { return other == e })
	last := e.Ear
	last.Until = time.Now().UTC().Truncate(time.Millisecond)
	b.heard = &last
	b.mu.Unlock()
	b.tells(NoticeUnheard, last)
}

// listeners are those who hear or see what is near the board now, as many as can at a
// time, and who did last. With mu held.
func (b *Board) listeners() (now []Ear, last *Ear) {
	for _, e := range b.ears[:min(len(b.ears), maxTaps)] {
		now = append(now, e.Ear)
	}
	return now, b.heard
}
