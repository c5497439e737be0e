// Package control is what people do with their installation: see and change their bots,
// devices, keys, tools and records. The pages of the console and /api/v1 are two ways to
// it; each function takes who asks, and neither shows nor touches what is another's.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

// Options make a [Service]. Board, Accounts and Version are required.
type Options struct {
	Hub      *hub.Hub
	Accounts *account.Service
	Logger   *slog.Logger // nil discards
	Version  string
	// Instance is what the installation knows about itself.
	Instance Instance
	// PublicURL is where others reach the server; empty if nobody has said so.
	PublicURL string
	// Health tells how the connection of a bot is.
	Health func(store.Bot) Health
	// Disconnect ends the connections of a bot, which was removed or has another
	// token now.
	Disconnect func(bot int64)
	// Upstream tells how the connection of an upstream is.
	Upstream func(store.Upstream) UpstreamHealth
	// Upstreams does with upstreams what takes knowing their kinds.
	Upstreams UpstreamActions
	// Points is Learn; nil: there is none.
	Points *learn.Service
	// Due tells how many reviews Learn has for a person today. If it is nil, nobody knows.
	Due func(ctx context.Context, person string) (int, error)
	// Listen writes what a device hears to w, as an Ogg stream, until ctx ends or the
	// device ends it. Its error is told as it says if it is, or wraps, a *tool.Error.
	// If it is nil, there is nothing to be listened to.
	Listen func(ctx context.Context, device int64, who tool.Caller, w io.Writer) error
	// Hear is Listen for browsers, as a WAV stream: they play Ogg half a minute late. It
	// is there whenever Listen is.
	Hear func(ctx context.Context, device int64, who tool.Caller, w io.Writer) error
	// Nodes does something about OpenClaw's nodes. Its error is told as it says if it
	// is, or wraps, a [*NodeError].
	Nodes func(context.Context, NodeAction) (json.RawMessage, error)
	// NodePolicy is what the settings say about commands of nodes.
	NodePolicy NodePolicy
	// Transport is how a device connects, given what its owner chose; empty: nothing.
	Transport func(chosen string) string
	// Retention is what is recorded.
	Retention RetentionPolicy
}

// Service is what people can do. It is safe for concurrent use.
type Service struct {
	Options
	days     days
	samples  samples
	refusals refusals
	copying  chan struct{} // holds who makes or reads a backup
}

// New makes a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{Options: o, copying: make(chan struct{}, 1)}
}

// Caller is who asks.
type Caller struct {
	Person string // an id; empty: the operator of this machine, by the command line
	// Admin says that everybody's things are the caller's to run.
	Admin bool
	Key   string // id of the key that was shown; empty: a browser
	Only  int64  // the only bot that the key opens; 0: any
	// Ends is when the key expires; zero: never.
	Ends time.Time
	// Rules of the key, as kept: which tools it may call. One for a single bot may call no
	// more than those that ask it.
	Rules string
	// Bound are the rules, as kept, that bind the bots that the caller asks.
	Bound string
	// Program is by what the caller acts, for the audit trail: "api" or "console".
	Program string
	// Agent is what the program or browser calls itself, and Address from which it comes.
	Agent, Address string
	// Lang is the language that the caller is told things in.
	Lang talk.Lang
}

// Owner is whose things the caller sees; empty: everybody's.
func (c Caller) Owner() string {
	if c.Admin {
		return ""
	}
	return c.Person
}

// ActsFor is who acts, for the audit trail, when the caller uses a tool of somebody's:
// nobody else than the owner, another person, or whoever runs the machine.
func (c Caller) ActsFor(owner string) string {
	switch c.Person {
	case owner:
		return ""
	case "":
		return actorMachine
	}
	return c.Person
}

// actorMachine is whoever runs the machine, as the audit trail has them.
const actorMachine = "-"

// Rules of people: whoever runs the board, by the command line or pages, gets what is
// for people.
var PeoplesRules = hub.Rules{People: true}.String()

// Reason is the kind of an [Error], from which a handler derives its status.
type Reason string

