// Package talk is the vocabulary of a question and its answer.
//
// A door (glasses, a voice board, the command line) makes a [Turn] out of what
// a person said. A [Bot] answers it by emitting [Event]s one after the other.
// Nothing here knows who carries the words, and this package imports nothing
// else of the project.
package talk

import (
	"context"
	"encoding/json"
	"strings"
)

// Bot answers turns.
//
// Answer calls emit for each piece, in order, from one goroutine at a time, and
// returns when nothing more will come: nil for a complete answer (which may be
// empty), or an error. An error that is, or wraps, a *[Failure] carries the
// sentence the person is told; any other error is told as [BotFailed].
//
// A bot stops early when ctx ends or emit returns an error, and returns that
// error. The turn is read-only. One Bot serves many turns at once, unless it was
// plugged in with a smaller limit.
type Bot interface {
	Answer(ctx context.Context, turn *Turn, emit Emit) error
}

// Emit takes one piece of an answer. An error means that nobody wants more.
// The event is the callee's only until the call returns.
type Emit func(Event) error

// Turn is one thing said by a person. The whole answer to it belongs to it too,
// as events.
type Turn struct {
	// ID is the turn's own id, unique for ever (UUIDv7). It is opaque to bots,
	// which may hand it to their far side as a session or request id.
	ID string `json:"id"`
	// Bot is the number of the bot that is asked.
	Bot int64 `json:"bot"`
	// Door names the way in: "lingzhu", "cli", ….
	Door string `json:"door"`
	// Person tells askers of one bot apart and is stable over time, for example
	// "lingzhu:<publisher>:<user id>". It is empty when the door cannot know.
	Person string `json:"person,omitempty"`
	// Asker is the id of the account that asks, if it is one and Person is empty, so that
	// nothing is remembered. It is for the trail alone.
	Asker string `json:"asker,omitempty"`
	// Address is from which the question came, if the door knows. It is for the trail alone.
	Address string `json:"address,omitempty"`
	// Conversation groups turns that share a context. History is kept per
	// (Bot, Person, Conversation).
	Conversation string `json:"conversation,omitempty"`
	// Depth counts how many bots stand behind the question: a bot asks a bot that
	// asks a bot. People have 0.
	Depth int `json:"depth,omitempty"`
	// Bound are the rules of the key by which is asked, as the hub keeps them: the bot may
	// call no tool in this turn that they forbid. Empty: those of a person, or of a key
	// that is not narrow.
	Bound string `json:"bound,omitempty"`
	// Alone says that a program asks by a key for this bot alone: what its owner has
	// elsewhere, as in Learn, is none of its business.
	Alone bool `json:"alone,omitempty"`
	// Lang is the language in which the person is spoken to.
	Lang Lang `json:"lang"`
	// Parts is what was said, in order; never empty.
	Parts []Part `json:"parts"`
	// Commands names the device commands that the asker's device can carry out.
	// A bot that emits another one has its command dropped.
	Commands []string `json:"commands,omitempty"`
	// Metadata is what the device told about itself, verbatim; null if nothing.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Request names the HTTP request that brought the turn, if its sender does: a W3C
	// traceparent. A request that is sent again has the same name.
	Request string `json:"request,omitempty"`
	// AgentID is the id that the asker's platform gave to whom it asks, if it
	// has such a thing (Lingzhu). Bots may pass it on, not interpret it.
	AgentID string `json:"agent_id,omitempty"`
	// UserID is the asker's id at its own platform, if it has one (Lingzhu).
	UserID string `json:"user_id,omitempty"`
	// History is what was said before in this conversation, oldest first, as far
	// as the board keeps it. It ends before this turn.
	History []Message `json:"history,omitempty"`
}

// Text is everything the person said in words, parts joined by line breaks.
func (t *Turn) Text() string {
	var b strings.Builder
	for _, p := range t.Parts {
		if p.Text == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

// Images are the pictures among the parts, in order.
func (t *Turn) Images() []*Image {
	var out []*Image
	for _, p := range t.Parts {
		if p.Image != nil {
			out = append(out, p.Image)
		}
	}
	return out
}

// Can says whether the asker's device can carry out the named command.
func (t *Turn) Can(command string) bool {
	for _, c := range t.Commands {
		if c == command {
			return true
		}
	}
	return false
}

// Part is a piece of what was said: words or a picture, not both.
type Part struct {
	Text  string `json:"text,omitempty"`
	Image *Image `json:"image,omitempty"`
}

// Image is a picture that was checked when it came in: MIME is what its bytes
// say they are.
type Image struct {
	// MIME is image/webp, image/jpeg, image/png or image/gif.
	MIME string `json:"mime"`
	// Data is the encoded picture. It does not travel between instances; the
	// board loads it from the store at the far side.
	Data []byte `json:"-"`
	// Media is the secret part of the picture's address, valid for a short time:
	// <public address>/media/<Media>. Empty if the picture was not stored.
	Media string `json:"media,omitempty"`
}

// Message is one side of an earlier turn.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"text"`
}

// Role is who said a [Message].
type Role string

// The two sides of a conversation.
const (
	RolePerson Role = "person"
	RoleBot    Role = "bot"
)

// Kind says what an [Event] carries.
type Kind uint8

// The kinds of event. The zero Kind is not valid.
const (
	// KindText is a piece of the answer, in Event.Text.
	KindText Kind = iota + 1
	// KindNote is a word about the work ("looking it up…"), in Event.Text. It is
	// told to the person but is no part of the answer and not kept.
	KindNote
	// KindCommand asks the device to do something, in Event.Command.
	KindCommand
	// KindSuggest offers up to three next questions, in Event.Suggest.
	KindSuggest
)

// Event is one piece of an answer.
type Event struct {
	Kind    Kind     `json:"k"`
	Text    string   `json:"t,omitempty"`
	Command *Command `json:"c,omitempty"`
	Suggest []string `json:"s,omitempty"`
}

// Text is a piece of the answer.
func Text(s string) Event { return Event{Kind: KindText, Text: s} }

// Note is a word about the work that is not part of the answer.
func Note(s string) Event { return Event{Kind: KindNote, Text: s} }

// Do asks the device to carry out a command.
func Do(c Command) Event { return Event{Kind: KindCommand, Command: &c} }

// Suggest offers next questions.
func Suggest(s ...string) Event { return Event{Kind: KindSuggest, Suggest: s} }

// Command is something the asker's device is asked to do.
type Command struct {
	// Name is one of the Command… constants, or a name that both the bot and the
	// door know.
	Name string `json:"name"`
	// Args are the command's arguments by the names of Lingzhu's tool_call
	// object: action, poi_name, navi_type, title, start_time, end_time.
	Args map[string]string `json:"args,omitempty"`
}

// The device commands that glasses know, by the names their platform gave them.
const (
	CommandTakePhoto = "take_photo"       // no arguments; the photo comes as a turn of its own
	CommandNavigate  = "take_navigation"  // action open|close, poi_name, navi_type 0 car, 1 walk, 2 bike
	CommandCalendar  = "control_calendar" // action create, title, start_time, end_time ("2006-01-02 15:04")
	CommandLeave     = "notify_agent_off" // no arguments; the device leaves the bot
)
