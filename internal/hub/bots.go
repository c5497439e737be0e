package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/seal"
	"patchbay/internal/settings"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Kind describes a kind of bot.
type Kind struct {
	Name string
	// Text is what the console says about the kind. Kinds whose settings are shown in several
	// groups have their texts in package console/bots instead.
	Text KindText
	// Settings returns a pointer to the zero value of the kind's settings, a struct with json
	// tags. Secret strings are tagged secret:"true"; a value that is sent to the address in
	// another setting is tagged with that setting's name, to:"base_url". The struct may have a
	// Validate method. Nil means that the kind has no settings of its own.
	Settings func() any
	// Inbound means that the peer initiates the connection, with the bot's token, and its plug
	// attaches it to the hub. Bots of other kinds are made by Build on the instance that asks.
	Inbound bool
	// Speculative means that bots heed [talk.Turn.Commit]. Others are asked when a question is
	// certain.
	Speculative bool
	// Resumes means that bots may go on with an answer when the server has ended; see [talk.Cut].
	Resumes bool
	// Model returns the name of the model that answers, by settings that are decoded as for Build.
	// Nil: it is not known here.
	Model func(settings any) string
	// Sees reports whether a bot with these settings, decoded as for Build, is given pictures, and
	// not only told that there are some. Nil: all are given them.
	Sees func(settings any) bool
	// Build makes a bot from its settings, decoded into the value of Settings.
	Build func(b store.Bot, settings any) (talk.Bot, error)
	// Check checks a bot with valid settings, decoded as for Build. State is the zero value if no
	// server runs. Nil: valid settings are good enough.
	Check func(ctx context.Context, r *check.Report, b store.Bot, settings any, state BotState)
	// Limits are the default limits; the owner of a bot can set others. The zero value means
	// no limits.
	Limits Limits
}

// Limits bound the turns of a bot.
type Limits struct {
	Concurrent int // turns answered concurrently; 0: no limit
	Waiting    int // turns waiting; one more fails with [talk.Busy]
}

// Registry has the kinds of bots and stores the bots. It works without a running hub, so the
// command line can use it on a data folder. It is safe for concurrent use.
type Registry struct {
	db     *store.DB
	box    *seal.Box
	kinds  map[string]Kind
	shared []func() any

	decoded sync.Map // settingsKey → decoded
}

// NewRegistry returns a registry. Shared are settings, besides [Common], that bots of all kinds
// can have; each is like [Kind].Settings.
func NewRegistry(db *store.DB, box *seal.Box, kinds []Kind, shared ...func() any) *Registry {
	r := &Registry{db: db, box: box, kinds: map[string]Kind{},
		shared: append([]func() any{func() any { return new(Common) }}, shared...)}
	for _, k := range kinds {
		r.kinds[k.Name] = k
	}
	return r
}

