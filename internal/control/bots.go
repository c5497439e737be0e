package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Health is how the connection of a bot is, for its owner.
type Health struct {
	Connections int       `json:"connections,omitempty"`
	Since       time.Time `json:"connected_since,omitzero"`
	LastSeen    time.Time `json:"last_heard,omitzero"`
	// Gateway is the version of OpenClaw at the far side, if it is known.
	Gateway string   `json:"gateway,omitempty"`
	Problem talk.Say `json:"-"`
	// State is one of the Bot… states, of a bot that we connect to when it is asked.
	State string `json:"state,omitempty"`
	// FailingSince is when the trouble was found.
	FailingSince time.Time `json:"failing_since,omitzero"`
	// Command is what the far side's owner has to run on its machine, if that helps.
	Command string `json:"command,omitempty"`
}

// How a bot is that is connected to when it is asked.
const (
	BotUnasked = "not_asked" // nobody has, since it was set up or its trouble was over
	BotReady   = "ready"
	BotFailing = "failing"
)

// BotStatus is a bot as /api/v1/bots lists it.
type BotStatus struct {
	store.Bot
	Online  bool   `json:"online"`
	Problem string `json:"problem,omitempty"`
	Health
}

// Heard is when anything came from the bot's far side, as far as is known.
func (b BotStatus) Heard() time.Time {
	if b.LastSeen.After(b.Seen) {
		return b.LastSeen
	}
	return b.Seen
}

// BotRef names a bot.
type BotRef struct {
	Bot string `path:"bot"` // number or name
}

// BotList is the bots of somebody.
type BotList struct {
	Bots []BotStatus `json:"bots"`
}

// BotView is all about one bot, but for its secrets.
type BotView struct {
	BotStatus
	Settings map[string]json.RawMessage `json:"settings"` // secrets masked
	Wearers  int                        `json:"wearers"`
	// Dropped are the settings that a change of the address has just taken away, and
	// Notice says so.
	Dropped []string `json:"dropped,omitempty"`
	Notice  string   `json:"notice,omitempty"`
}

var (
	sayNoBot = talk.Say{Zh: "没有机器人 %s。", En: "There is no bot %s."}
	sayOwner = talk.Say{Zh: "新的机器人要有主人：请使用某个人的密钥。", En: "A new bot needs an owner: use a key of a person."}
	sayOnly  = talk.Say{Zh: "这个密钥只用于一个机器人，不能添加别的。", En: "This key is for one bot alone and cannot add another."}
)

// FindBot finds a bot by number or name.
func (s *Service) FindBot(ctx context.Context, c Caller, ref string) (store.Bot, error) {
	b, err := s.Hub.Registry.Find(ctx, c.Owner(), ref)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && c.Only != 0 && b.Number != c.Only:
		return store.Bot{}, Fail(Missing, sayNoBot, ref)
	case err != nil:
		return store.Bot{}, typed(Conflict, err) // several people's bots have the name
	}
	return b, nil
}

// status tells how a bot is.
func (s *Service) status(b store.Bot, l talk.Lang) BotStatus {
	var h Health
	if s.Health != nil {
		h = s.Health(b)
	}
	// A bot that we connect to can always be tried; it is no better than its last answer.
	online := s.Hub.IsReachable(b) && (h.Problem == talk.Say{} || s.Hub.Registry.IsInbound(b.Kind))
	return BotStatus{Bot: b, Online: online, Health: h, Problem: h.Problem.In(l)}
}

// Bots lists the bots of the caller, by number.
func (s *Service) Bots(ctx context.Context, c Caller, _ struct{}) (BotList, error) {
	list, err := s.Hub.Store.Bots.ByOwner(ctx, c.Owner())
	if err != nil {
		return BotList{}, err
	}
	if c.Only != 0 {
		list = slices.DeleteFunc(list, func(b store.Bot) bool { return b.Number != c.Only })
	}
	out := BotList{Bots: make([]BotStatus, len(list))}
	for i, b := range list {
		out.Bots[i] = s.status(b, c.Lang)
	}
	return out, nil
}

