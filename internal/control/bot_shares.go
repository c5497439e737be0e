package control

import (
	"context"
	"slices"
	"strconv"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const msgShareBotOwner = i18n.Message("Only a bot that belongs to an administrator can be shared.")

// Sharing says with whom something is shared: with everybody, or with some people.
type Sharing struct {
	Everybody bool     `json:"everybody,omitempty"`
	Users     []string `json:"users,omitempty"` // names
}

// BotSharing says who may ask a bot besides its owner: everybody, some people, or nobody.
type BotSharing struct {
	Bot string `path:"bot" json:"-"`
	Sharing
}

// ShareBot lets others ask a bot. It calls their tools for them, as far as its own rules allow, and
// the owner's tools that the setting lend_tools names.
func (s *Service) ShareBot(ctx context.Context, c Caller, in BotSharing) (BotView, error) {
	if err := requireUnrestrictedAdmin(c); err != nil {
		return BotView{}, err
	}
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return BotView{}, err
	}
	owner, err := s.Hub.Store.People.ByID(ctx, b.Owner)
	if err != nil {
		return BotView{}, err
	}
	ids, about, err := s.shareTargets(ctx, c, owner, in.Sharing)
	if err != nil {
		return BotView{}, err
	}
	event := EventBotUnshared
	if about != "" {
		event = EventBotShared
		if owner.Role != account.RoleAdmin {
			return BotView{}, problem.New(problem.Denied, msgShareBotOwner)
		}
	}
	if err := s.Hub.Store.Bots.Share(ctx, b.Number, in.Everybody, ids); err != nil {
		return BotView{}, err
	}
	s.RecordAdminEvent(ctx, c, event, aboutBot(b)+about)
	return s.Bot(ctx, c, BotRef{strconv.FormatInt(b.Number, 10)})
}

// sharing returns who may ask a bot besides its owner; nil: nobody.
func (s *Service) sharing(ctx context.Context, b store.Bot, people map[string]string) (*Sharing, error) {
	shares, err := s.Hub.Store.Bots.Shares(ctx)
	if err != nil || !b.Everybody && len(shares[b.Number]) == 0 {
		return nil, err
	}
	out := &Sharing{Everybody: b.Everybody}
	for _, id := range shares[b.Number] {
		out.Users = append(out.Users, people[id])
	}
	slices.Sort(out.Users)
	return out, nil
}

// isShared reports whether a bot is shared with the caller, who may not see more of it than its
// name, description and kind, and whether it is there.
func isShared(c Caller, b store.Bot) bool { return c.Owner() != "" && b.Owner != c.Owner() }

// PersonBot is a bot that a person may ask, or may be given.
type PersonBot struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	// Owner is the name of its owner.
	Owner string `json:"owner"`
	// Shared reports whether the person may ask it. With everybody, all people may.
	Shared    bool `json:"shared"`
	Everybody bool `json:"everybody,omitempty"`
}

// BotsToShare lists the bots that a person may be given, and says which of them the person may ask
// now: those of administrators. Without a person it is for a new one.
func (s *Service) BotsToShare(ctx context.Context, c Caller, in PersonRef) ([]PersonBot, error) {
	if err := admin(c); err != nil {
		return nil, err
	}
	return s.personBots(ctx, store.Person{ID: in.Person})
}

// personBots is BotsToShare for a person.
func (s *Service) personBots(ctx context.Context, p store.Person) ([]PersonBot, error) {
	people, err := s.Hub.Store.People.All(ctx)
	if err != nil {
		return nil, err
	}
	shares, err := s.Hub.Store.Bots.Shares(ctx)
	if err != nil {
		return nil, err
	}
	bots, err := s.Hub.Store.Bots.ByOwner(ctx, "")
	if err != nil {
		return nil, err
	}
	admins := map[string]string{}
	for _, x := range people {
		if x.Role == account.RoleAdmin && x.ID != p.ID {
			admins[x.ID] = x.Name
		}
	}
	out := []PersonBot{}
	for _, b := range bots {
		if owner, ok := admins[b.Owner]; ok {
			out = append(out, PersonBot{ID: b.Number, Name: b.Name, Owner: owner, Everybody: b.Everybody,
				Shared: b.Everybody || slices.Contains(shares[b.Number], p.ID)})
		}
	}
	return out, nil
}

// botsToShare returns the numbers of bots, given by number or name, that can be shared with a
// person, sorted: without those that the person may ask anyway.
func (s *Service) botsToShare(ctx context.Context, c Caller, p store.Person, refs []string) ([]int64, error) {
	people, err := s.Hub.Store.People.All(ctx)
	if err != nil {
		return nil, err
	}
	numbers := []int64{}
	for _, ref := range refs {
		b, err := s.FindBot(ctx, c, ref)
		if err != nil {
			return nil, err
		}
		owned := slices.ContainsFunc(people, func(x store.Person) bool {
			return x.ID == b.Owner && x.Role == account.RoleAdmin
		})
		switch {
		case !owned && b.Owner != p.ID:
			return nil, problem.New(problem.Denied, msgShareBotOwner)
		case b.Owner != p.ID && !b.Everybody && !slices.Contains(numbers, b.Number):
			numbers = append(numbers, b.Number)
		}
	}
	if len(numbers) > maxShares {
		return nil, problem.New(problem.Invalid, msgShareMost, maxShares)
	}
	slices.Sort(numbers)
	return numbers, nil
}

// setPersonBots has a person ask these bots, by number or name, and those that are shared with
// everybody, and no others.
func (s *Service) setPersonBots(ctx context.Context, c Caller, p store.Person, refs []string) error {
	numbers, err := s.botsToShare(ctx, c, p, refs)
	if err != nil {
		return err
	}
	have, err := s.personBots(ctx, p)
	if err != nil {
		return err
	}
	was := []int64{}
	for _, b := range have {
		if b.Shared && !b.Everybody {
			was = append(was, b.ID)
		}
	}
	if slices.Equal(was, numbers) {
		return nil
	}
	if err := s.Hub.Store.Bots.SetShared(ctx, p.ID, numbers); err != nil {
		return err
	}
	event, about := EventBotShared, p.Name+":"
	for _, n := range numbers {
		about += " #" + strconv.FormatInt(n, 10)
	}
	if len(numbers) == 0 {
		event, about = EventBotUnshared, p.Name
	}
	s.RecordAdminEvent(ctx, c, event, about)
	return nil
}
