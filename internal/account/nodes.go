package account

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// The roles in which a peer connects.
const (
	PeerNode     = "node"     // it does what it is told
	PeerOperator = "operator" // it tells others what to do
)

// What an operator may do. [Covers] knows which of them others cover.
const (
	OperatorRead    = "operator.read"
	OperatorWrite   = "operator.write"
	OperatorPairing = "operator.pairing"
	OperatorAdmin   = "operator.admin"
)

// ErrPeerRole says that a peer was not let in in this role.
var ErrPeerRole = errors.New("the peer was not approved in this role")

// Covers says whether whoever has some scopes of operators may do all that is wanted:
// operator.admin covers all of operators', and operator.write covers operator.read.
func Covers(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool {
		return !slices.Contains(have, w) &&
			!(strings.HasPrefix(w, "operator.") && slices.Contains(have, OperatorAdmin)) &&
			!(w == OperatorRead && slices.Contains(have, OperatorWrite))
	})
}

// OpensNode says whether a program with the key may connect as a node, and ask to be
// paired. A key for one bot does not.
func (p Principal) OpensNode() bool {
	return p.Key.Bot == 0 && slices.Contains(p.Key.Scopes, ScopeNode)
}

// OperatorScopes is what a program with the key may do as an operator; nil: it may not
// connect as one. A key for one bot reaches that, and does not decide who is let in.
func (p Principal) OperatorScopes() []string {
	admin := slices.Contains(p.Key.Scopes, ScopeAdmin)
	switch {
	case !admin && !slices.Contains(p.Key.Scopes, ScopeOperator):
		return nil
	case p.Key.Bot != 0:
		return []string{OperatorRead, OperatorWrite}
	case admin && p.Person.Role == RoleAdmin:
		return []string{OperatorRead, OperatorWrite, OperatorPairing, OperatorAdmin}
	}
	return []string{OperatorRead, OperatorWrite, OperatorPairing}
}

// PeerToken is the token with which a peer, as it was read, connects in a role, with
// these scopes or fewer. It is the same each time, until [Service.RotatePeer], or the
// peer is removed; the scopes of earlier times are in it too. It is made again each
// time, so that only its hash has to be kept. The error is [ErrPeerRole] or
// [ErrScope] for what was never approved, and [store.ErrNotFound] if the peer has
// been changed meanwhile.
func (s *Service) PeerToken(ctx context.Context, p store.Peer, role string, scopes []string) (string, store.PeerToken, error) {
	switch {
	case !slices.Contains(p.Roles, role):
		return "", store.PeerToken{}, ErrPeerRole
	case !Covers(p.Scopes, scopes):
		return "", store.PeerToken{}, ErrScope
	}
	token := peerToken(s.box.Key(), p, role)
	hash := seal.Hash(token)
	kept, err := s.db.Peers.Token(ctx, p.ID, role)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", store.PeerToken{}, fmt.Errorf("look up the token of a peer: %w", err)
	}
	if err == nil && kept.Hash == hash && Covers(kept.Scopes, scopes) {
		return token, kept, nil
	}
	// Any other hash is of a secret that holds no more.
	if s.made(kept.Hash, func(k *seal.Key) string { return seal.Hash(peerToken(k, p, role)) }) {
		scopes = slices.Concat(kept.Scopes, scopes)
	}
	kept, err = s.db.Peers.SetToken(ctx, p, store.PeerToken{Role: role, Hash: hash, Scopes: scopes, Created: s.now()})
	if err != nil {
		return "", store.PeerToken{}, fmt.Errorf("keep the token of a peer: %w", err)
	}
	return token, kept, nil
}

// peerToken is 43 characters that follow from the peer, its owner, the role, and the
// version of the peer's secrets.
func peerToken(k *seal.Key, p store.Peer, role string) string {
	mac, err := hex.DecodeString(k.MAC(fmt.Sprintf("peer token|%s|%s|%s|%d", p.ID, p.Owner, role, p.SecretVersion)))
	if err != nil {
		panic(err) // MAC makes hex
	}
	return base64.RawURLEncoding.EncodeToString(mac)
}

// PeerLogin is with what a peer connects. That it has the key to its id is checked
// elsewhere.
type PeerLogin struct {
	Peer   string // id
	Role   string
	Scopes []string // that it wants
	Token  string
}

// Paired is whom a token of a peer speaks for.
type Paired struct {
	Peer   store.Peer
	Person store.Person // its owner
	Token  store.PeerToken
	// Scopes is all that the peer may do in its role. Those of an administrator end
	// when its owner is none any longer.
	Scopes []string
}

// CheckPeerToken finds out whom a token speaks for. A refusal is [ErrNoKey],
// [ErrUnknown], or [ErrScope] for a good token that wants more scopes than it has;
// [Refused] is true for each.
func (s *Service) CheckPeerToken(ctx context.Context, l PeerLogin) (Paired, error) {
	if l.Token == "" {
		return Paired{}, ErrNoKey
	}
	p, err := s.db.Peers.ByID(ctx, l.Peer)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Paired{}, fmt.Errorf("look up a peer: %w", err)
	}
	known := err == nil
	// For a peer that is not there the token is of no use, but making it takes as long.
	if same := s.made(l.Token, func(k *seal.Key) string { return peerToken(k, p, l.Role) }); !same || !known {
		return Paired{}, ErrUnknown
	}
	k, err := s.db.Peers.Token(ctx, p.ID, l.Role)
	if errors.Is(err, store.ErrNotFound) {
		return Paired{}, ErrUnknown // it follows from what is kept, but was never given out
	}
	if err != nil {
		return Paired{}, fmt.Errorf("look up the token of a peer: %w", err)
	}
	person, err := s.db.People.ByID(ctx, p.Owner)
	if err != nil {
		return Paired{}, fmt.Errorf("look up the owner of a peer: %w", err)
	}
	scopes := k.Scopes
	if person.Role != RoleAdmin {
		scopes = slices.DeleteFunc(slices.Clone(scopes), func(scope string) bool { return scope == OperatorAdmin })
	}
	if !Covers(scopes, l.Scopes) {
		return Paired{}, ErrScope
	}
	if now := s.now(); now.Sub(k.Used) > time.Minute {
		if err := s.db.Peers.MarkTokenUsed(ctx, p.ID, l.Role, now); err != nil {
			return Paired{}, fmt.Errorf("note the use of a token: %w", err)
		}
	}
	return Paired{Peer: p, Person: person, Token: k, Scopes: scopes}, nil
}

// RotatePeer makes every token of a peer worthless, in all roles. No such peer is
// [store.ErrNotFound]. [Service.PeerToken] gives it others.
func (s *Service) RotatePeer(ctx context.Context, id string) error {
	return s.db.Peers.Rotate(ctx, id)
}

// RenamePeer gives a peer another name, which may be the one of another peer.
func (s *Service) RenamePeer(ctx context.Context, id, name string) error {
	name = strings.TrimSpace(name)
	if err := CheckName(name); err != nil {
		return err
	}
	return s.db.Peers.Rename(ctx, id, name)
}