// Kinds returns the names of all kinds.
func (r *Registry) Kinds() []string {
	var names []string
	for name := range r.kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Kind returns the kind with a name.
func (r *Registry) Kind(name string) (Kind, error) {
	k, ok := r.kinds[name]
	if !ok {
		return Kind{}, problem.New(problem.Invalid, msgNoKind, name, strings.Join(r.Kinds(), ", "))
	}
	return k, nil
}

func (r *Registry) schema(k Kind) settings.Schema {
	s := slices.Clone(r.shared)
	if k.Settings != nil {
		s = append(s, k.Settings)
	}
	return s
}

// Errors about the input for a bot.
const (
	msgNoKind         = i18n.Message("no kind of bot is called %q; there are %s")
	msgBotThere       = i18n.Message("there is a bot named %q already")
	msgNoOwner        = i18n.Message("the bot's owner does not exist")
	msgBotClash       = i18n.Message("another bot has that name, or somebody else changed this one at the same moment; look again and repeat")
	msgNoBotToken     = i18n.Message("bots of kind %s have no token")
	msgBotsNamed      = i18n.Message("%d bots are named %q; use the number")
	msgBotName        = i18n.Message("a bot's name has 1 to 60 characters")
	msgBotNameControl = i18n.Message("a bot's name cannot have control characters")
	msgBotDescription = i18n.Message("a bot's description may have 2,000 bytes at most")
	msgMovedOn        = i18n.Message("%s is for another address than the bot has now")
	msgBotNumber      = i18n.Message("a bot's name cannot be a number: it would be taken for a bot's number")
)

// NewBot describes a bot to add.
type NewBot struct {
	Owner       string // person id
	Name        string
	Kind        string
	Description string
	Set         map[string]string // settings, as text
	By          string            // id of the key that adds it; empty: none
}

// Add adds a bot. For an inbound kind it returns the bot's token, of which only the hash is
// stored.
func (r *Registry) Add(ctx context.Context, n NewBot) (b store.Bot, token string, err error) {
	k, err := r.Kind(n.Kind)
	if err != nil {
		return b, "", err
	}
	if err := checkNameAndDescription(n.Name, n.Description); err != nil {
		return b, "", err
	}
	settings, _, err := r.change(k, nil, n.Set, "")
	if err != nil {
		return b, "", err
	}
	b = store.Bot{Owner: n.Owner, Name: n.Name, Kind: k.Name, Description: n.Description, Settings: settings,
		SetBy: n.By, Created: time.Now()}
	if k.Inbound {
		token = newBotToken()
		b.TokenHash = seal.Hash(token)
	}
	b, err = r.db.Bots.Add(ctx, b)
	switch {
	case errors.Is(err, store.ErrExists):
		return b, "", problem.New(problem.Conflict, msgBotThere, n.Name)
	case errors.Is(err, store.ErrNotFound):
		return b, "", problem.New(problem.Invalid, msgNoOwner)
	}
	return b, token, err
}

// Changes are changes to a bot; nil and empty fields leave a value as it is.
type Changes struct {
	Name        *string
	Description *string
	Set         map[string]string // an empty text removes the setting
	By          string            // id of the key that makes them; empty: none
	// ForAddress is the address from which the values in Set were obtained. They are not
	// applied if the bot has another address now. It may be empty.
	ForAddress string
}

// Changed is a changed bot.
type Changed struct {
	store.Bot
	// Dropped are settings for the bot's previous address that were not given again: they were
	// removed, so that they are not sent to the new address.
	Dropped []string `json:"dropped,omitempty"`
}

// Change changes a bot. Running turns keep the settings they started with.
func (r *Registry) Change(ctx context.Context, number int64, c Changes) (b Changed, err error) {
	if b.Bot, err = r.db.Bots.ByNumber(ctx, number); err != nil {
		return b, err
	}
	k, err := r.Kind(b.Kind)
	if err != nil {
		return b, err
	}
	if c.Name != nil {
		b.Name = *c.Name
	}
	if c.Description != nil {
		b.Description = *c.Description
	}
	if err := checkNameAndDescription(b.Name, b.Description); err != nil {
		return b, err
	}
	if b.Settings, b.Dropped, err = r.change(k, b.Settings, c.Set, c.ForAddress); err != nil {
		return b, err
	}
	if len(c.Set) > 0 && c.ForAddress == "" { // values from a peer are not a choice of the owner
		b.SetBy = c.By
	}
	if err := r.db.Bots.Save(ctx, b.Bot); errors.Is(err, store.ErrExists) {
		return b, problem.New(problem.Conflict, msgBotClash)
	} else if err != nil {
		return b, err
	}
	b.Version++
	return b, nil
}

// RotateToken replaces the token of an inbound bot. The old token is refused from now on.
func (r *Registry) RotateToken(ctx context.Context, number int64) (token string, err error) {
	b, err := r.db.Bots.ByNumber(ctx, number)
	if err != nil {
		return "", err
	}
	if k, err := r.Kind(b.Kind); err != nil || !k.Inbound {
		return "", problem.New(problem.Invalid, msgNoBotToken, b.Kind)
	}
	token = newBotToken()
	b.TokenHash = seal.Hash(token)
	return token, r.db.Bots.Save(ctx, b)
}

// ByToken returns the bot with a token, or [store.ErrNotFound].
func (r *Registry) ByToken(ctx context.Context, token string) (store.Bot, error) {
	return r.db.Bots.ByTokenHash(ctx, seal.Hash(token))
}

// Find returns a bot by its number or by its name among the bots of an owner; an empty owner means
// the bots of everybody.
func (r *Registry) Find(ctx context.Context, owner, ref string) (store.Bot, error) {
	if n, err := strconv.ParseInt(ref, 10, 64); err == nil {
		b, err := r.db.Bots.ByNumber(ctx, n)
		if err == nil && owner != "" && b.Owner != owner {
			err = store.ErrNotFound
		}
		return b, err
	}
	bots, err := r.db.Bots.ByOwner(ctx, owner)
	if err != nil {
		return store.Bot{}, err
	}
	return named(bots, ref)
}

// FindUsable is Find for a bot that a person may ask: one of their own, or one that its owner
// shares with them. Of two with one name it is their own.
func (r *Registry) FindUsable(ctx context.Context, person, ref string) (store.Bot, error) {
	b, err := r.Find(ctx, person, ref)
	if person == "" || !errors.Is(err, store.ErrNotFound) {
		return b, err
	}
	shared, err := r.db.Bots.SharedWith(ctx, person)
	if err != nil {
		return store.Bot{}, err
	}
	if n, bad := strconv.ParseInt(ref, 10, 64); bad == nil {
		i := slices.IndexFunc(shared, func(b store.Bot) bool { return b.Number == n })
		if i < 0 {
			return store.Bot{}, store.ErrNotFound
		}
		return shared[i], nil
	}
	return named(shared, ref)
}

// named returns the bot with a name.
func named(bots []store.Bot, name string) (store.Bot, error) {
	var found []store.Bot
	for _, b := range bots {
		if strings.EqualFold(b.Name, name) {
			found = append(found, b)
		}
	}
	switch len(found) {
	case 0:
		return store.Bot{}, store.ErrNotFound
	case 1:
		return found[0], nil
	}
	return store.Bot{}, problem.New(problem.Conflict, msgBotsNamed, len(found), name)
}

// Settings decodes a bot's settings, with secrets in clear text, into a struct such as those of a
// [Kind] or of [NewRegistry]. What its pointers, slices and maps refer to is shared and must not
// be changed.
func (r *Registry) Settings(b store.Bot, into any) error {
	target := reflect.ValueOf(into).Elem()
	key := settingsKey{b.Number, target.Type()}
	if have, ok := r.decoded.Load(key); ok && have.(decoded).version == b.Version {
		target.Set(have.(decoded).value)
		return nil
	}
	if err := r.decode(b, into); err != nil {
		return fmt.Errorf("bot %d: settings: %w", b.Number, err)
	}
	value := reflect.New(target.Type()).Elem()
	value.Set(target)
	r.decoded.Store(key, decoded{b.Version, value})
	return nil
}

// settingsKey and decoded are the key and value of the cache of Settings. An entry is valid until
// the bot changes.
type settingsKey struct {
	bot int64
	typ reflect.Type
}

type decoded struct {
	version int64
	value   reflect.Value
}

func (r *Registry) decode(b store.Bot, into any) error {
	k, err := r.Kind(b.Kind)
	if err != nil {
		return err
	}
	raw, err := r.schema(k).Unseal(r.box, b.Settings)
	if err != nil {
		return err
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// MaskedSettings returns a bot's settings with masked secrets, for display.
func (r *Registry) MaskedSettings(b store.Bot) (map[string]json.RawMessage, error) {
	k, err := r.Kind(b.Kind)
	if err != nil {
		return nil, err
	}
	values := settings.Values{}
	if err := json.Unmarshal(b.Settings, &values); err != nil {
		return nil, err
	}
	return values, r.schema(k).Mask(values, settings.Masked)
}

// build makes a bot of a kind that is not inbound.
func (r *Registry) build(b store.Bot, k Kind) (talk.Bot, error) {
	var settings any
	if k.Settings != nil {
		settings = k.Settings()
		if err := r.Settings(b, settings); err != nil {
			return nil, err
		}
	}
	return k.Build(b, settings)
}

// change returns stored settings with changes. If from is not empty, the secrets among the changes
// may only be sent to the origin of this address.
func (r *Registry) change(k Kind, stored json.RawMessage, set map[string]string,
	from string) (changed json.RawMessage, dropped []string, err error) {
	s := r.schema(k)
	values, err := s.Unseal(r.box, stored)
	if err != nil {
		return nil, nil, err
	}
	for name := range set {
		f, err := s.Field(name)
		if err == nil && from != "" && f.AddressField != "" && values.Origin(f) != seal.Origin(from) {
			err = msgMovedOn.Errorf(name)
		}
		if err != nil {
			return nil, nil, problem.Wrap(problem.Invalid, err)
		}
	}
	if dropped, err = s.Change(values, set); err == nil {
		err = s.Validate(values)
	}
	if err != nil {
		return nil, nil, problem.Wrap(problem.Invalid, err)
	}
	changed, err = s.Seal(r.box, values)
	return changed, dropped, err
}

func checkNameAndDescription(name, description string) error {
	switch {
	case strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > 60 || !utf8.ValidString(name):
		return problem.New(problem.Invalid, msgBotName)
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }):
		return problem.New(problem.Invalid, msgBotNameControl)
	case len(description) > 2000:
		return problem.New(problem.Invalid, msgBotDescription)
	}
	if _, err := strconv.ParseInt(name, 10, 64); err == nil {
		return problem.New(problem.Invalid, msgBotNumber)
	}
	return nil
}

// newBotToken returns a token in the format of the plugins: 64 hex digits.
func newBotToken() string { return seal.Hash(seal.NewToken(32)) }
