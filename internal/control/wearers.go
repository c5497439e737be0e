package control

import (
	"context"
	"errors"
	"time"

	"patchbay/internal/account"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNoWearer     = i18n.Message("Nobody with the id %s is bound to this bot.")
	msgNoInvitation = i18n.Message("There is no such invitation.")
)

// Wearer is a pair of glasses that is bound to a bot.
type Wearer struct {
	Publisher string    `json:"publisher"` // owner of the key that it came with
	UserID    string    `json:"user_id"`
	Bot       int64     `json:"bot"`
	AgentID   string    `json:"agent_id"` // as sent by the platform when it was bound
	Created   time.Time `json:"created_at"`
}

// WearerList are the wearers of a bot.
type WearerList struct {
	Wearers []Wearer `json:"wearers"` // oldest first
}

// Wearers lists the wearers of a bot.
func (s *Service) Wearers(ctx context.Context, c Caller, in BotRef) (WearerList, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return WearerList{}, err
	}
	list, err := s.Hub.Store.Bindings.ByBot(ctx, b.Number)
	out := WearerList{make([]Wearer, len(list))}
	for i, w := range list {
		out.Wearers[i] = Wearer(w)
	}
	return out, err
}

// Invitation is an invitation to bind glasses to a bot, valid once and for a few minutes.
type Invitation struct {
	account.Invitation
	// TakenBy is the wearer of a bot that takes no other, so that others are refused until they are
	// unbound; empty: it takes one.
	TakenBy string `json:"taken_by,omitempty"`
}

// MsgTakenBy says to whoever invites what [Invitation.TakenBy] means.
const MsgTakenBy = i18n.Message("Only one pair of glasses may be bound to this bot, and %s is. Others are refused until you unbind it, or allow several in the settings.")

// InviteWearer creates an invitation.
func (s *Service) InviteWearer(ctx context.Context, c Caller, in BotRef) (Invitation, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return Invitation{}, err
	}
	if err := requireUnrestrictedKey(c); err != nil { // a wearer asks with another key
		return Invitation{}, err
	}
	taken, err := s.Accounts.TakenBy(ctx, b)
	if err != nil {
		return Invitation{}, err
	}
	i, err := s.Accounts.Invite(ctx, b.Number)
	if err == nil {
		s.RecordAdminEvent(ctx, c, EventBotInvited, aboutBot(b))
	}
	return Invitation{i, taken}, err
}

// InvitationRef identifies an invitation of a bot.
type InvitationRef struct {
	Bot        string `path:"bot"`
	Invitation string `path:"invitation"`
}

// InvitationState is the state of an invitation.
type InvitationState struct {
	Used    bool      `json:"used"`
	Expires time.Time `json:"expires_at"`
	// UserID is the wearer who used it, while they are bound.
	UserID string `json:"user_id,omitempty"`
}

// Invitation returns the state of an invitation.
func (s *Service) Invitation(ctx context.Context, c Caller, in InvitationRef) (InvitationState, error) {
	b, err := s.FindBot(ctx, c, in.Bot)
	if err != nil {
		return InvitationState{}, err
	}
	t, err := s.Hub.Store.Bindings.Token(ctx, in.Invitation)
	if errors.Is(err, store.ErrNotFound) || err == nil && t.Bot != b.Number {
		return InvitationState{}, problem.New(problem.NotFound, msgNoInvitation)
	}
	out := InvitationState{Used: !t.Used.IsZero(), Expires: t.Expires}
	if err != nil || !out.Used {
		return out, err
	}
	wearers, err := s.Hub.Store.Bindings.ByBot(ctx, b.Number)
	for _, w := range wearers {
		if w.Created.Equal(t.Used) { // both are written in one transaction
			out.UserID = w.UserID
		}
	}
	return out, err
}

// WearerRef identifies a wearer of a bot.
type WearerRef struct {
	Bot  string `path:"bot"`
	User string `path:"user"`
	// Publisher is the owner of the key that the wearer came with. Empty: any.
	Publisher string `query:"publisher"`
}

// UnboundWearers is the number of wearers that were unbound.
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
		return out, problem.New(problem.NotFound, msgNoWearer, in.User)
	}
	s.RecordAdminEvent(ctx, c, EventBotUnbound, aboutBot(b, in.User))
	return out, nil
}
