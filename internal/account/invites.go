package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// InviteLife is how long an invitation is valid (docs/cli/qr.md of OpenClaw 2026.9.6).
const InviteLife = 10 * time.Minute

// joinCodeLength is the length of a code for an invitation, in characters of base64url
// (src/pairing/join-code.ts of OpenClaw).
const joinCodeLength = 22

// Invite lets one node be paired, and its first commands be approved, without asking its owner.
type Invite struct {
	ID      string
	Token   string // that the node presents; a secret
	Code    string // by which the token can be fetched once; a secret
	URL     string // address of the gateway
	Expires time.Time
}

// InviteNode makes an invitation for a node of a person. key is the id of the key that was used for
// this, or empty; the invitation ends when that is revoked. url is the address of the gateway. It
// returns [store.ErrFull] if the person has too many.
func (s *Service) InviteNode(ctx context.Context, person, key, url string) (Invite, error) {
	now := s.now()
	i := Invite{ID: uuid.NewString(), URL: url, Expires: now.Add(InviteLife)}
	i.Token, i.Code = inviteToken(s.box.Key(), i.ID), joinCode(s.box.Key(), i.ID)
	err := s.db.Peers.Invite(ctx, store.PeerInvite{ID: i.ID, Owner: person, Key: key, TokenHash: seal.Hash(i.Token),
		CodeHash: seal.Hash(i.Code), URL: url, Created: now, Expires: i.Expires})
	if err != nil {
		return Invite{}, fmt.Errorf("keep an invitation: %w", err)
	}
	return i, nil
}

// FetchInvite returns the invitation with a code, once. The error is [store.ErrNotFound] if there
// is none, or it has expired.
func (s *Service) FetchInvite(ctx context.Context, code string) (Invite, error) {
	if len(code) != joinCodeLength {
		return Invite{}, store.ErrNotFound
	}
	kept, err := s.db.Peers.FetchInvite(ctx, seal.Hash(code), s.now())
	if err != nil {
		return Invite{}, err
	}
	token := inviteToken(s.box.Key(), kept.ID)
	if seal.Hash(token) != kept.TokenHash {
		return Invite{}, store.ErrNotFound // the secret of the installation was replaced since
	}
	return Invite{ID: kept.ID, Token: token, URL: kept.URL, Expires: kept.Expires}, nil
}

// CheckInvite returns the person who has invited a node that presents a token, and the invitation.
// A refusal is [ErrNoKey] or [ErrUnknown].
func (s *Service) CheckInvite(ctx context.Context, token, peer string) (store.Person, store.PeerInvite, error) {
	if token == "" {
		return store.Person{}, store.PeerInvite{}, ErrNoKey
	}
	i, err := s.db.Peers.InviteByToken(ctx, seal.Hash(token), s.now())
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && i.Peer != "" && i.Peer != peer:
		return store.Person{}, i, ErrUnknown
	case err != nil:
		return store.Person{}, i, fmt.Errorf("look up an invitation: %w", err)
	case !s.madeWithAnyKey(token, func(k *seal.Key) string { return inviteToken(k, i.ID) }):
		return store.Person{}, i, ErrUnknown // the secret of the installation was replaced since
	}
	person, err := s.db.People.ByID(ctx, i.Owner)
	if err != nil {
		return store.Person{}, i, fmt.Errorf("look up who has invited a node: %w", err)
	}
	if !person.Paused.IsZero() {
		return store.Person{}, i, ErrPaused
	}
	return person, i, nil
}

// UseInvite binds an invitation to a peer. The error is [ErrUnknown] if another peer was faster.
func (s *Service) UseInvite(ctx context.Context, id, peer string) error {
	if err := s.db.Peers.UseInvite(ctx, id, peer, s.now()); errors.Is(err, store.ErrNotFound) {
		return ErrUnknown
	} else if err != nil {
		return fmt.Errorf("note the use of an invitation: %w", err)
	}
	return nil
}

func inviteToken(k *seal.Key, id string) string { return derived(k, "peer invite|"+id) }

func joinCode(k *seal.Key, id string) string {
	return derived(k, "join code|"+id)[:joinCodeLength]
}
