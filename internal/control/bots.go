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
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/settings"
	"patchbay/internal/store"
)

// Health is the state of a bot's connection, for its owner.
type Health struct {
	Connections int       `json:"connections,omitempty"`
	Since       time.Time `json:"connected_since,omitzero"`
	LastSeen    time.Time `json:"last_heard,omitzero"`
	// Reconnecting reports whether its connection was lost a moment ago, so that it is expected
	// back.
	Reconnecting bool `json:"reconnecting,omitempty"`
	// Gateway is the version of the OpenClaw gateway, if it is known.
	Gateway string    `json:"gateway,omitempty"`
	Problem i18n.Text `json:"-"`
	// State is one of the Bot… states, for a bot that is connected to when it is asked.
	State string `json:"state,omitempty"`
	// FailingSince is when the problem was found.
	FailingSince time.Time `json:"failing_since,omitzero"`
	// Command is a command for the peer's owner to run on its machine, if that helps.
	Command string `json:"command,omitempty"`
	// Code is the kind of a connection problem of a bot of kind openclaw; empty if there is none.
	Code string `json:"code,omitempty"`
	// Certificate is the gateway's certificate that is not accepted; nil: that is not the problem.
	Certificate *Certificate `json:"certificate,omitempty"`
}

// States of a bot that is connected to when it is asked.
const (
	BotUnasked = "not_asked" // not asked since it was set up or since its problem ended
	BotReady   = "ready"
	BotFailing = "failing"
)

// BotStatus is a bot in the list of /api/v1/bots.
type BotStatus struct {
	store.Bot
	OwnerName string `json:"owner_name,omitempty"`
	// Shared means that it belongs to somebody else, who lets the caller ask it.
	Shared  bool   `json:"shared,omitempty"`
	Online  bool   `json:"online"`
	Problem string `json:"problem,omitempty"`
	// Model is the name of the model that answers, if it is set here.
	Model string `json:"model,omitempty"`
	// Recent summarizes the last turns, in lists of bots; nil: there were none, or they were not
	// read.
	Recent *BotRecent `json:"recent,omitempty"`
	Health
}

// Heard is when something last arrived from the bot's peer, if it is known.
func (b BotStatus) Heard() time.Time {
	if b.LastSeen.After(b.Seen) {
		return b.LastSeen
	}
	return b.Seen
}

// BotRef identifies a bot.
type BotRef struct {
	Bot string `path:"bot"` // number or name
}

// BotList is a list of bots.
type BotList struct {
	Bots []BotStatus `json:"bots"`
}

// BotView is a bot, with secrets masked.
type BotView struct {
	BotStatus
	Settings map[string]json.RawMessage `json:"settings"` // secrets masked
	Wearers  int                        `json:"wearers"`
	// SharedWith is who may ask it besides its owner; nil: nobody.
	SharedWith *Sharing `json:"shared_with,omitempty"`
	// Dropped are the settings that were removed because the address changed, which Notice
	// explains.
	Dropped []string `json:"dropped,omitempty"`
	Notice  string   `json:"notice,omitempty"`
}

const (
	msgNoBot = i18n.Message("There is no bot %s.")
	msgOnly  = i18n.Message("This key is for one bot alone and cannot add another.")
)

// FindBot returns a bot of the caller by number or name.
func (s *Service) FindBot(ctx context.Context, c Caller, ref string) (store.Bot, error) {
	b, err := s.Hub.Registry.Find(ctx, c.Owner(), ref)
	return found(c, ref, b, err)
}

// botToAsk returns a bot that the caller may ask: one that FindBot finds, or one that is shared
// with the caller.
func (s *Service) botToAsk(ctx context.Context, c Caller, ref string) (store.Bot, error) {
	b, err := s.Hub.Registry.FindUsable(ctx, c.Owner(), ref)
	return found(c, ref, b, err)
}

// found returns a bot that was looked up for a caller, unless the caller's key is for another one.
func found(c Caller, ref string, b store.Bot, err error) (store.Bot, error) {
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && c.Only != 0 && b.Number != c.Only:
		return store.Bot{}, problem.New(problem.NotFound, msgNoBot, ref)
	case err != nil:
		return store.Bot{}, err
	}
	return b, nil
}

