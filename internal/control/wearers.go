package control

import (
	"context"
	"errors"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

var (
	sayNoWearer     = talk.Say{Zh: "没有人以 %s 绑定到这个机器人。", En: "Nobody with the id %s is bound to this bot."}
	sayNoInvitation = talk.Say{Zh: "没有这个绑定码。", En: "There is no such invitation."}
)

// WearerList is who is bound to a bot.
type WearerList struct {
	Wearers []store.Binding `json:"wearers"` // oldest first
}

// Wearers lists who is bound to a bot.
func (s *Service) Wearers(ctx context.Context, c Caller, in BotRef) (WearerList, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return WearerList{}, err
	}
	list, err := s.Hub.Store.Bindings.ByBot(ctx, b.Number)
	if list == nil {
		list = []store.Binding{}
	}
	return WearerList{list}, err
}

// InviteWearer makes an invitation to bind glasses to a bot: a token for a QR code and
// six digits, good once and for a few minutes.
func (s *Service) InviteWearer(ctx context.Context, c Caller, in BotRef) (account.Invitation, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return account.Invitation{}, err
	}
	if err := requireUnrestrictedKey(c); err != nil { // whoever is bound asks by another key
		return account.Invitation{}, err
	}
	i, err := s.Accounts.Invite(ctx, b.Number)
	if err == nil {
		s.RecordAdminEvent(ctx, c, EventBotInvited, aboutBot(b))
	}
	return i, err
}

// InvitationRef names an invitation of a bot.
type InvitationRef struct {
	Bot        string `path:"bot"`
	Invitation string `path:"invitation"`
}

// InvitationState is what has become of an invitation.
type InvitationState struct {
	Used    bool      `json:"used"`
	Expires time.Time `json:"expires_at"`
	// UserID is who used it, if they are bound still.
	UserID string `json:"user_id,omitempty"`
}

// Invitation tells whether somebody has used an invitation.
func (s *Service) Invitation(ctx context.Context, c Caller, in InvitationRef) (InvitationState, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return InvitationState{}, err
	}
	t, err := s.Hub.Store.Bindings.Token(ctx, in.Invitation)
	if errors.Is(err, store.ErrNotFound) || err == nil && t.Bot != b.Number {
		return InvitationState{}, Fail(Missing, sayNoInvitation)
	}
	out := InvitationState{Used: !t.Used.IsZero(), Expires: t.Expires}
	if err != nil || !out.Used {
		return out, err
	}
	wearers, err := s.Hub.Store.Bindings.ByBot(ctx, b.Number)
	for _, w := range wearers {
		if w.Created.Equal(t.Used) { // both are written as one
			out.UserID = w.UserID
		}
	}
	return out, err
}

// WearerRef names a wearer of a bot.
type WearerRef struct {
	Bot  string `path:"bot"`
	User string `path:"user"`
	// Publisher is the person by whose key the wearer came. Empty: any.
	Publisher string `query:"publisher"`
}

// UnboundWearers is how many wearers were unbound.
type UnboundWearers struct {
	Bot     int64 `json:"bot"`
	Unbound int   `json:"unbound"`
}

// Unbind unbinds a wearer from a bot.
func (s *Service) Unbind(ctx context.Context, c Caller, in WearerRef) (UnboundWearers, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return UnboundWearers{}, err
	}
	wearers, err := s.Hub.Store.Bindings.ByBot(ctx, b.Number)
	if err != nil {
		return UnboundWearers{}, err
	}
	out := UnboundWearers{Bot: b.Number}
	for _, w := range wearers {
		if w.UserID != in.User || in.Publisher != "" && w.Publisher != in.Publisher {
			continue
		}
		err := s.Accounts.Unbind(ctx, store.Wearer{Publisher: w.Publisher, UserID: w.UserID})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return out, err
		}
		out.Unbound++
	}
	if out.Unbound == 0 {
		return out, Fail(Missing, sayNoWearer, in.User)
	}
	s.RecordAdminEvent(ctx, c, EventBotUnbound, aboutBot(b, in.User))
	return out, nil
}
