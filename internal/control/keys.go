package control

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayNoKey   = talk.Say{Zh: "没有这个密钥。", En: "There is no such key."}
	sayKeyName = talk.Say{Zh: "名称要有 1 到 60 个字符，不能有控制字符。",
		En: "A name has 1 to 60 characters, without control characters."}
	sayKeyScope = talk.Say{Zh: "至少选一个用途：%s。", En: "Choose at least one of what a key is good for: %s."}
	sayNoScope  = talk.Say{Zh: "没有用途叫 %q，只有 %s。", En: "Nothing that a key is good for is called %q; there are %s."}
	sayKeyAdmin = talk.Say{Zh: "只有管理这台服务器的人可以创建用途为 admin 的密钥。",
		En: "Keys with scope admin are for whoever runs the installation."}
	sayKeyExpires = talk.Say{Zh: "有效期要在以后，最长十年。", En: "A key expires in the future, within ten years."}
	sayKeyBot     = talk.Say{Zh: "没有这个机器人。", En: "There is no such bot."}
	sayKeyRule    = talk.Say{Zh: "“%s” 不是工具名：工具名有 1 到 64 个字母、数字、_ 和 -，* 代表任意文字。",
		En: "“%s” is no name of a tool: names have 1 to 64 letters, digits, _ and -, and * stands for any text."}
	sayKeyRules     = talk.Say{Zh: "每种规则最多 200 条。", En: "There may be 200 rules of each kind."}
	sayKeyRate      = talk.Say{Zh: "每分钟次数从 0 到 1000000。", En: "A rate is 0 to 1000000 calls a minute."}
	sayKeyIsRevoked = talk.Say{Zh: "这个密钥已吊销，规则不能再改。",
		En: "The key is revoked, so its rules cannot be changed any more."}
	sayTooManyKeys = talk.Say{Zh: "密钥太多了，最多 %d 个，请先吊销一些。",
		En: "There are too many keys; revoke some, %d are the most."}
)

const (
	// keysMost bounds the keys of one person that are good: no list of keys has more
	// than a thousand rows.
	keysMost = 500
	// keyLifeMost bounds how long a key that expires is good.
	keyLifeMost = 10 * 366 * 24 * time.Hour
	// keyRateMost bounds a key's own rate.
	keyRateMost = 1_000_000
)

// KeyRow is a key with what can be read about it. The secret is not kept.
type KeyRow struct {
	store.Key
	Rules      hub.Rules `json:"rules,omitzero"`
	PersonName string    `json:"person_name,omitempty"`
	BotName    string    `json:"bot_name,omitempty"`
}

// IsValid reports whether the key opens anything still.
func (k *KeyRow) IsValid() bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || k.Expires.After(time.Now()))
}

// KeyQuery asks for keys.
type KeyQuery struct {
	User string `query:"user"` // a name; whoever runs the installation may ask for another's
}

// KeyList is keys, the newest first.
type KeyList struct {
	Keys []KeyRow `json:"keys"`
}

// Keys lists the caller's keys, those that were revoked too.
func (s *Service) Keys(ctx context.Context, c Caller, in KeyQuery) (KeyList, error) {
	if c.Only != 0 {
		return KeyList{}, Fail(Refused, sayWholeKey)
	}
	whose := c.Owner()
	if in.User != "" {
		p, err := s.singlePerson(ctx, c, in.User)
		if err != nil {
			return KeyList{}, err
		}
		whose = p.ID
	}
	list, err := s.Hub.Store.Keys.ByPerson(ctx, whose)
	if err != nil {
		return KeyList{}, err
	}
	slices.Reverse(list)
	rows, err := s.keyRows(ctx, whose, list)
	return KeyList{Keys: rows}, err
}

