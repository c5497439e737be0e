package control

import (
	"context"
	"strings"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const msgNoKeyOfBot = i18n.Message("This bot has no such key.")

// BotKeyList is a list of keys for a single bot.
type BotKeyList struct {
	Keys []store.Key `json:"keys"` // oldest first
}

// BotKeys lists the caller's keys for a single bot.
func (s *Service) BotKeys(ctx context.Context, c Caller, in BotRef) (BotKeyList, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return BotKeyList{}, err
	}
	if c.Only != 0 {
		return BotKeyList{}, problem.New(problem.Denied, msgWholeKey)
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

// NewGlassesKey describes a key for the glasses' platform.
type NewGlassesKey struct {
	Bot  string `path:"bot" json:"-"`
	Name string `json:"name"`
	// Only lets everybody with the key talk to the bot, without a binding. Otherwise each wearer is
	// bound to a bot.
	Only bool `json:"only"`
}

// AddedKey is a new key with its secret, which is returned only here.
type AddedKey struct {
	store.Key
	Secret string `json:"key"`
}

// AddGlassesKey creates a key with which the glasses' platform asks for the bot's owner.
func (s *Service) AddGlassesKey(ctx context.Context, c Caller, in NewGlassesKey) (AddedKey, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return AddedKey{}, err
	}
	if err := checkMakesKeys(c); err != nil {
		return AddedKey{}, err
	}
	if err := s.mayAdd(c); err != nil {
		return AddedKey{}, err
	}
	in.Name = strings.TrimSpace(in.Name)
	if err := account.CheckName(in.Name); err != nil {
		return AddedKey{}, InputProblem(problem.Invalid, err)
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

// BotKeyRef identifies a key of a bot.
type BotKeyRef struct {
	Bot string `path:"bot"`
	Key string `path:"key"`
}

// RevokeBotKey revokes a key for a single bot.
func (s *Service) RevokeBotKey(ctx context.Context, c Caller, in BotKeyRef) (store.Key, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return store.Key{}, err
	}
	if err := requireUnrestrictedKey(c); err != nil {
		return store.Key{}, err
	}
	k, err := s.Key(ctx, c, KeyRef{in.Key})
	if e := AsError(err); e != nil && e.Code == problem.NotFound || err == nil && k.Bot != b.Number {
		return store.Key{}, problem.New(problem.NotFound, msgNoKeyOfBot)
	}
	if err == nil {
		err = s.revoke(ctx, c, &k)
	}
	return k.Key, err
}
