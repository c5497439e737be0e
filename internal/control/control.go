// Package control has the use cases of an installation: what people read and change about their
// bots, devices, keys, tools and records. The console and /api/v1 both call it. Each function takes
// the caller, and returns and changes only what that caller may see.
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
	"patchbay/internal/i18n"
	"patchbay/internal/mcpregistry"
	"patchbay/internal/oauth"
	"patchbay/internal/oidc"
	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Options configures a [Service]. Hub, Accounts and Version are required.
type Options struct {
	Hub      *hub.Hub
	Accounts *account.Service
	Logger   *slog.Logger // nil discards
	Version  string
	// Instance describes the running server.
	Instance Instance
	// PublicURL is the address under which others reach the server; empty if it is not configured.
	PublicURL string
	// Health returns the state of a bot's connection.
	Health func(store.Bot) Health
	// Disconnect closes the connections of a bot that was removed or got another token.
	Disconnect func(bot int64)
	// Upstream returns the state of an upstream's connection, that of its owner or of a person with
	// whom it is shared.
	Upstream func(u store.Upstream, person string) UpstreamHealth
	// UpstreamSignIns signs people in to tool servers.
	UpstreamSignIns SignInActions
	// Upstreams are the operations on upstreams that depend on their kind.
	Upstreams UpstreamActions
	// Registry is where tool servers are searched for; nil if there is none.
	Registry *mcpregistry.Client
	// Look searches this machine and its network for what could be plugged in; nil finds nothing.
	Look func(context.Context) []Discovery
	// Voice are the operations on speech engines that depend on their kind.
	Voice VoiceActions
	// SecretActions are the operations on the secrets of the installation.
	SecretActions SecretActions
	// Points is Learn; nil if there is none.
	Points *learn.Service
	// ImportSize is the maximum size of a file with points, in bytes.
	ImportSize int64
	// Due returns the number of reviews that Learn has for a person today; nil without Learn.
	Due func(ctx context.Context, person string) (int, error)
	// Listen writes what a device hears to w, as an Ogg stream, until ctx or the device ends it.
	// The text of its error is shown if it is, or wraps, a *tool.Error. Nil if listening is not
	// available.
	Listen func(ctx context.Context, device int64, who tool.Caller, w io.Writer) error
	// Hear is Listen for browsers, as a WAV stream, because browsers buffer half a minute of Ogg.
	// It is set whenever Listen is.
	Hear func(ctx context.Context, device int64, who tool.Caller, w io.Writer) error
	// Nodes executes operations on OpenClaw's nodes. The text of its error is shown if it is, or
	// wraps, a [*NodeError].
	Nodes func(context.Context, NodeAction) (json.RawMessage, error)
	// NodePolicy is the configured policy for commands of nodes.
	NodePolicy NodePolicy
	// Transport returns the transport of a device, given its owner's choice; empty if there is
	// none.
	Transport func(chosen string) string
	// BoardVoice describes how devices hear and speak; zero if there are no voice boards.
	BoardVoice VoiceOptions
	// OAuth lets programs in by consent.
	OAuth *oauth.Service
	// OIDC is the OpenID provider at which people may sign in; nil if there is none.
	OIDC *oidc.Provider
	// Retention is the configured retention of records.
	Retention RetentionPolicy
}

// Service implements the use cases. It is safe for concurrent use.
type Service struct {
	Options
	days     days
	samples  samples
	refusals refusals
	found    discoveries
	copying  chan struct{} // holds a value while a backup is made or read
}

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{Options: o, copying: make(chan struct{}, 1)}
}

// Caller identifies who calls.
type Caller struct {
	Person string // id; empty: the operator of this machine, through the command line
	// Admin gives access to what belongs to others.
	Admin bool
	Key   string // id of the presented key; empty: a browser
	Only  int64  // the only bot that the key may use; 0: any
	// Ends is when the key expires; zero: never.
	Ends time.Time
	// Rules are the stored rules of the key: the tools that it may call. A key for a single bot may
	// call only the tools that talk to that bot.
	Rules string
	// Bound are the stored rules that also apply to the bots that the caller asks.
	Bound string
	// Program is the channel in the audit trail: "api", "cli" or "console".
	Program string
	// Agent is the User-Agent of the program or browser, and Address its network address.
	Agent, Address string
	// Lang is the language of texts for the caller.
	Lang i18n.Lang
	// Learn reports whether the key reaches Learn and nothing else.
	Learn bool
	// actor is who calls on behalf of the person, for the audit trail; empty: the person.
	actor string
}