const msgSharedFails = i18n.Message("something is wrong with it; tell %s, who owns it")

// seen is status for a caller, who sees little of a bot that is shared.
func (s *Service) seen(c Caller, b store.Bot, people map[string]string) BotStatus {
	out := s.status(b, c.Lang)
	if isShared(c, b) {
		shown := store.Bot{Number: b.Number, Owner: b.Owner, Name: b.Name, Kind: b.Kind, Description: b.Description,
			Created: b.Created, Seen: b.Seen}
		shared := BotStatus{Bot: shown, Online: out.Online, Shared: true, Health: Health{LastSeen: out.LastSeen,
			Reconnecting: out.Reconnecting, State: out.State}}
		if out.Problem != "" { // the cause may name what is the owner's own
			shared.Problem = msgSharedFails.In(c.Lang, people[b.Owner])
		}
		out = shared
	}
	out.OwnerName = people[b.Owner]
	return out
}

// status returns the state of a bot.
func (s *Service) status(b store.Bot, l i18n.Lang) BotStatus {
	var h Health
	if s.Health != nil {
		h = s.Health(b)
	}
	// A bot that is connected to when it is asked is as good as its last answer.
	online := s.Hub.IsReachable(b) && (h.Problem.IsZero() || s.Hub.Registry.IsInbound(b.Kind))
	return BotStatus{Bot: b, Online: online, Health: h, Problem: h.Problem.In(l), Model: s.Hub.Registry.Model(b)}
}

// Bots lists the bots of the caller, by number, and then those that are shared with the caller,
// with their last turns.
func (s *Service) Bots(ctx context.Context, c Caller, _ struct{}) (BotList, error) {
	bots, err := s.BotStates(ctx, c)
	if err != nil {
		return BotList{}, err
	}
	return BotList{Bots: bots}, s.addRecent(ctx, c, bots)
}

// BotStates is Bots without their last turns.
func (s *Service) BotStates(ctx context.Context, c Caller) ([]BotStatus, error) {
	list, err := s.Hub.Store.Bots.Usable(ctx, c.Owner())
	if err != nil {
		return nil, err
	}
	if c.Only != 0 {
		list = slices.DeleteFunc(list, func(b store.Bot) bool { return b.Number != c.Only })
	}
	people, err := s.names(ctx)
	out := make([]BotStatus, len(list))
	for i, b := range list {
		out[i] = s.seen(c, b, people)
	}
	return out, err
}

// BotsAfter lists the bots that the caller may ask with numbers above one, by number, with their
// last turns. More reports whether others follow.
func (s *Service) BotsAfter(ctx context.Context, c Caller, number int64,
	limit int) (list []BotStatus, more bool, err error) {
	found, err := s.Hub.Store.Bots.After(ctx, c.Owner(), number, limit+1)
	if err != nil {
		return nil, false, err
	}
	if more = len(found) > limit; more {
		found = found[:limit]
	}
	people, err := s.names(ctx)
	if err != nil {
		return nil, false, err
	}
	for _, b := range found {
		if c.Only == 0 || b.Number == c.Only {
			list = append(list, s.seen(c, b, people))
		}
	}
	return list, more, s.addRecent(ctx, c, list)
}

// BotState returns the state of one bot that the caller may ask.
func (s *Service) BotState(ctx context.Context, c Caller, in BotRef) (BotStatus, error) {
	b, err := s.botToAsk(ctx, c, in.Bot)
	if err != nil {
		return BotStatus{}, err
	}
	if !isShared(c, b) {
		return s.status(b, c.Lang), nil
	}
	people, err := s.names(ctx)
	return s.seen(c, b, people), err
}

// Bot returns a bot.
func (s *Service) Bot(ctx context.Context, c Caller, in BotRef) (BotView, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return BotView{}, err
	}
	v := BotView{BotStatus: s.status(b, c.Lang)}
	if v.Settings, err = s.Hub.Registry.MaskedSettings(b); err != nil {
		return BotView{}, err
	}
	people, err := s.names(ctx)
	if err != nil {
		return BotView{}, err
	}
	v.OwnerName = people[b.Owner]
	if v.SharedWith, err = s.sharing(ctx, b, people); err != nil {
		return BotView{}, err
	}
	wearers, err := s.Hub.Store.Bindings.ByBot(ctx, b.Number)
	v.Wearers = len(wearers)
	return v, err
}

