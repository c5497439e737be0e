package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

const (
	// InvitationLife is how long a binding token and its code are valid.
	InvitationLife = 5 * time.Minute
	// photoWait is how long a wearer may take to photograph the QR code after the request.
	photoWait = 3 * time.Minute
	// A wearer may try codeTries codes within codeWindow. The chance to hit one of 100 open
	// invitations is then 1 in 2,000 per window.
	codeTries  = 5
	codeWindow = 10 * time.Minute
)

// Reasons why a wearer is not bound.
var (
	ErrInvitationUnknown = i18n.Message("no such invitation").Errorf()
	ErrInvitationUsed    = i18n.Message("the invitation was used").Errorf()
	ErrInvitationExpired = i18n.Message("the invitation has expired").Errorf()
	ErrBotTaken          = i18n.Message("the bot has another wearer").Errorf()
	ErrTooManyTries      = i18n.Message("too many tries").Errorf()
)

// BoundElsewhere is returned for a wearer who is bound to a bot already.
type BoundElsewhere struct{ Bot store.Bot }

func (e *BoundElsewhere) Error() string { return fmt.Sprintf("bound to bot %d already", e.Bot.Number) }

// Invitation is what an owner shows to a wearer so that the wearer can bind to a bot.
type Invitation struct {
	ID      string    `json:"id"`
	Bot     int64     `json:"bot"`
	Token   string    `json:"token"` // for the QR code
	Code    string    `json:"code"`  // six digits, to be spoken
	Expires time.Time `json:"expires_at"`
}

// Invite creates an invitation to bind to a bot.
func (s *Service) Invite(ctx context.Context, bot int64) (Invitation, error) {
	now := s.now()
	inv := Invitation{Bot: bot, Expires: now.Add(InvitationLife)}
	// The code may collide with an invitation of the last day.
	for range 10 {
		inv.ID, inv.Token, inv.Code = newID(), seal.NewToken(16), digits(6)
		err := s.db.Bindings.AddToken(ctx, store.BindToken{
			ID: inv.ID, Bot: bot, TokenHash: seal.Hash(inv.Token), CodeHash: s.box.MAC(inv.Code), Created: now,
			Expires: inv.Expires,
		})
		if !errors.Is(err, store.ErrExists) {
			return inv, err
		}
	}
	return Invitation{}, i18n.Message("too many invitations are open; wait five minutes").Errorf()
}

// ParseToken extracts the token from the text of a QR code: either the bare token, or an address
// that ends in /b/ and the token.
func ParseToken(text string) (token string, ok bool) {
	text = strings.TrimSpace(text)
	if i := strings.LastIndex(text, "/b/"); i >= 0 && strings.Contains(text[:i], "://") {
		text = text[i+len("/b/"):]
	}
	const length = 22 // 16 bytes in base64url
	if len(text) != length || strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_')
	}) {
		return "", false
	}
	return text, true
}

// RedeemToken binds a wearer with the token of a QR code.
func (s *Service) RedeemToken(ctx context.Context, w store.Wearer, agentID, token string) (store.Bot, error) {
	return s.redeem(ctx, w, agentID, seal.Hash(token))
}

// RedeemCode binds a wearer with a six-digit code. Wrong codes are limited to codeTries.
func (s *Service) RedeemCode(ctx context.Context, w store.Wearer, agentID, code string) (store.Bot, error) {
	var b store.Bot
	wrong := []error{ErrInvitationUnknown, ErrInvitationUsed, ErrInvitationExpired}
	err := s.guess(ctx, w, codeTries, wrong, func() (err error) {
		for _, k := range s.box.Keys() {
			if b, err = s.redeem(ctx, w, agentID, k.MAC(code)); !errors.Is(err, ErrInvitationUnknown) {
				break
			}
		}
		return err
	})
	return b, err
}