// Owner returns the id of the person whose data the caller sees; empty: everybody's.
func (c Caller) Owner() string {
	if c.Admin {
		return ""
	}
	return c.Person
}

// ActsFor returns who calls, for the audit trail, when the caller uses somebody's tool: empty for
// the owner, the id of another person, or [actorMachine].
func (c Caller) ActsFor(owner string) string {
	switch c.Person {
	case owner:
		return ""
	case "":
		return actorMachine
	}
	return c.Person
}

// actorMachine stands for the operator of the machine in the audit trail.
const actorMachine = "-"

// PeoplesRules are the rules of people, who may use tools meant for people: in the console, and on
// the command line.
var PeoplesRules = hub.Rules{People: true}.String()

// AsError returns the error for the caller, or nil if err is an internal error.
func AsError(err error) *problem.Error {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e
	}
	switch store.ClassifyError(err) {
	case store.ErrDiskFull:
		return problem.New(problem.Unavailable, msgDiskFull).Because(err)
	case store.ErrDisk:
		return problem.New(problem.Unavailable, msgDiskBad).Because(err)
	case store.ErrUnreachable:
		return problem.New(problem.Unavailable, msgDatabaseAway).Because(err).RetryIn(databaseRetry)
	}
	return nil
}

// databaseRetry is when to try again after the database did not answer: it is connected to again
// within that time.
const databaseRetry = 5 * time.Second

// Messages for changes that could not be stored.
const (
	msgDiskFull = i18n.Message("The server's disk is full, and nothing was saved. Tell whoever runs it.")
	msgDiskBad  = i18n.Message("The server's disk reports errors, and nothing was saved. Tell whoever runs it.")

	msgDatabaseAway = i18n.Message("The database does not answer just now; try again in a moment. If that was a change, look first whether it was made.")
)

// InputProblem converts an error about input; its text is that of err, translated as far as err is.
func InputProblem(c problem.Code, err error) error {
	for of, message := range chosenWrong {
		if errors.Is(err, of) {
			return problem.New(c, message).Because(err)
		}
	}
	return problem.Wrap(c, err)
}

const (
	msgNameEmpty     = i18n.Message("A name cannot be empty.")
	msgNameLong      = i18n.Message("A name may have 60 characters at most.")
	msgNameControl   = i18n.Message("A name cannot have control characters.")
	msgRoomLong      = i18n.Message("The name of a room may have 60 characters at most.")
	msgRoomControl   = i18n.Message("The name of a room cannot have control characters.")
	msgPasswordEmpty = i18n.Message("A password cannot be empty.")
	msgPasswordShort = i18n.Message("A password needs at least 8 characters.")
	msgPasswordUsual = i18n.Message("The password is too common, and guessed first; choose another.")
	msgPasswordLong  = i18n.Message("A password may have 1,024 bytes at most.")
)

// chosenWrong returns the message about an invalid name, room or password.
var chosenWrong = map[error]i18n.Message{
	account.ErrNameEmpty:     msgNameEmpty,
	account.ErrNameLong:      msgNameLong,
	account.ErrNameControl:   msgNameControl,
	account.ErrRoomLong:      msgRoomLong,
	account.ErrRoomControl:   msgRoomControl,
	account.ErrPasswordEmpty: msgPasswordEmpty,
	account.ErrPasswordShort: msgPasswordShort,
	account.ErrPasswordLong:  msgPasswordLong,

	account.ErrPasswordCommon: msgPasswordUsual,
}

// botNames returns the names of the bots that a person may ask, by number; of everybody's, for an
// empty owner.
func botNames(ctx context.Context, db *store.DB, owner string) (map[int64]string, error) {
	bots, err := db.Bots.Usable(ctx, owner)
	byNumber := make(map[int64]string, len(bots))
	for _, b := range bots {
		byNumber[b.Number] = b.Name
	}
	return byNumber, err
}

// names returns the names of people by id.
func (s *Service) names(ctx context.Context) (map[string]string, error) {
	people, err := s.Hub.Store.People.All(ctx)
	byID := make(map[string]string, len(people))
	for _, p := range people {
		byID[p.ID] = p.Name
	}
	return byID, err
}
