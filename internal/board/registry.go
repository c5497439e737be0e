package board

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"patchbay/internal/seal"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Kind is a kind of bot.
type Kind struct {
	Name string
	// Settings makes the zero value of the kind's settings: a pointer to a
	// struct with json tags, its secret texts tagged secret:"true", and what is sent
	// to the address in another setting tagged with that one's name, to:"base_url". It
	// may have a Validate method. Nil: the kind has no settings of its own.
	Settings func() any
	// Connects: the far side dials in with the bot's token, and its plug attaches
	// it to the board. Other kinds are built by Build wherever they are asked.
	Connects bool
	// Build makes a bot out of its settings, decoded into what Settings made.
	Build func(b store.Bot, settings any) (talk.Bot, error)
	// Limits on turns at a time, unless the owner set others. The zero value is
	// no limit.
	Limits Limits
}

// Limits bound how many turns a bot has at a time.
type Limits struct {
	Concurrent int // answered at a time; 0: any number
	Waiting    int // waiting behind them; one more is refused as [talk.Busy]
}

// Registry knows the kinds of bots there are and keeps the bots. It needs no
// running board, so the command line uses it on a data folder as well. It is
// safe for concurrent use.
type Registry struct {
	db     *store.DB
	box    *seal.Box
	kinds  map[string]Kind
	shared []func() any

	decoded sync.Map // settingsKey → decoded
}

// NewRegistry makes a registry. Shared are further settings that bots of every
// kind can have, beside [Common]; like [Kind].Settings.
func NewRegistry(db *store.DB, box *seal.Box, kinds []Kind, shared ...func() any) *Registry {
	r := &Registry{db: db, box: box, kinds: map[string]Kind{}, shared: append([]func() any{func() any { return new(Common) }}, shared...)}
	for _, k := range kinds {
		r.kinds[k.Name] = k
	}
	return r
}

// Kinds lists the names of all kinds.
func (r *Registry) Kinds() []string {
	var names []string
	for name := range r.kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (r *Registry) kind(name string) (Kind, error) {
	k, ok := r.kinds[name]
	if !ok {
		return Kind{}, unfit(sayNoKind.Wrong(name, strings.Join(r.Kinds(), ", ")))
	}
	return k, nil
}

func (r *Registry) shape(k Kind) shape {
	s := slices.Clone(r.shared)
	if k.Settings != nil {
		s = append(s, k.Settings)
	}
	return s
}

// Unfit is what is wrong with what was given, in words for whoever gave it. Errors that
// are none are somebody else's fault.
type Unfit struct{ error }

// Unwrap gives the cause.
func (u *Unfit) Unwrap() error { return u.error }

// What is wrong with what is said about a bot.
var (
	sayNoKind         = talk.Say{Zh: "没有名为 %q 的机器人种类；有 %s", En: "no kind of bot is called %q; there are %s"}
	sayBotThere       = talk.Say{Zh: "已经有一个叫 %q 的机器人了", En: "there is a bot named %q already"}
	sayNoOwner        = talk.Say{Zh: "机器人的主人不存在", En: "the bot's owner does not exist"}
	sayBotClash       = talk.Say{Zh: "另一个机器人已经叫这个名称，或者有人同时更改了这个机器人；请查看后重试", En: "another bot has that name, or somebody else changed this one at the same moment; look again and repeat"}
	sayNoBotToken     = talk.Say{Zh: "%s 这种机器人没有令牌", En: "bots of kind %s have no token"}
	sayBotsNamed      = talk.Say{Zh: "有 %d 个机器人叫 %q；请使用编号", En: "%d bots are named %q; use the number"}
	sayBotName        = talk.Say{Zh: "机器人的名称要有 1 到 60 个字符", En: "a bot's name has 1 to 60 characters"}
	sayBotNameControl = talk.Say{Zh: "机器人的名称里不能有控制字符", En: "a bot's name cannot have control characters"}
	sayBotDescription = talk.Say{Zh: "机器人的说明最多 2000 字节", En: "a bot's description may have 2,000 bytes at most"}
	sayMovedOn        = talk.Say{Zh: "%s 是为另一个地址准备的，而机器人的地址已经更改", En: "%s is for another address than the bot has now"}
	sayBotNumber      = talk.Say{Zh: "机器人的名称不能是数字，否则会被当成机器人的编号", En: "a bot's name cannot be a number: it would be taken for a bot's number"}
)

func unfit(err error) error {
	if err == nil {
		return nil
	}
	return &Unfit{err}
}

// NewBot says what bot is wanted.
type NewBot struct {
	Owner       string // person id
	Name        string
	Kind        string
	Description string
	Set         map[string]string // settings as text
	By          string            // id of the key by which it is added; empty: none
}

// Add makes a bot. For a kind that connects it returns the token by which it
// does, which is not kept and cannot be shown again.
func (r *Registry) Add(ctx context.Context, n NewBot) (b store.Bot, token string, err error) {
	k, err := r.kind(n.Kind)
	if err != nil {
		return b, "", err
	}
	if err := checkTexts(n.Name, n.Description); err != nil {
		return b, "", err
	}
	settings, _, err := r.change(k, nil, n.Set, "")
	if err != nil {
		return b, "", err
	}
	b = store.Bot{Owner: n.Owner, Name: n.Name, Kind: k.Name, Description: n.Description, Settings: settings, SetBy: n.By, Created: time.Now()}
	if k.Connects {
		token = newBotToken()
		b.TokenHash = seal.Hash(token)
	}
	b, err = r.db.Bots.Add(ctx, b)
	switch {
	case errors.Is(err, store.ErrExists):
		return b, "", unfit(sayBotThere.Wrong(n.Name))
	case errors.Is(err, store.ErrNotFound):
		return b, "", unfit(sayNoOwner.Wrong())
	}
	return b, token, err
}

// Changes are what to change about a bot; nil and empty fields stay.
type Changes struct {
	Name        *string
	Description *string
	Set         map[string]string // an empty text takes the setting away
	By          string            // id of the key by which they are made; empty: none
	// For is the address that the values in Set came from, if they did: they are not
	// taken once the bot has another. It may be empty.
	For string
}

// Changed is a bot that was changed.
type Changed struct {
	store.Bot
	// Dropped are the settings that were given for another address than the bot has now,
	// and were not given again: they are gone, and not sent there.
	Dropped []string `json:"dropped,omitempty"`
}

// Change changes a bot. Running turns keep what they began with.
func (r *Registry) Change(ctx context.Context, number int64, c Changes) (b Changed, err error) {
	if b.Bot, err = r.db.Bots.ByNumber(ctx, number); err != nil {
		return b, err
	}
	k, err := r.kind(b.Kind)
	if err != nil {
		return b, err
	}
	if c.Name != nil {
		b.Name = *c.Name
	}
	if c.Description != nil {
		b.Description = *c.Description
	}
	if err := checkTexts(b.Name, b.Description); err != nil {
		return b, err
	}
	if b.Settings, b.Dropped, err = r.change(k, b.Settings, c.Set, c.For); err != nil {
		return b, err
	}
	if len(c.Set) > 0 && c.For == "" { // what a far side gave is nobody's choice
		b.SetBy = c.By
	}
	if err := r.db.Bots.Save(ctx, b.Bot); errors.Is(err, store.ErrExists) {
		return b, unfit(sayBotClash.Wrong())
	} else if err != nil {
		return b, err
	}
	b.Version++
	return b, nil
}

// Rotate gives a bot that connects a new token; the old one is refused from now on.
func (r *Registry) Rotate(ctx context.Context, number int64) (token string, err error) {
	b, err := r.db.Bots.ByNumber(ctx, number)
	if err != nil {
		return "", err
	}
	if k, err := r.kind(b.Kind); err != nil || !k.Connects {
		return "", unfit(sayNoBotToken.Wrong(b.Kind))
	}
	token = newBotToken()
	b.TokenHash = seal.Hash(token)
	return token, r.db.Bots.Save(ctx, b)
}

// ByToken finds the bot that connects with a token, or [store.ErrNotFound].
func (r *Registry) ByToken(ctx context.Context, token string) (store.Bot, error) {
	return r.db.Bots.ByTokenHash(ctx, seal.Hash(token))
}

// Find finds a bot by number or, among an owner's (everybody's for an empty
// owner), by name.
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
	var found []store.Bot
	for _, b := range bots {
		if strings.EqualFold(b.Name, ref) {
			found = append(found, b)
		}
	}
	switch len(found) {
	case 0:
		return store.Bot{}, store.ErrNotFound
	case 1:
		return found[0], nil
	}
	return store.Bot{}, unfit(sayBotsNamed.Wrong(len(found), ref))
}

