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

// Roles of a peer.
const (
	PeerNode     = "node"     // it executes commands
	PeerOperator = "operator" // it sends commands to others
)

// Scopes of operators. [Covers] knows which scope includes which.
const (
	OperatorRead    = "operator.read"
	OperatorWrite   = "operator.write"
	OperatorPairing = "operator.pairing"
	// OperatorApprovals is for deciding about calls that wait for their owner.
	OperatorApprovals = "operator.approvals"
	OperatorAdmin     = "operator.admin"
)

// ErrPeerRole means that the peer was not approved in the requested role.
var ErrPeerRole = errors.New("the peer was not approved in this role")

// Covers reports whether the scopes in have include all scopes in want: operator.admin covers every
// operator scope, and operator.write covers operator.read.
func Covers(have, want []string) bool {
	return !slices.ContainsFunc(want, func(w string) bool {
		return !slices.Contains(have, w) &&
			!(strings.HasPrefix(w, "operator.") && slices.Contains(have, OperatorAdmin)) &&
			!(w == OperatorRead && slices.Contains(have, OperatorWrite))
	})
}

// OpensNode reports whether a program with the key may connect as a node and request pairing. It
// may not with a key for one bot.
func (p Principal) OpensNode() bool {
	return p.Key.Bot == 0 && slices.Contains(p.Key.Scopes, ScopeNode)
}

// OperatorScopes returns the operator scopes of a program with the key; nil means that it may not
// connect as an operator. A key for one bot gets read and write for that bot, but not pairing.
func (p Principal) OperatorScopes() []string {
	admin := slices.Contains(p.Key.Scopes, ScopeAdmin)
	switch {
	case !admin && !slices.Contains(p.Key.Scopes, ScopeOperator):
		return nil
	case p.Key.Bot != 0:
		return []string{OperatorRead, OperatorWrite}
	case admin && p.Person.Role == RoleAdmin:
		return []string{OperatorRead, OperatorWrite, OperatorPairing, OperatorApprovals, OperatorAdmin}
	}
	return []string{OperatorRead, OperatorWrite, OperatorPairing, OperatorApprovals}
}

// PeerToken returns the token with which a peer connects in a role with these scopes or fewer, to a
// peer that has authenticated with a key, given by its id, or with an invitation, if key is empty
// or that of the invitation. The token stays the same until it is replaced or revoked,
// [Service.RotatePeer] is called or the peer is removed, and keeps the scopes of earlier calls. It
// is derived each time, so that only its hash is stored. After a revocation only a peer with a key
// gets another one: again is true for that.
//
// The error is [ErrPeerRole] or [ErrScope] for what was not approved, [ErrUnknown] if the token was
// revoked, and [store.ErrNotFound] if the peer has been changed since it was read, or its key is no
// longer valid.
func (s *Service) PeerToken(ctx context.Context, p store.Peer, role string, scopes []string, key string,
	again bool) (token string, kept store.PeerToken, err error) {
	if err := checkGrant(p, role, scopes); err != nil {
		return "", store.PeerToken{}, err
	}
	for range maxTokenTries {
		token, kept, err = s.peerToken(ctx, p, role, scopes, key, again)
		if !errors.Is(err, store.ErrTokenChanged) {
			break
		}
	}
	return token, kept, err
}

// maxTokenTries limits how often a token is issued again because somebody has changed it meanwhile.
const maxTokenTries = 5

func (s *Service) peerToken(ctx context.Context, p store.Peer, role string, scopes []string, key string,
	again bool) (string, store.PeerToken, error) {
	kept, err := s.db.Peers.Token(ctx, p.ID, role)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", store.PeerToken{}, fmt.Errorf("look up the token of a peer: %w", err)
	}
	version, held := kept.Version, kept.Scopes
	if !kept.Revoked.IsZero() {
		if !again {
			return "", store.PeerToken{}, ErrUnknown
		}
		if version, err = s.db.Peers.NextTokenVersion(ctx); err != nil {
			return "", store.PeerToken{}, fmt.Errorf("make a token for a peer: %w", err)
		}
		held = nil
	}
	token := peerToken(s.box.Key(), p, role, version)
	hash := seal.Hash(token)
	// A hash that none of the keys reproduces belongs to a secret that is no longer valid.
	if !s.madeWithAnyKey(kept.Hash, func(k *seal.Key) string { return seal.Hash(peerToken(k, p, role, version)) }) {
		held = nil
	}
	if !Covers(scopes, held) {
		key = kept.Key // the token has more than this key would give
	}
	if kept.Hash == hash && kept.Key == key && kept.Revoked.IsZero() && Covers(held, scopes) {
		return token, kept, nil
	}
	kept, err = s.db.Peers.SetToken(ctx, p, store.PeerToken{Role: role, Hash: hash, Scopes: slices.Concat(held, scopes),
		Created: s.now(), Key: key, Version: version}, kept)
	if err != nil {
		return "", store.PeerToken{}, fmt.Errorf("keep the token of a peer: %w", err)
	}
	return token, kept, nil
}