// The reasons there are.
const (
	Invalid  Reason = "invalid"   // what was given makes no sense; it says what would
	Refused  Reason = "refused"   // the caller may not do it
	Missing  Reason = "missing"   // it does not exist, or is another's
	Conflict Reason = "conflict"  // something else is in the way
	TooMany  Reason = "too_many"  // it was tried too often
	TooLarge Reason = "too_large" // more than fits
	Away     Reason = "away"      // what should do it is not there now
	Late     Reason = "late"      // what should do it took too long
)

// Error is why something was not done, in words for whoever wanted it.
type Error struct {
	Reason Reason
	Say    talk.Say
	Args   []any // of Say
	Cause  error // for the log; may be nil
}

// Error implements error, in English.
func (e *Error) Error() string { return e.Say.In(talk.English, e.Args...) }

// In is the error in a language.
func (e *Error) In(l talk.Lang) string { return e.Say.In(l, e.Args...) }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Fail makes an error.
func Fail(r Reason, s talk.Say, args ...any) *Error { return &Error{Reason: r, Say: s, Args: args} }

// AsError finds the words for an error, if there are some; otherwise it is our own
// fault, and nil.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	switch store.ClassifyError(err) {
	case store.ErrDiskFull:
		return &Error{Reason: Away, Say: sayDiskFull, Cause: err}
	case store.ErrDisk:
		return &Error{Reason: Away, Say: sayDiskBad, Cause: err}
	}
	return nil
}

// What somebody is told whose wish could not be written down.
var (
	sayDiskFull = talk.Say{Zh: "服务器的磁盘已满，没有保存。请告诉管理员。",
		En: "The server's disk is full, and nothing was saved. Tell whoever runs it."}
	sayDiskBad = talk.Say{Zh: "服务器的磁盘出错，没有保存。请告诉管理员。",
		En: "The server's disk reports errors, and nothing was saved. Tell whoever runs it."}
)

// said are the words of an error about what was typed: those of the board, the accounts
// and plugs, which have them in both languages if they are, or wrap, a [talk.Wrong].
func said(r Reason, err error) *Error {
	for of, say := range chosenWrong {
		if errors.Is(err, of) {
			return &Error{Reason: r, Say: say, Cause: err}
		}
	}
	return &Error{Reason: r, Say: talk.Say{Zh: "%v", En: "%v"}, Args: []any{err}, Cause: err}
}

var (
	sayNameEmpty     = talk.Say{Zh: "名称不能为空。", En: "A name cannot be empty."}
	sayNameLong      = talk.Say{Zh: "名称最多 60 个字符。", En: "A name may have 60 characters at most."}
	sayNameControl   = talk.Say{Zh: "名称里不能有控制字符。", En: "A name cannot have control characters."}
	sayPasswordEmpty = talk.Say{Zh: "密码不能为空。", En: "A password cannot be empty."}
	sayPasswordShort = talk.Say{Zh: "密码至少要有 8 个字符。", En: "A password needs at least 8 characters."}
	sayPasswordUsual = talk.Say{Zh: "这个密码太常见，别人一猜就中；请换一个。",
		En: "The password is too common, and guessed first; choose another."}
	sayPasswordLong = talk.Say{Zh: "密码最多 1024 字节。", En: "A password may have 1,024 bytes at most."}
)

// chosenWrong says in both languages what is wrong with names and passwords.
var chosenWrong = map[error]talk.Say{
	account.ErrNameEmpty:     sayNameEmpty,
	account.ErrNameLong:      sayNameLong,
	account.ErrNameControl:   sayNameControl,
	account.ErrPasswordEmpty: sayPasswordEmpty,
	account.ErrPasswordShort: sayPasswordShort,
	account.ErrPasswordLong:  sayPasswordLong,

	account.ErrPasswordCommon: sayPasswordUsual,
}

// botNames are the names by number of somebody's bots; of everybody's, for an empty owner.
func botNames(ctx context.Context, db *store.DB, owner string) (map[int64]string, error) {
	bots, err := db.Bots.ByOwner(ctx, owner)
	byNumber := make(map[int64]string, len(bots))
	for _, b := range bots {
		byNumber[b.Number] = b.Name
	}
	return byNumber, err
}

// names are the people's names by id.
func (s *Service) names(ctx context.Context) (map[string]string, error) {
	people, err := s.Hub.Store.People.All(ctx)
	byID := make(map[string]string, len(people))
	for _, p := range people {
		byID[p.ID] = p.Name
	}
	return byID, err
}
