package control

import (
	"context"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var sayNoKeyOfBot = talk.Say{Zh: "这个机器人没有这样的密钥。", En: "This bot has no such key."}

// BotKeyList is the keys that open one bot alone.
type BotKeyList struct {
	Keys []store.Key `json:"keys"` // oldest first
}

// BotKeys lists the caller's keys that open one bot alone.
func (s *Service) BotKeys(ctx context.Context, c Caller, in BotRef) (BotKeyList, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return BotKeyList{}, err
	}
	if c.Only != 0 {
		return BotKeyList{}, Fail(Refused, sayWholeKey)
	}
	all, err := s.Hub.Store.Keys.ByBot(ctx, b.Number)
	out := BotKeyList{Keys: []store.Key{}}
	for _, k := range all {
		if c.Owner() == "" || k.Person == c.Owner() {
			out.Keys = append(out.Keys, k)
		}
	}
	return out, err
}

// NewGlassesKey says what key for the platform of glasses is wanted.
type NewGlassesKey struct {
	Bot  string `path:"bot" json:"-"`
	Name string `json:"name"`
	// Only has everybody who shows the key talk to the bot, without being bound.
	// Otherwise wearers are bound to a bot each.
	Only bool `json:"only"`
}

// AddedKey is a new key with its secret, which is told this once.
type AddedKey struct {
	store.Key
	Secret string `json:"key"`
}

// AddGlassesKey makes a key by which the platform of glasses asks for the bot's owner.
func (s *Service) AddGlassesKey(ctx context.Context, c Caller, in NewGlassesKey) (AddedKey, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return AddedKey{}, err
	}
	if err := checkMakesKeys(c); err != nil {
		return AddedKey{}, err
	}
	in.Name = strings.TrimSpace(in.Name)
	if err := account.CheckName(in.Name); err != nil {
		return AddedKey{}, said(Invalid, err)
	}
	people, err := s.names(ctx)
	if err != nil {
		return AddedKey{}, err
	}
	want := account.NewKey{Person: b.Owner, Name: in.Name, Scopes: []string{account.ScopeLingzhu}}
	if in.Only {
		want.Bot = b.Number
	}
	if err := inherit(c, &want); err != nil {
		return AddedKey{}, err
	}
	k, secret, err := s.Accounts.AddKey(ctx, want)
	if err != nil {
		return AddedKey{}, err
	}
	s.RecordAdminEvent(ctx, c, EventKeyMade, AboutKey(k, c.Person, people[k.Person]))
	return AddedKey{k, secret}, nil
}

// BotKeyRef names a key of a bot.
type BotKeyRef struct {
	Bot string `path:"bot"`
	Key string `path:"key"`
}

// RevokeBotKey ends a key that opens a bot alone.
func (s *Service) RevokeBotKey(ctx context.Context, c Caller, in BotKeyRef) (store.Key, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return store.Key{}, err
	}
	if err := requireUnrestrictedKey(c); err != nil {
		return store.Key{}, err
	}
	k, err := s.Key(ctx, c, KeyRef{in.Key})
	if e := AsError(err); e != nil && e.Reason == Missing || err == nil && k.Bot != b.Number {
		return store.Key{}, Fail(Missing, sayNoKeyOfBot)
	}
	if err == nil {
		err = s.revoke(ctx, c, &k)
	}
	return k.Key, err
}