func (s *Service) redeem(ctx context.Context, w store.Wearer, agentID, hash string) (store.Bot, error) {
	now := s.now()
	t, err := s.db.Bindings.TokenByHash(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return store.Bot{}, ErrInvitationUnknown
	case err != nil:
		return store.Bot{}, err
	case !t.Used.IsZero():
		return store.Bot{}, ErrInvitationUsed
	case !now.Before(t.Expires):
		return store.Bot{}, ErrInvitationExpired
	}
	bot, err := s.db.Bots.ByNumber(ctx, t.Bot)
	if err != nil {
		return store.Bot{}, err
	}
	if have, err := s.BoundBot(ctx, w); err == nil {
		return store.Bot{}, &BoundElsewhere{have}
	} else if !errors.Is(err, store.ErrNotFound) {
		return store.Bot{}, err
	}
	err = s.db.Bindings.Redeem(ctx, t.ID, store.Binding{Publisher: w.Publisher, UserID: w.UserID, Bot: bot.Number,
		AgentID: agentID, Created: now}, !audience(bot).Shared)
	switch {
	case errors.Is(err, store.ErrOccupied):
		return store.Bot{}, ErrBotTaken
	case errors.Is(err, store.ErrExists):
		return store.Bot{}, ErrInvitationUsed
	}
	return bot, err
}

// BoundBot returns the bot that a wearer is bound to, or [store.ErrNotFound].
func (s *Service) BoundBot(ctx context.Context, w store.Wearer) (store.Bot, error) {
	b, err := s.db.Bindings.Of(ctx, w)
	if err != nil {
		return store.Bot{}, err
	}
	return s.db.Bots.ByNumber(ctx, b.Bot)
}

// TakenBy returns the wearer of a bot that takes no other; empty: it takes one.
func (s *Service) TakenBy(ctx context.Context, b store.Bot) (user string, err error) {
	if audience(b).Shared {
		return "", nil
	}
	bound, err := s.db.Bindings.ByBot(ctx, b.Number)
	if err != nil || len(bound) == 0 {
		return "", err
	}
	return bound[0].UserID, nil
}

// SwitchBot binds a bound wearer to another bot of the same owner, by name, if that bot's settings
// allow switching to it. Otherwise the error is [store.ErrNotFound].
func (s *Service) SwitchBot(ctx context.Context, w store.Wearer, from store.Bot, name string) (store.Bot, error) {
	bots, err := s.db.Bots.ByOwner(ctx, from.Owner)
	if err != nil {
		return store.Bot{}, err
	}
	for _, b := range bots {
		if !strings.EqualFold(b.Name, name) {
			continue
		}
		if b.Number == from.Number {
			return b, nil
		}
		open := audience(b)
		if !open.Switch {
			continue
		}
		if taken, err := s.TakenBy(ctx, b); err != nil {
			return store.Bot{}, err
		} else if taken != "" {
			return store.Bot{}, ErrBotTaken
		}
		return b, s.db.Bindings.Switch(ctx, w, b.Number)
	}
	return store.Bot{}, store.ErrNotFound
}

// Unbind ends a wearer's binding. Without a binding the error is [store.ErrNotFound].
func (s *Service) Unbind(ctx context.Context, w store.Wearer) error {
	return s.db.Bindings.Remove(ctx, w)
}

// AwaitPhoto records that a wearer was asked, in a session of the platform, to photograph the QR
// code.
func (s *Service) AwaitPhoto(ctx context.Context, w store.Wearer, agentID, session string) error {
	return s.db.Bindings.AwaitPhoto(ctx, w, agentID, session, s.now().Add(photoWait))
}

// TakePhotoWait reports whether a wearer had been asked for a photo in that session, and clears the
// record.
func (s *Service) TakePhotoWait(ctx context.Context, w store.Wearer, agentID, session string) (bool, error) {
	return s.db.Bindings.TakePhotoWait(ctx, w, agentID, session, s.now())
}

// Audience is the part of a bot's settings that states which wearers it accepts.
type Audience struct {
	// Shared allows more than one wearer to be bound to the bot at a time.
	Shared bool `json:"shared,omitempty"`
	// Switch allows a wearer of another bot of the same owner to switch to this one.
	Switch bool `json:"switch,omitempty"`
}

func audience(b store.Bot) (o Audience) {
	if err := json.Unmarshal(b.Settings, &o); err != nil {
		return Audience{} // unreadable settings allow nothing
	}
	return o
}