// WearerCounts returns the number of wearers of each bot of the caller that has some.
func (s *Service) WearerCounts(ctx context.Context, c Caller) (map[int64]int, error) {
	return s.Hub.Store.Bindings.Counts(ctx, c.Owner())
}

// SettingTexts are settings as text. In JSON they may also be numbers, booleans, arrays and
// objects; null removes a setting.
type SettingTexts map[string]string

// UnmarshalJSON reads an object.
func (t *SettingTexts) UnmarshalJSON(b []byte) error {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return i18n.Message("settings are an object").Errorf()
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

// SettingText returns a value as [SettingTexts] have it: a text as it is, others as JSON.
func SettingText(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, _ := json.Marshal(value) // of texts and numbers
	return string(text)
}

// NewBot describes a bot to add.
type NewBot struct {
	User string `json:"user,omitempty"` // the owner, if an admin names one
	Name string `json:"name"`           // may be empty with a role
	Kind string `json:"kind"`
	// Role is the id of a role whose texts the bot gets where nothing else is given; empty: none.
	// RoleLang is its language; empty: that of the caller.
	Role        string       `json:"role,omitempty"`
	RoleLang    string       `json:"role_lang,omitempty"`
	Description string       `json:"description,omitempty"`
	Settings    SettingTexts `json:"settings,omitempty"`
}

// AddedBot is a new bot. SDKToken is the token that its peer connects with, if it does; it is
// returned only here.
type AddedBot struct {
	BotStatus
	SDKToken string `json:"sdk_token,omitempty"`
}

// AddBot adds a bot of the caller, or of the person that an admin names.
func (s *Service) AddBot(ctx context.Context, c Caller, in NewBot) (AddedBot, error) {
	if c.Only != 0 {
		return AddedBot{}, problem.New(problem.Denied, msgOnly)
	}
	if err := requireUnrestrictedKey(c); err != nil {
		return AddedBot{}, err
	}
	if err := s.mayAdd(c); err != nil {
		return AddedBot{}, err
	}
	owner, err := s.singlePerson(ctx, c, in.User)
	if err != nil {
		return AddedBot{}, err
	}
	if in.Role != "" {
		if err := s.play(c, &in); err != nil {
			return AddedBot{}, err
		}
	}
	s.useOriginalToolNames(owner.ID, hub.Common{}, in.Settings)
	b, token, err := s.Hub.Registry.Add(ctx, hub.NewBot{Owner: owner.ID, Name: in.Name, Kind: in.Kind,
		Description: in.Description, Set: in.Settings, By: c.Key})
	if err != nil {
		return AddedBot{}, err
	}
	s.Logger.InfoContext(ctx, "a bot was added", "bot", b.Number, "kind", b.Kind, "owner", owner.ID,
		"person", c.Person, "program", c.Program)
	s.RecordAdminEvent(ctx, c, EventBotAdded, aboutBot(b, givenNames(in.Settings)...))
	out := AddedBot{s.status(b, c.Lang), token}
	out.OwnerName = owner.Name
	return out, nil
}

// BotChange changes a bot. Missing fields stay; an empty setting is removed.
type BotChange struct {
	Bot         string       `path:"bot" json:"-"`
	Name        *string      `json:"name,omitempty"`
	Description *string      `json:"description,omitempty"`
	Settings    SettingTexts `json:"settings,omitempty"`
}

// ChangeBot changes a bot. Answers in progress continue with the old settings.
func (s *Service) ChangeBot(ctx context.Context, c Caller, in BotChange) (BotView, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return BotView{}, err
	}
	if len(in.Settings) > 0 { // each of them can extend its reach: the address, the tools, who asks it
		if err := requireUnrestrictedKey(c); err != nil {
			return BotView{}, err
		}
		if err := s.mayAdd(c); err != nil {
			return BotView{}, err
		}
	}
	var before hub.Common
	if s.Hub.Registry.Settings(b, &before) != nil {
		before = hub.Common{} // settings that cannot be read are replaced
	}
	s.useOriginalToolNames(b.Owner, before, in.Settings)
	change := hub.Changes{Name: in.Name, Description: in.Description, Set: in.Settings, By: c.Key}
	changed, err := s.Hub.Registry.Change(ctx, b.Number, change)
	if err != nil {
		return BotView{}, err
	}
	s.RecordAdminEvent(ctx, c, EventBotChanged, aboutBot(b, settingNames(in.Settings)...))
	v, err := s.Bot(ctx, c, BotRef{fmt.Sprint(b.Number)})
	v.Dropped, v.Notice = changed.Dropped, droppedSettingsNotice(c.Lang, changed.Dropped)
	return v, err
}