// Settings decodes a bot's settings, secrets readable, into a struct such as the
// ones a [Kind] or [NewRegistry] was given. What they point to is shared and must
// not be changed.
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

// settingsKey and decoded are the cache of Settings: one entry for each bot and
// struct, as long as the bot does not change.
type settingsKey struct {
	bot int64
	typ reflect.Type
}

type decoded struct {
	version int64
	value   reflect.Value
}

func (r *Registry) decode(b store.Bot, into any) error {
	k, err := r.kind(b.Kind)
	if err != nil {
		return err
	}
	raw, err := r.shape(k).opened(r.box, b.Settings)
	if err != nil {
		return err
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Shown returns a bot's settings for people to look at, its secrets masked.
func (r *Registry) Shown(b store.Bot) (map[string]json.RawMessage, error) {
	k, err := r.kind(b.Kind)
	if err != nil {
		return nil, err
	}
	raw := map[string]json.RawMessage{}
	if err := json.Unmarshal(b.Settings, &raw); err != nil {
		return nil, err
	}
	return raw, r.shape(k).eachSecret(raw, func(field, string) (string, error) { return "••••••", nil })
}

// build makes a bot of a kind that does not connect.
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

func (r *Registry) change(k Kind, kept json.RawMessage, set map[string]string, from string) (settings json.RawMessage, dropped []string, err error) {
	s := r.shape(k)
	raw, err := s.opened(r.box, kept)
	if err != nil {
		return nil, nil, err
	}
	before := maps.Clone(raw)
	for name, text := range set {
		f, err := s.find(name)
		if err == nil {
			err = s.set(raw, name, text)
		}
		if err == nil && from != "" && f.to != "" && origin(before, f) != seal.Origin(from) {
			err = sayMovedOn.Wrong(name)
		}
		if err != nil {
			return nil, nil, unfit(err)
		}
	}
	dropped = s.dropMoved(before, raw, func(name string) bool { return set[name] != "" })
	if err := s.check(raw); err != nil {
		return nil, nil, unfit(err)
	}
	settings, err = s.sealed(r.box, raw)
	return settings, dropped, err
}

func checkTexts(name, description string) error {
	switch {
	case strings.TrimSpace(name) == "" || utf8.RuneCountInString(name) > 60 || !utf8.ValidString(name):
		return unfit(sayBotName.Wrong())
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }):
		return unfit(sayBotNameControl.Wrong())
	case len(description) > 2000:
		return unfit(sayBotDescription.Wrong())
	}
	if _, err := strconv.ParseInt(name, 10, 64); err == nil {
		return unfit(sayBotNumber.Wrong())
	}
	return nil
}

// newBotToken makes a token in the form the plugins know: 64 hex digits.
func newBotToken() string { return seal.Hash(seal.Token(32)) }
