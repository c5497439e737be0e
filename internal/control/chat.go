package control

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/fetch"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Question is what somebody asks a bot.
type Question struct {
	Bot          string `json:"bot"` // number or name
	Text         string `json:"text"`
	Image        []byte `json:"image,omitempty"` // base64
	Conversation string `json:"conversation,omitempty"`
	Lang         string `json:"lang,omitempty"`
}

// MaxPicture bounds the picture of a question, in bytes. Phones take pictures of 3 to 6 MiB.
const MaxPicture = 8 << 20

// The channels by which people ask, as in traces.
const (
	ChannelConsole = "console" // a browser
	ChannelCLI     = "cli"     // the command line, and programs like it
)

// channel is by which of them a caller comes.
func (c Caller) channel() string {
	if c.Program == ChannelConsole {
		return ChannelConsole
	}
	return ChannelCLI
}

// asker is what the hub calls a person who comes by a channel, so that bots tell them
// apart.
func asker(channel, person string) string { return channel + ":" + person }

var (
	sayBadPicture = talk.Say{Zh: "图片无法读取；可以用 WebP、JPEG、PNG 和 GIF",
		En: "the picture cannot be read; WebP, JPEG, PNG and GIF can"}
	saySayNothing = talk.Say{Zh: "请说点什么，或者发一张图片", En: "say something, or show a picture"}
)

// Turn makes a turn of a question to one of the caller's bots, which [hub.Hub.Answer]
// puts to it.
func (s *Service) Turn(ctx context.Context, c Caller, q Question) (*talk.Turn, error) {
	b, err := s.FindBot(ctx, c, q.Bot)
	if err != nil {
		return nil, err
	}
	person := c.Person
	if person == "" {
		person = b.Owner // the operator of this machine asks in the owner's place
	}
	turn, err := NewTurn(b, q, c.channel(), person)
	if err != nil {
		return nil, err
	}
	turn.KeyRules, turn.BotOnly, turn.Address = c.Bound, c.Only != 0, c.Address
	return turn, nil
}

// NewTurn makes a turn of a question that a person asks through one of the Channel… of
// this package.
func NewTurn(b store.Bot, q Question, channel, person string) (*talk.Turn, error) {
	turn := &talk.Turn{
		ID: uuid.Must(uuid.NewV7()).String(), Bot: b.Number, Channel: channel,
		Lang: talk.ParseLang(q.Lang, talk.English), Conversation: q.Conversation,
		Commands: []string{talk.CommandTakePhoto, talk.CommandNavigate, talk.CommandCalendar, talk.CommandLeave},
	}
	if q.Conversation != "" {
		turn.Person = asker(channel, person)
	} else {
		turn.Asker = person
	}
	if q.Text != "" {
		turn.Parts = append(turn.Parts, talk.Part{Text: q.Text})
	}
	if len(q.Image) > 0 {
		im, err := fetch.NewImage(q.Image)
		if err != nil {
			return nil, &Error{Reason: Invalid, Say: sayBadPicture, Cause: err}
		}
		turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: im.MIME, Data: im.Data}})
	}
	if len(turn.Parts) == 0 {
		return nil, Fail(Invalid, saySayNothing)
	}
	return turn, nil
}

// ChatRef names a conversation of the caller's with one of their bots.
type ChatRef struct {
	Bot string `path:"bot"` // number or name
	// Conversation is its name; empty: the last one.
	Conversation string `query:"conversation"`
}

// Chat is a conversation, as far as it is kept.
type Chat struct {
	Bot          BotStatus        `json:"bot"`
	Conversation string           `json:"conversation"`
	Exchanges    []store.Exchange `json:"exchanges"` // oldest first
	// Ongoing are the turns that are being answered, which are in no exchange yet.
	Ongoing []hub.ActiveTurn `json:"ongoing,omitempty"`
}

// maxChatTurns bounds how many exchanges of a conversation are shown.
const maxChatTurns = 50

// Chat shows a conversation of the caller with one of their bots. If they have had none,
// it is a new one, that has a name and nothing else. The last one is that in which the bot
// is answering, if it is.
func (s *Service) Chat(ctx context.Context, c Caller, ref ChatRef) (Chat, error) {
	b, t, err := s.talkOf(ctx, c, ref.Bot, ref.Conversation)
	if err != nil {
		return Chat{}, err
	}
	out := Chat{Bot: s.status(b, c.Lang), Conversation: ref.Conversation, Exchanges: []store.Exchange{}}
	// What ends now is an exchange when it is not ongoing any more, so that it is seen.
	ongoing := s.Hub.ActiveTurns(ctx, t)
	if out.Conversation == "" && len(ongoing) > 0 {
		out.Conversation = ongoing[len(ongoing)-1].Conversation
	}
	conversations := s.Hub.Store.Conversations
	if out.Conversation == "" {
		out.Conversation, err = conversations.Latest(ctx, b.Number, t.Person)
		if errors.Is(err, store.ErrNotFound) {
			out.Conversation = NewConversation()
			return out, nil
		}
	}
	if err == nil {
		out.Exchanges, err = conversations.Last(ctx, b.Number, t.Person, out.Conversation, maxChatTurns)
	}
	ended := map[string]bool{}
	for _, e := range out.Exchanges {
		ended[e.Turn] = true
		if err == nil && e.Undelivered { // what is shown need not be told with the next answer
			err = conversations.MarkDelivered(ctx, e.Turn)
		}
	}
	for _, o := range ongoing {
		if o.Conversation == out.Conversation && !ended[o.Turn] {
			out.Ongoing = append(out.Ongoing, o)
		}
	}
	return out, err
}

// NewConversation makes a name for a conversation.
func NewConversation() string {
	return time.Now().UTC().Format("20060102-150405-") + uuid.NewString()[:8]
}