// BotsAfter lists the bots of the caller with numbers above one, by number. More says
// that there are others behind them.
func (s *Service) BotsAfter(ctx context.Context, c Caller, number int64,
	limit int) (list []BotStatus, more bool, err error) {
	found, err := s.Hub.Store.Bots.After(ctx, c.Owner(), number, limit+1)
	if err != nil {
		return nil, false, err
	}
	if more = len(found) > limit; more {
		found = found[:limit]
	}
	for _, b := range found {
		if c.Only == 0 || b.Number == c.Only {
			list = append(list, s.status(b, c.Lang))
		}
	}
	return list, more, nil
}

// BotState tells how one bot is.
func (s *Service) BotState(ctx context.Context, c Caller, in BotRef) (BotStatus, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return BotStatus{}, err
	}
	return s.status(b, c.Lang), nil
}

// Bot tells all about one bot.
func (s *Service) Bot(ctx context.Context, c Caller, in BotRef) (BotView, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return BotView{}, err
	}
	v := BotView{BotStatus: s.status(b, c.Lang)}
	if v.Settings, err = s.Hub.Registry.MaskedSettings(b); err != nil {
		return BotView{}, err
	}
	wearers, err := s.Hub.Store.Bindings.ByBot(ctx, b.Number)
	v.Wearers = len(wearers)
	return v, err
}

// WearerCounts says how many wearers each bot of the caller has; those without any are
// left out.
func (s *Service) WearerCounts(ctx context.Context, c Caller) (map[int64]int, error) {
	return s.Hub.Store.Bindings.Counts(ctx, c.Owner())
}

// SettingTexts are settings as people write them. In JSON they may also be numbers,
// truths, lists and objects; null takes a setting away.
type SettingTexts map[string]string

// UnmarshalJSON reads an object.
func (t *SettingTexts) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return talk.Say{Zh: "settings 要是对象", En: "settings are an object"}.Wrong()
	}
	*t = make(SettingTexts, len(raw))
	for name, value := range raw {
		var text string
		switch {
		case string(value) == "null":
		case json.Unmarshal(value, &text) != nil:
			text = string(value)
		}
		(*t)[name] = text
	}
	return nil
}

// NewBot says what bot is wanted.
type NewBot struct {
	Name        string       `json:"name"`
	Kind        string       `json:"kind"`
	Description string       `json:"description,omitempty"`
	Settings    SettingTexts `json:"settings,omitempty"`
}

// AddedBot is a new bot. SDKToken is by what its far side connects, if it does; it is
// told this once.
type AddedBot struct {
	BotStatus
	SDKToken string `json:"sdk_token,omitempty"`
}

// AddBot adds a bot of the caller.
func (s *Service) AddBot(ctx context.Context, c Caller, in NewBot) (AddedBot, error) {
	switch {
	case c.Person == "":
		return AddedBot{}, Fail(Invalid, sayOwner)
	case c.Only != 0:
		return AddedBot{}, Fail(Refused, sayOnly)
	}
	if err := requireUnrestrictedKey(c); err != nil {
		return AddedBot{}, err
	}
	b, token, err := s.Hub.Registry.Add(ctx, hub.NewBot{Owner: c.Person, Name: in.Name, Kind: in.Kind,
		Description: in.Description, Set: in.Settings, By: c.Key})
	if err != nil {
		return AddedBot{}, typed(Invalid, err)
	}
	s.Logger.InfoContext(ctx, "a bot was added", "bot", b.Number, "kind", b.Kind, "person", c.Person,
		"program", c.Program)
	s.RecordAdminEvent(ctx, c, EventBotAdded, aboutBot(b, settingNames(in.Settings)...))
	return AddedBot{s.status(b, c.Lang), token}, nil
}

// BotChange says what to change about a bot; what is missing stays. An empty setting is
// taken away.
type BotChange struct {
	Bot         string       `path:"bot" json:"-"`
	Name        *string      `json:"name,omitempty"`
	Description *string      `json:"description,omitempty"`
	Settings    SettingTexts `json:"settings,omitempty"`
}