// useOriginalToolNames has settings of a bot name tools by their original names.
func (s *Service) useOriginalToolNames(owner string, before hub.Common, set SettingTexts) {
	for name, had := range map[string][]string{"allow_tools": before.AllowTools, "deny_tools": before.DenyTools,
		"dangerous_tools": before.DangerousTools, "lend_tools": before.LendTools} {
		text := set[name]
		var list []string
		if json.Unmarshal([]byte(text), &list) != nil { // as programs send it
			list = settings.SplitList(text)
		}
		if len(list) > 0 {
			set[name] = strings.Join(s.originalNames(owner, had, list), ",")
		}
	}
}

// MsgDropped lists the settings that were removed because the address changed.
const MsgDropped = i18n.Message("The address is another one now. So %s, which was kept for the old address, is removed and not sent to the new one. Give it again if the new address needs it.")

func droppedSettingsNotice(l i18n.Lang, dropped []string) string {
	if len(dropped) == 0 {
		return ""
	}
	return MsgDropped.In(l, strings.Join(dropped, ", "))
}

// RemovedBot is a bot that was removed.
type RemovedBot struct {
	ID      int64 `json:"id"`
	Removed bool  `json:"removed"`
}

// RemoveBot removes a bot, with its bindings, its conversations and its own keys.
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

// disconnectBot closes the connections of a bot.
func (s *Service) disconnectBot(bot int64) {
	if s.Disconnect != nil {
		s.Disconnect(bot)
	}
}

// RotatedBot is a bot with a new token, which is returned only here.
type RotatedBot struct {
	ID       int64  `json:"id"`
	SDKToken string `json:"sdk_token"`
}

// RotateBot gives an inbound bot a new token, and closes connections that use the old one.
func (s *Service) RotateBot(ctx context.Context, c Caller, in BotRef) (RotatedBot, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return RotatedBot{}, err
	}
	if err := requireUnrestrictedKey(c); err != nil { // the token gives access as the bot
		return RotatedBot{}, err
	}
	token, err := s.Hub.Registry.RotateToken(ctx, b.Number)
	if err != nil {
		return RotatedBot{}, err
	}
	s.disconnectBot(b.Number)
	s.Logger.InfoContext(ctx, "a bot has another token", "bot", b.Number, "person", c.Person, "program", c.Program)
	s.RecordAdminEvent(ctx, c, EventBotToken, aboutBot(b))
	return RotatedBot{b.Number, token}, nil
}

// aboutBot describes a bot in admin events, with the names of settings; their values can be secret.
func aboutBot(b store.Bot, settings ...string) string {
	return aboutSettings(fmt.Sprintf("#%d %s", b.Number, b.Name), settings)
}

func aboutSettings(of string, settings []string) string {
	if len(settings) == 0 {
		return of
	}
	return of + ": " + strings.Join(settings, ", ")
}

// settingNames returns the names of settings, sorted.
func settingNames(set SettingTexts) []string { return slices.Sorted(maps.Keys(set)) }

// givenNames returns the names of the settings that something new gets: empty texts set nothing.
func givenNames(set SettingTexts) []string {
	return slices.DeleteFunc(settingNames(set), func(name string) bool { return set[name] == "" })
}
