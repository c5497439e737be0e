// Package talk defines the types of a turn: a person's message and the bot's answer.
//
// A channel (glasses, a voice board, the command line) makes a [Turn] of what a person said. A
// [Bot] answers it with a sequence of [Event]s. This package does not know how turns are
// transported, and imports no other package of the project but the catalog of texts.
package talk

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/i18n"
)

// Bot answers turns.
//
// Answer calls emit for each piece, in order, from one goroutine at a time, and returns when the
// answer ends: nil if it is complete (it may be empty), or an error. An error that is or wraps a
// *[Failure] has the sentence for the person; any other error becomes [BotFailed].
//
// When ctx ends or emit returns an error, Answer stops and returns that error. The turn is
// read-only. A Bot serves several turns concurrently, up to the limits it was registered with.
type Bot interface {
	Answer(ctx context.Context, turn *Turn, emit Emit) error
}

// Emit takes one piece of an answer. An error means that the asker wants no more. The callee must
// not keep the event after it returns.
type Emit func(Event) error

// Turn is one message of a person to a bot. The whole answer, as events, belongs to the turn.
type Turn struct {
	// ID is globally unique (UUIDv7). It is opaque to bots, which may pass it to their peer as
	// a session or request id.
	ID string `json:"id"`
	// Bot is the number of the bot that is asked.
	Bot int64 `json:"bot"`
	// Channel is the way the turn came in: "lingzhu", "cli", ….
	Channel string `json:"channel"`
	// Person identifies an asker of a bot and is stable over time, for example
	// "lingzhu:<publisher>:<user id>". It is empty if the channel does not know the asker.
	Person string `json:"person,omitempty"`
	// Asker is the id of the account that asks; empty: it is not known, as with those who were
	// bound to a bot by a code, and they count as the bot's owner.
	Asker string `json:"asker,omitempty"`
	// ActsFor is the id of the account for which the bot calls tools, if its owner shares it with
	// the asker; empty: for its owner. The hub sets it.
	ActsFor string `json:"acts_for,omitempty"`
	// Address is the network address of the asker, if the channel knows it. It is used in the
	// audit trail only.
	Address string `json:"address,omitempty"`
	// Conversation groups turns that share a context. History is kept per
	// (Bot, Person, Conversation).
	Conversation string `json:"conversation,omitempty"`
	// Session identifies one sitting of a conversation that goes on for months, such as that with a
	// voice board: what was begun in it, and not finished, does not go on in the next. Empty: the
	// conversation is a sitting.
	Session string `json:"session,omitempty"`
	// Depth is the number of bots in the chain behind the turn; 0 for a person.
	Depth int `json:"depth,omitempty"`
	// KeyRules are the stored rules of the key of the request: in this turn the bot may not
	// call tools that they forbid. Empty for a person, and for a key without rules.
	KeyRules string `json:"bound,omitempty"`
	// BotOnly is true if a program asks with a key for this bot alone. It then has no access
	// to other data of the bot's owner, such as Learn.
	BotOnly bool `json:"alone,omitempty"`
	// Lang is the language of texts for the person.
	Lang i18n.Lang `json:"lang"`
	// Parts are the parts of the message, in order; never empty.
	Parts []Part `json:"parts"`
	// Commands are the names of the commands that the asker's device supports. Other commands
	// that a bot emits are dropped.
	Commands []string `json:"commands,omitempty"`
	// Metadata is what the device reported about itself, unchanged; nil if nothing.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Request is the W3C traceparent of the HTTP request, if its sender set one. A repeated
	// request has the same value.
	Request string `json:"request,omitempty"`
	// AgentID is the id of the agent at the asker's platform (Lingzhu), if there is one. Bots
	// may pass it on, but not interpret it.
	AgentID string `json:"agent_id,omitempty"`
	// UserID is the asker's id at their platform (Lingzhu), if there is one.
	UserID string `json:"user_id,omitempty"`
	// Commit waits until it is certain that this is what the person says: a voice board asks before
	// they have finished, to answer sooner. Until then nothing may be done that has an effect, such
	// as a call of a tool; texts may be emitted. Its error is [ErrRevised] if the person said
	// something else, or that of ctx; it never changes, and Commit does not wait once it is known.
	// Nil: it is certain.
	Commit func(ctx context.Context) error `json:"-"`
	// Heard waits until the answer was played, and returns what the person heard of it; whole
	// reports whether that is all. It is called once, when the bot has answered or was stopped.
	// Nil: they get all of it.
	Heard func() (text string, whole bool) `json:"-"`
	// AwaitsAnswer is called before the end of an answer to which the person is expected to reply,
	// whatever the words are: “goodbye” may be the answer to a question. Nil: nobody cares.
	AwaitsAnswer func() `json:"-"`
	// UsesTool is told of each call of a tool by the bot, when it begins and when it has ended. It
	// may be called by several goroutines at once. Nil: nobody cares.
	UsesTool func(ToolUse) `json:"-"`
	// UsesModel is told of each request of the bot to its model, when it has ended. Nil: nobody
	// cares.
	UsesModel func(ModelUse) `json:"-"`
	// VoiceTimes returns when the stages of a spoken turn were reached, for its record. It is
	// called after Heard. Nil: nobody spoke.
	VoiceTimes func() *VoiceTimes `json:"-"`
	// Spoken is set if the person asks aloud, and hears the answer: the turn then has no parts.
	// Only a [DuplexBot] of this instance gets such turns.
	Spoken *Spoken `json:"-"`
	// History is the earlier messages of this conversation, oldest first, as far as the hub
	// keeps them. This turn is not part of it.
	History []Message `json:"history,omitempty"`
}