// ChangeBot changes a bot. Answers that run go on as they began.
func (s *Service) ChangeBot(ctx context.Context, c Caller, in BotChange) (BotView, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return BotView{}, err
	}
	if len(in.Settings) > 0 { // any of them can have it reach further: where it asks, what it calls, who asks it
		if err := requireUnrestrictedKey(c); err != nil {
			return BotView{}, err
		}
	}
	change := hub.Changes{Name: in.Name, Description: in.Description, Set: in.Settings, By: c.Key}
	changed, err := s.Hub.Registry.Change(ctx, b.Number, change)
	if err != nil {
		return BotView{}, typed(Invalid, err)
	}
	s.RecordAdminEvent(ctx, c, EventBotChanged, aboutBot(b, settingNames(in.Settings)...))
	v, err := s.Bot(ctx, c, BotRef{fmt.Sprint(b.Number)})
	v.Dropped, v.Notice = changed.Dropped, droppedSettingsNotice(c.Lang, changed.Dropped)
	return v, err
}

// SayDropped tells which settings are gone since the address has changed.
var SayDropped = talk.Say{
	Zh: "地址换成了另一个，所以为原来的地址保存的 %s 已被移除，不会发送到新地址。如果新地址需要，请重新填写。",
	En: "The address is another one now. So %s, which was kept for the old address, is removed and not sent to the new one. Give it again if the new address needs it.",
}

func droppedSettingsNotice(l talk.Lang, dropped []string) string {
	if len(dropped) == 0 {
		return ""
	}
	return SayDropped.In(l, strings.Join(dropped, ", "))
}

// typed tells what is wrong with what was typed, in the registry's words, if that is
// what an error is about.
func typed(r Reason, err error) error {
	if u, ok := errors.AsType[*hub.InputError](err); ok {
		return said(r, u)
	}
	return err
}

// RemovedBot is a bot that is gone.
type RemovedBot struct {
	ID      int64 `json:"id"`
	Removed bool  `json:"removed"`
}

// RemoveBot removes a bot, with its bindings, conversations and keys of its own.
func (s *Service) RemoveBot(ctx context.Context, c Caller, in BotRef) (RemovedBot, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return RemovedBot{}, err
	}
	if err := s.Hub.Store.Bots.Remove(ctx, b.Number); err != nil {
		return RemovedBot{}, err
	}
	s.disconnectBot(b.Number)
	s.Logger.InfoContext(ctx, "a bot was removed", "bot", b.Number, "person", c.Person, "program", c.Program)
	s.RecordAdminEvent(ctx, c, EventBotRemoved, aboutBot(b))
	return RemovedBot{b.Number, true}, nil
}

// disconnectBot ends the connections of a bot.
func (s *Service) disconnectBot(bot int64) {
	if s.Disconnect != nil {
		s.Disconnect(bot)
	}
}

// RotatedBot is a bot with another token, which is told this once.
type RotatedBot struct {
	ID       int64  `json:"id"`
	SDKToken string `json:"sdk_token"`
}

// RotateBot gives a bot that connects another token. Whoever is connected by the old one
// is disconnected.
func (s *Service) RotateBot(ctx context.Context, c Caller, in BotRef) (RotatedBot, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return RotatedBot{}, err
	}
	if err := requireUnrestrictedKey(c); err != nil { // whoever has the token is the bot
		return RotatedBot{}, err
	}
	token, err := s.Hub.Registry.RotateToken(ctx, b.Number)
	if err != nil {
		return RotatedBot{}, typed(Invalid, err)
	}
	s.disconnectBot(b.Number)
	s.Logger.InfoContext(ctx, "a bot has another token", "bot", b.Number, "person", c.Person, "program", c.Program)
	s.RecordAdminEvent(ctx, c, EventBotToken, aboutBot(b))
	return RotatedBot{b.Number, token}, nil
}

// aboutBot names a bot in the journal, and which settings are meant; not what they are,
// which can be secret.
func aboutBot(b store.Bot, settings ...string) string {
	return aboutSettings(fmt.Sprintf("#%d %s", b.Number, b.Name), settings)
}

func aboutSettings(of string, settings []string) string {
	if len(settings) == 0 {
		return of
	}
	return of + ": " + strings.Join(settings, ", ")
}

// settingNames are the names of settings, in order.
func settingNames[V any](set map[string]V) []string { return slices.Sorted(maps.Keys(set)) }

// DisconnectedBot is a bot that nothing is connected for now.
type DisconnectedBot struct {
	ID           int64 `json:"id"`
	Disconnected bool  `json:"disconnected"`
}
