package control

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/fetch"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Question is a question to a bot.
type Question struct {
	Bot          string `json:"bot"` // number or name
	Text         string `json:"text"`
	Image        []byte `json:"image,omitempty"` // base64
	Conversation string `json:"conversation,omitempty"`
	Lang         string `json:"lang,omitempty"`
}

// MaxPicture limits the picture of a question, in bytes. Phones take pictures of 3 to 6 MiB.
const MaxPicture = 8 << 20

// Channels of questions, as in traces.
const (
	ChannelConsole = "console" // a browser
	ChannelCLI     = "cli"     // the command line, and programs like it
)

// channel returns the channel of a caller.
func (c Caller) channel() string {
	if c.Program == ChannelConsole {
		return ChannelConsole
	}
	return ChannelCLI
}

// asker returns the id by which bots tell the people apart who ask through a channel of this
// package.
func asker(channel, person string) string { return channel + ":" + person }

const (
	msgBadPicture = i18n.Message("the picture cannot be read; WebP, JPEG, PNG and GIF can")
	msgSayNothing = i18n.Message("say something, or show a picture")
)

// Turn returns the turn for a question to one of the caller's bots, for [hub.Hub.Answer].
func (s *Service) Turn(ctx context.Context, c Caller, q Question) (*talk.Turn, error) {
	b, err := s.botToAsk(ctx, c, q.Bot)
	if err != nil {
		return nil, err
	}
	person := c.Person
	if person == "" {
		person = b.Owner // the operator of this machine asks as the owner
	}
	turn, err := newTurn(b, q, c.channel(), person)
	if err != nil {
		return nil, err
	}
	turn.KeyRules, turn.BotOnly, turn.Address = c.Bound, c.Only != 0, c.Address
	return turn, nil
}

// newTurn returns the turn for a question of a person through one of the channels of this package.
func newTurn(b store.Bot, q Question, channel, person string) (*talk.Turn, error) {
	turn := &talk.Turn{
		ID: uuid.Must(uuid.NewV7()).String(), Bot: b.Number, Channel: channel,
		Asker: person,
		Lang:  i18n.ParseLang(q.Lang, i18n.English), Conversation: q.Conversation,
		Commands: []string{talk.CommandTakePhoto, talk.CommandNavigate, talk.CommandCalendar, talk.CommandLeave},
	}
	if q.Conversation != "" {
		turn.Person = asker(channel, person)
	}
	if q.Text != "" {
		turn.Parts = append(turn.Parts, talk.Part{Text: q.Text})
	}
	if len(q.Image) > 0 {
		im, err := fetch.NewImage(q.Image)
		if err != nil {
			return nil, problem.New(problem.Invalid, msgBadPicture).Because(err)
		}
		turn.Parts = append(turn.Parts, talk.Part{Image: &talk.Image{MIME: im.MIME, Data: im.Data}})
	}
	if len(turn.Parts) == 0 {
		return nil, problem.New(problem.Invalid, msgSayNothing)
	}
	return turn, nil
}

// ChatRef identifies a conversation of the caller with one of their bots.
type ChatRef struct {
	Bot string `path:"bot"` // number or name
	// Conversation is its id; empty: the last one.
	Conversation string `query:"conversation"`
}

// Chat is a conversation, as far as it is stored.
type Chat struct {
	Bot          BotStatus        `json:"bot"`
	Conversation string           `json:"conversation"`
	Exchanges    []store.Exchange `json:"exchanges"` // oldest first
	// Failures are the questions that got no answer, and so are in no exchange; oldest first.
	Failures []FailedTurn `json:"failures,omitempty"`
	// Ongoing are the active turns, which are in no exchange yet.
	Ongoing []hub.ActiveTurn `json:"ongoing,omitempty"`
	// Pictures reports whether the bot can see them.
	Pictures bool `json:"pictures,omitempty"`
}

// maxChatTurns limits the exchanges of a conversation that are returned.
const maxChatTurns = 50

// Chat returns a conversation of the caller with one of their bots. Without an earlier one it
// returns a new, empty conversation. The last conversation is the one with an active turn, if there
// is one.
func (s *Service) Chat(ctx context.Context, c Caller, ref ChatRef) (Chat, error) {
	b, t, err := s.talkOf(ctx, c, ref.Bot, ref.Conversation)
	if err != nil {
		return Chat{}, err
	}
	out := Chat{Bot: s.seen(c, b, nil), Conversation: ref.Conversation, Exchanges: []store.Exchange{},
		Pictures: s.Hub.Registry.Sees(b)}
	// A turn that ends meanwhile is found as an exchange, because active turns are read first.
	ongoing := s.Hub.ActiveTurns(ctx, t)
	if out.Conversation == "" && len(ongoing) > 0 {
		out.Conversation = ongoing[len(ongoing)-1].Conversation
	}
	conversations := s.Hub.Store.Conversations
	if out.Conversation == "" {
		out.Conversation, err = s.latestConversation(ctx, c, b, t.Person)
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
		if err == nil && e.Undelivered { // what is shown need not be repeated with the next answer
			err = conversations.MarkDelivered(ctx, e.Turn)
		}
	}
	for _, o := range ongoing {
		if o.Conversation == out.Conversation && !ended[o.Turn] {
			out.Ongoing = append(out.Ongoing, o)
		}
	}
	if err == nil {
		t.Conversation = out.Conversation
		out.Failures, err = s.failedTurns(ctx, c, b, t, out.Exchanges, out.Ongoing)
	}
	return out, err
}

// NewConversation returns the id for a new conversation.
func NewConversation() string {
	return time.Now().UTC().Format("20060102-150405-") + uuid.NewString()[:8]
}