// ToolUse is a call of a tool by a bot.
type ToolUse struct {
	ID    string // of the call; unique
	Name  string // by which the bot calls it
	Args  json.RawMessage
	Ended bool
	// Result is what the bot gets, as text of up to [MaxToolResult] bytes; empty until the end.
	Result string
	Failed bool
}

// ModelUse is a request of a bot to its model, which has ended.
type ModelUse struct {
	Model string // name
	// Took is the time to the end of the response, and First that to its first piece; 0: none came.
	Took, First time.Duration
	// Input and Output are tokens; 0: the server did not say.
	Input, Output int
	Failed        bool
}

// MaxToolResult limits [ToolUse.Result], in bytes.
const MaxToolResult = 8 << 10

// Text returns the text parts of the turn, joined by line breaks.
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

// Images returns the images among the parts, in order.
func (t *Turn) Images() []*Image {
	var out []*Image
	for _, p := range t.Parts {
		if p.Image != nil {
			out = append(out, p.Image)
		}
	}
	return out
}

// ConversationKey identifies the conversation: it is unique for its name and the person.
// Unidentified people without a conversation do not share one.
func (t *Turn) ConversationKey() string {
	person := t.Person
	if person == "" && t.Conversation == "" {
		person = t.ID
	}
	return strconv.Itoa(len(person)) + ":" + person + t.Conversation
}

// Can reports whether the asker's device supports the named command.
func (t *Turn) Can(command string) bool {
	for _, c := range t.Commands {
		if c == command {
			return true
		}
	}
	return false
}

// Part is a part of a message: text or an image, not both.
type Part struct {
	Text  string `json:"text,omitempty"`
	Image *Image `json:"image,omitempty"`
}

// Image is an image that was validated on arrival: MIME was detected from its bytes.
type Image struct {
	// MIME is image/webp, image/jpeg, image/png or image/gif.
	MIME string `json:"mime"`
	// Data is the encoded image. It is not sent between instances; the other instance loads it
	// from the store.
	Data []byte `json:"-"`
	// Media is the secret part of the image's URL, <public_url>/media/<Media>, which is valid
	// for a short time. Empty if the image was not stored.
	Media string `json:"media,omitempty"`
}

// Message is one side of an earlier turn.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"text"`
}

// Role is the sender of a [Message].
type Role string

// The two sides of a conversation.
const (
	RolePerson Role = "person"
	RoleBot    Role = "bot"
)

// Kind is the type of an [Event].
type Kind uint8

// Kinds of events. The zero Kind is invalid.
const (
	// KindText is a piece of the answer, in Event.Text.
	KindText Kind = iota + 1
	// KindNote is a progress note ("looking it up…"), in Event.Text. The person sees it, but it
	// is not part of the answer and not stored.
	KindNote
	// KindCommand is a command for the device, in Event.Command.
	KindCommand
	// KindSuggest is up to three suggested next questions, in Event.Suggest.
	KindSuggest
	// KindStalled says that the bot may not go on for a while, or never: the next waiting turn may
	// start. It ends at the bot's queue and reaches nobody.
	KindStalled
	// KindTranscript is what the person said in a turn by sound, in Event.Text.
	KindTranscript
	// KindComplete says that the bot has emitted all of its answer. Only a bot whose answer can be
	// resumed emits it, see [Cut]. It ends at the hub.
	KindComplete
)

// Event is one piece of an answer.
type Event struct {
	Kind    Kind     `json:"k"`
	Text    string   `json:"t,omitempty"`
	Command *Command `json:"c,omitempty"`
	Suggest []string `json:"s,omitempty"`
	// Waiting is set in a note that tells what the person waits for. They are told again from time
	// to time, until the next event.
	Waiting bool `json:"w,omitempty"`
	// Mark is set in a text of an answer that can be resumed: how far the answer is with it, in the
	// bot's own measure. See [Cut].
	Mark int64 `json:"m,omitempty"`
}

// Text returns an event with a piece of the answer.
func Text(s string) Event { return Event{Kind: KindText, Text: s} }

// Note returns an event with a progress note.
func Note(s string) Event { return Event{Kind: KindNote, Text: s} }

// Waiting returns an event with a progress note that tells what the person waits for.
func Waiting(s string) Event { return Event{Kind: KindNote, Text: s, Waiting: true} }

// Complete returns an event that says that the answer is complete.
func Complete() Event { return Event{Kind: KindComplete} }

// Stalled returns an event that lets the next waiting turn start.
func Stalled() Event { return Event{Kind: KindStalled} }

// Transcript returns an event with what the person said.
func Transcript(s string) Event { return Event{Kind: KindTranscript, Text: s} }

// DoCommand returns an event with a command for the device.
func DoCommand(c Command) Event { return Event{Kind: KindCommand, Command: &c} }

// Suggest returns an event with suggested next questions.
func Suggest(s ...string) Event { return Event{Kind: KindSuggest, Suggest: s} }

// Command is a command for the asker's device.
type Command struct {
	// Name is one of the Command… constants, or a name that both the bot and the channel
	// know.
	Name string `json:"name"`
	// Args are the arguments, with the names of Lingzhu's tool_call object: action, poi_name,
	// navi_type, title, start_time, end_time.
	Args map[string]string `json:"args,omitempty"`
}

// Commands of the glasses, with the names of the Lingzhu platform.
const (
	CommandTakePhoto = "take_photo"       // no arguments; the photo arrives as a turn of its own
	CommandNavigate  = "take_navigation"  // action open|close, poi_name, navi_type 0 car, 1 walk, 2 bike
	CommandCalendar  = "control_calendar" // action create, title, start_time, end_time ("2006-01-02 15:04")
	CommandLeave     = "notify_agent_off" // no arguments; the device leaves the bot
)