// keyRows adds what else is known about keys.
func (s *Service) keyRows(ctx context.Context, whose string, list []store.Key) ([]KeyRow, error) {
	people, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	bots, err := botNames(ctx, s.Hub.Store, whose)
	if err != nil {
		return nil, err
	}
	rows := make([]KeyRow, len(list))
	for i, k := range list {
		rows[i] = KeyRow{Key: k, PersonName: people[k.Person], BotName: bots[k.Bot]}
		if rows[i].Rules, err = hub.ParseRules(k.Rules); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// KeyRef names a key.
type KeyRef struct {
	Key string `path:"key"` // its id
}

// Key shows one of the caller's keys.
func (s *Service) Key(ctx context.Context, c Caller, in KeyRef) (KeyRow, error) {
	if c.Only != 0 {
		return KeyRow{}, Fail(Refused, sayWholeKey)
	}
	k, err := s.Hub.Store.Keys.ByID(ctx, in.Key)
	if errors.Is(err, store.ErrNotFound) || err == nil && c.Owner() != "" && k.Person != c.Owner() {
		return KeyRow{}, Fail(Missing, sayNoKey)
	}
	if err != nil {
		return KeyRow{}, err
	}
	rows, err := s.keyRows(ctx, k.Person, []store.Key{k})
	if err != nil {
		return KeyRow{}, err
	}
	return rows[0], nil
}

// NewKey says what key is wanted.
type NewKey struct {
	User   string    `json:"user,omitempty"` // for whom an admin makes it
	Name   string    `json:"name"`
	Scopes []string  `json:"scopes"`
	Bot    int64     `json:"bot,omitempty"`    // the only bot that it opens
	Days   int       `json:"days,omitempty"`   // for how long it is good; 0: for ever
	Expire time.Time `json:"expires,omitzero"` // the same, as a time
	Rules  hub.Rules `json:"rules,omitzero"`   // which tools it may call
}

// CreatedKey is a new key with its secret, which is told this once.
type CreatedKey struct {
	KeyRow
	Secret string `json:"key"`
}

// AddKey makes a key. One for everybody's things is made by those who run the
// installation alone, and by a key only if that is one. What is made by a key ends with it.
func (s *Service) AddKey(ctx context.Context, c Caller, in NewKey) (CreatedKey, error) {
	if err := checkMakesKeys(c); err != nil {
		return CreatedKey{}, err
	}
	owner, err := s.singlePerson(ctx, c, in.User)
	if err != nil {
		return CreatedKey{}, err
	}
	want := account.NewKey{Person: owner.ID, Name: strings.TrimSpace(in.Name), Scopes: in.Scopes, Bot: in.Bot}
	if want.Expires, err = parseKeyLifetime(in); err != nil {
		return CreatedKey{}, err
	}
	if err := inherit(c, &want); err != nil {
		return CreatedKey{}, err
	}
	if err := s.checkKey(ctx, c, owner, &want, in.Rules); err != nil {
		return CreatedKey{}, err
	}
	k, secret, err := s.Accounts.AddKey(ctx, want)
	if err != nil {
		return CreatedKey{}, err
	}
	s.RecordAdminEvent(ctx, c, EventKeyMade, AboutKey(k, c.Person, owner.Name))
	rows, err := s.keyRows(ctx, k.Person, []store.Key{k})
	if err != nil {
		return CreatedKey{}, err
	}
	return CreatedKey{rows[0], secret}, nil
}

// parseKeyLifetime is how long a new key is good; 0: for ever.
func parseKeyLifetime(in NewKey) (time.Duration, error) {
	life := time.Duration(in.Days) * 24 * time.Hour
	if !in.Expire.IsZero() {
		life = time.Until(in.Expire)
	} else if in.Days == 0 {
		return 0, nil
	}
	if in.Days < 0 || in.Days > int(keyLifeMost/(24*time.Hour)) || life <= 0 || life > keyLifeMost {
		return 0, Fail(Invalid, sayKeyExpires)
	}
	return life, nil
}

// checkKey looks whether a key can be made so, and fills its rules in.
func (s *Service) checkKey(ctx context.Context, c Caller, owner store.Person, want *account.NewKey,
	rules hub.Rules) error {
	if account.CheckName(want.Name) != nil {
		return Fail(Invalid, sayKeyName)
	}
	if len(want.Scopes) == 0 {
		return Fail(Invalid, sayKeyScope, strings.Join(account.Scopes, ", "))
	}
	slices.Sort(want.Scopes)
	want.Scopes = slices.Compact(want.Scopes)
	for _, scope := range want.Scopes {
		if !slices.Contains(account.Scopes, scope) {
			return Fail(Invalid, sayNoScope, scope, strings.Join(account.Scopes, ", "))
		}
	}
	if slices.Contains(want.Scopes, account.ScopeAdmin) {
		runs, err := s.canSeeMachine(ctx, c)
		if err != nil {
			return err
		}
		if !runs || owner.Role != account.RoleAdmin {
			return Fail(Refused, sayKeyAdmin)
		}
	}
	if want.Bot != 0 {
		b, err := s.Hub.Store.Bots.ByNumber(ctx, want.Bot)
		if errors.Is(err, store.ErrNotFound) || err == nil && b.Owner != owner.ID {
			return Fail(Invalid, sayKeyBot)
		} else if err != nil {
			return err
		}
	}
	if err := checkRules(&rules); err != nil {
		return err
	}
	want.Rules = rules.String()
	have, err := s.Hub.Store.Keys.ByPerson(ctx, owner.ID)
	if err != nil {
		return err
	}
	good := 0
	for _, k := range have {
		if k.Revoked.IsZero() {
			good++
		}
	}
	if good >= keysMost {
		return Fail(Conflict, sayTooManyKeys, keysMost)
	}
	return nil
}

// checkRules finds rules that cannot be.
func checkRules(r *hub.Rules) error {
	for _, list := range [][]string{r.Allow, r.Deny, r.Dangerous} {
		for _, pattern := range list {
			if hub.CheckPattern(pattern) != nil {
				return Fail(Invalid, sayKeyRule, pattern)
			}
		}
	}
	if r.PerMinute < 0 || r.PerMinute > keyRateMost {
		return Fail(Invalid, sayKeyRate)
	}
	if r.Validate() != nil {
		return Fail(Invalid, sayKeyRules)
	}
	return nil
}

// KeyChange replaces the rules of a key.
type KeyChange struct {
	Key   string    `path:"key" json:"-"`
	Rules hub.Rules `json:"rules"` // all of them; none: it may call all tools that its person may
}

// ChangeKey gives a key other rules.
func (s *Service) ChangeKey(ctx context.Context, c Caller, in KeyChange) (KeyRow, error) {
	if err := checkMakesKeys(c); err != nil {
		return KeyRow{}, err
	}
	k, err := s.Key(ctx, c, KeyRef{in.Key})
	if err != nil {
		return KeyRow{}, err
	}
	if !k.Revoked.IsZero() {
		return KeyRow{}, Fail(Conflict, sayKeyIsRevoked)
	}
	if err := s.checkKeyWidening(ctx, c, k); err != nil {
		return KeyRow{}, err
	}
	if err := checkRules(&in.Rules); err != nil {
		return KeyRow{}, err
	}
	if err := s.Hub.Store.Keys.SetRules(ctx, k.ID, in.Rules.String()); err != nil {
		return KeyRow{}, err
	}
	s.RecordAdminEvent(ctx, c, EventKeyRules, AboutKey(k.Key, c.Person, k.PersonName))
	k.Rules = in.Rules
	return k, nil
}

// checkKeyWidening refuses keys for less than the key that is to be changed: with the rules
// gone it may do more than they.
func (s *Service) checkKeyWidening(ctx context.Context, c Caller, k KeyRow) error {
	if !slices.Contains(k.Scopes, account.ScopeAdmin) {
		return nil
	}
	runs, err := s.canSeeMachine(ctx, c)
	if err == nil && !runs {
		err = Fail(Refused, sayKeyAdmin)
	}
	return err
}

// RevokeKey ends a key for good, with those that were made by it. Whoever uses it is refused from
// its next use on, at the MCP endpoints within a second.
func (s *Service) RevokeKey(ctx context.Context, c Caller, in KeyRef) (KeyRow, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return KeyRow{}, err
	}
	k, err := s.Key(ctx, c, in)
	if err != nil {
		return KeyRow{}, err
	}
	err = s.revoke(ctx, c, &k)
	return k, err
}

// revoke ends a key, if it has not ended yet.
func (s *Service) revoke(ctx context.Context, c Caller, k *KeyRow) error {
	now := time.Now()
	if err := s.Hub.Store.Keys.Revoke(ctx, k.ID, now); errors.Is(err, store.ErrNotFound) {
		return Fail(Missing, sayNoKey) // its person has just been removed
	} else if err != nil {
		return err
	}
	if k.Revoked.IsZero() {
		k.Revoked = now
		s.RecordAdminEvent(ctx, c, EventKeyRevoked, AboutKey(k.Key, c.Person, k.PersonName))
	}
	return nil
}

// AboutKey is a key in the journal; one of somebody else than who did something with it
// has their name.
func AboutKey(k store.Key, by, owner string) string {
	about := k.Name + " (" + strings.Join(k.Scopes, ", ") + ")"
	if k.Person != by {
		about = owner + ": " + about
	}
	return about
}