// SamePeerToken returns the token of a peer that has authenticated with it, given by its version.
// The error is [ErrUnknown] if it was replaced or revoked since.
func (s *Service) SamePeerToken(ctx context.Context, p store.Peer, role string,
	version int64) (string, store.PeerToken, error) {
	kept, err := s.db.Peers.Token(ctx, p.ID, role)
	switch {
	case errors.Is(err, store.ErrNotFound) || err == nil && (!kept.Revoked.IsZero() || kept.Version != version):
		return "", store.PeerToken{}, ErrUnknown
	case err != nil:
		return "", store.PeerToken{}, fmt.Errorf("look up the token of a peer: %w", err)
	}
	token := peerToken(s.box.Key(), p, role, version)
	if hash := seal.Hash(token); kept.Hash != hash { // the secret of the installation was replaced
		was := kept
		kept.Hash, kept.Created = hash, s.now()
		if kept, err = s.db.Peers.SetToken(ctx, p, kept, was); err != nil {
			return "", store.PeerToken{}, fmt.Errorf("keep the token of a peer: %w", err)
		}
	}
	return token, kept, nil
}

// checkGrant returns an error if a peer was not approved in a role, or for scopes.
func checkGrant(p store.Peer, role string, scopes []string) error {
	switch {
	case !slices.Contains(p.Roles, role):
		return ErrPeerRole
	case !Covers(p.Scopes, scopes):
		return ErrScope
	}
	return nil
}

// ReplacePeerToken replaces was, the valid token of a peer, by one with these scopes. Errors are as
// of [Service.PeerToken], and [store.ErrTokenChanged] if was is not its token any more.
func (s *Service) ReplacePeerToken(ctx context.Context, p store.Peer, was store.PeerToken,
	scopes []string) (string, store.PeerToken, error) {
	if err := checkGrant(p, was.Role, scopes); err != nil {
		return "", store.PeerToken{}, err
	}
	if !was.Revoked.IsZero() {
		return "", store.PeerToken{}, ErrUnknown
	}
	version, err := s.db.Peers.NextTokenVersion(ctx)
	if err != nil {
		return "", store.PeerToken{}, fmt.Errorf("make a token for a peer: %w", err)
	}
	token := peerToken(s.box.Key(), p, was.Role, version)
	kept, err := s.db.Peers.ReplaceToken(ctx, p, store.PeerToken{Role: was.Role, Hash: seal.Hash(token), Scopes: scopes,
		Created: s.now(), Key: was.Key, Version: version}, was)
	if err != nil {
		return "", store.PeerToken{}, fmt.Errorf("keep the token of a peer: %w", err)
	}
	return token, kept, nil
}

// RevokePeerToken ends the token of a peer for a role. The peer stays paired: with a key it gets
// another one. It returns [store.ErrNotFound] if there is none that is valid.
func (s *Service) RevokePeerToken(ctx context.Context, id, role string) error {
	return s.db.Peers.RevokeToken(ctx, id, role, s.now())
}

// peerToken derives 43 characters from the peer, its owner, the role, the version of the peer's
// secrets, and that of the token.
func peerToken(k *seal.Key, p store.Peer, role string, version int64) string {
	text := fmt.Sprintf("peer token|%s|%s|%s|%d", p.ID, p.Owner, role, p.SecretVersion)
	if version != 0 {
		text += fmt.Sprintf("|%d", version)
	}
	return derived(k, text)
}

// derived derives 43 characters from a text.
func derived(k *seal.Key, text string) string {
	mac, err := hex.DecodeString(k.MAC(text))
	if err != nil {
		panic(err) // MAC returns hex
	}
	return base64.RawURLEncoding.EncodeToString(mac)
}

// PeerLogin is what a peer presents to connect. The proof that it holds the key of its id is
// checked elsewhere.
type PeerLogin struct {
	Peer   string // id
	Role   string
	Scopes []string // requested
	Token  string
}

// Paired is the peer and the owner that a token acts for.
type Paired struct {
	Peer   store.Peer
	Person store.Person // owner of the peer
	Token  store.PeerToken
	// Scopes are all scopes of the peer in its role. It loses operator.admin when its owner is no
	// longer an administrator.
	Scopes []string
}

// CheckPeerToken returns the peer that a token acts for. A refusal is [ErrNoKey], [ErrUnknown], or
// [ErrScope] for a valid token that requests more scopes than it has; [Refused] is true for each.
func (s *Service) CheckPeerToken(ctx context.Context, l PeerLogin) (Paired, error) {
	if l.Token == "" {
		return Paired{}, ErrNoKey
	}
	p, err := s.db.Peers.ByID(ctx, l.Peer)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Paired{}, fmt.Errorf("look up a peer: %w", err)
	}
	known := err == nil
	k, err := s.db.Peers.Token(ctx, l.Peer, l.Role)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Paired{}, fmt.Errorf("look up the token of a peer: %w", err)
	}
	issued := err == nil && k.Revoked.IsZero()
	// For an unknown peer the token is computed too, so that the response takes as long.
	same := s.madeWithAnyKey(l.Token, func(key *seal.Key) string { return peerToken(key, p, l.Role, k.Version) })
	if !same || !known || !issued {
		return Paired{}, ErrUnknown
	}
	person, err := s.db.People.ByID(ctx, p.Owner)
	if err != nil {
		return Paired{}, fmt.Errorf("look up the owner of a peer: %w", err)
	}
	if !person.Paused.IsZero() {
		return Paired{}, ErrPaused
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

// RotatePeer invalidates all tokens of a peer, in all roles. [Service.PeerToken] then issues new
// ones. For an unknown peer the error is [store.ErrNotFound].
func (s *Service) RotatePeer(ctx context.Context, id string) error {
	return s.db.Peers.Rotate(ctx, id)
}

// RenamePeer renames a peer. Two peers may have the same name.
func (s *Service) RenamePeer(ctx context.Context, id, name string) error {
	name = strings.TrimSpace(name)
	if err := CheckName(name); err != nil {
		return err
	}
	return s.db.Peers.Rename(ctx, id, name)
}
