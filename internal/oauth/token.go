package oauth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/seal"
	"patchbay/internal/store"
)

// tokenError is the error of the token endpoint (RFC 6749 §5.2).
type tokenError struct {
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
}

func (e *tokenError) Error() string { return e.Code + ": " + e.Description }

func invalidGrant(told string) error { return &tokenError{"invalid_grant", told} }

// tokens is the response of the token endpoint (RFC 6749 §5.1).
type tokens struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int64  `json:"expires_in"` // seconds
	Refresh string `json:"refresh_token"`
	Scope   string `json:"scope"`
}

// tokenRequest are the parameters of the token endpoint.
type tokenRequest struct {
	Grant, Code, Redirect, Verifier string
	Refresh, Scope                  string
	Resources                       []string
}

// exchange exchanges a code for tokens (RFC 6749 §4.1.3). A second use of a code revokes what the
// first one made.
func (s *Service) exchange(r *http.Request, c *store.OAuthClient, in tokenRequest) (tokens, error) {
	ctx := r.Context()
	if in.Code == "" || in.Verifier == "" {
		return tokens{}, &tokenError{"invalid_request", "code and code_verifier are needed"}
	}
	hash := seal.Hash(in.Code)
	q, err := s.Store.OAuth.RequestByCode(ctx, hash)
	if errors.Is(err, store.ErrNotFound) || err == nil && q.Client != c.ID {
		return tokens{}, invalidGrant("the code is not valid")
	}
	if err != nil {
		return tokens{}, err
	}
	if q.Key != "" {
		return tokens{}, s.revokeReused(ctx, q.Key, "the code was used before")
	}
	challenge := sha256.Sum256([]byte(in.Verifier))
	switch {
	case !s.Now().Before(q.Expires):
		return tokens{}, invalidGrant("the code has expired")
	case in.Redirect != "" && in.Redirect != q.Redirect:
		return tokens{}, invalidGrant("redirect_uri is not that of the request")
	case base64.RawURLEncoding.EncodeToString(challenge[:]) != q.Challenge: // it is not secret
		return tokens{}, invalidGrant("code_verifier does not match")
	case !s.isFor(r, in.Resources, q.Scopes):
		return tokens{}, &tokenError{"invalid_target", "resource is not that of the request"}
	}
	now := s.Now()
	k := store.Key{ID: uuid.Must(uuid.NewV7()).String(), Person: q.Person, Name: c.Name, Scopes: keyScopes(q.Scopes),
		Rules: q.Rules, Client: c.ID, Created: now}
	k.Hash = "oauth " + k.ID // no secret has this hash: only tokens open it
	if q.Days > 0 {
		k.Expires = now.Add(time.Duration(q.Days) * 24 * time.Hour)
	}
	access, refresh := newSecret(accessPrefix), newSecret(refreshPrefix)
	err = s.Store.OAuth.Exchange(ctx, hash, k, now.Add(codeKept), s.accessToken(&k, access, now),
		refreshToken(&k, refresh, now))
	if errors.Is(err, store.ErrExists) { // another request was quicker
		if q, err = s.Store.OAuth.RequestByCode(ctx, hash); err != nil {
			return tokens{}, err
		}
		return tokens{}, s.revokeReused(ctx, q.Key, "the code was used before")
	}
	if err != nil {
		return tokens{}, fmt.Errorf("exchange a code: %w", err)
	}
	return s.tokens(access, refresh, q.Scopes), nil
}

// isFor reports whether resources, if any is named, are opened by scopes.
func (s *Service) isFor(r *http.Request, resources, scopes []string) bool {
	return !slices.ContainsFunc(resources, func(named string) bool {
		return !slices.Contains(scopes, s.resourceScope(r, named))
	})
}

func (s *Service) accessToken(k *store.Key, secret string, now time.Time) store.OAuthToken {
	return store.OAuthToken{Hash: seal.Hash(secret), Kind: store.TokenAccess, Key: k.ID, Expires: now.Add(s.AccessLife)}
}

func refreshToken(k *store.Key, secret string, now time.Time) store.OAuthToken {
	return store.OAuthToken{Hash: seal.Hash(secret), Kind: store.TokenRefresh, Key: k.ID, Expires: now.Add(refreshIdle)}
}

func (s *Service) tokens(access, refresh string, scopes []string) tokens {
	return tokens{access, "Bearer", int64(s.AccessLife / time.Second), refresh, strings.Join(scopes, " ")}
}

// revokeReused revokes a key, because somebody else may have its code or token.
func (s *Service) revokeReused(ctx context.Context, key, told string) error {
	k, err := s.Store.Keys.ByID(ctx, key)
	if err == nil {
		err = s.Store.Keys.Revoke(ctx, key, s.Now())
	}
	if errors.Is(err, store.ErrNotFound) {
		return invalidGrant(told)
	}
	if err != nil {
		return err
	}
	s.Logger.WarnContext(ctx, "an OAuth grant was revoked, because a code or token of it was used twice",
		"key", key, "client", k.Client)
	s.Reused(ctx, k)
	return invalidGrant(told)
}

// refresh exchanges a refresh token for new tokens (RFC 6749 §6). The old one is valid for
// refreshGrace after its first use, and returns the same successor; later, its use revokes the key.
func (s *Service) refresh(r *http.Request, c *store.OAuthClient, in tokenRequest) (tokens, error) {
	ctx := r.Context()
	if in.Refresh == "" {
		return tokens{}, &tokenError{"invalid_request", "refresh_token is needed"}
	}
	hash, now := seal.Hash(in.Refresh), s.Now()
	old, err := s.Store.OAuth.Token(ctx, hash)
	if errors.Is(err, store.ErrNotFound) || err == nil && old.Kind != store.TokenRefresh {
		return tokens{}, invalidGrant("the refresh token is not valid")
	}
	if err != nil {
		return tokens{}, err
	}
	k, err := s.Store.Keys.ByID(ctx, old.Key)
	if err != nil {
		return tokens{}, err
	}
	scopes := append(slices.Clone(k.Scopes), ScopeOffline)
	switch {
	case k.Client != c.ID:
		return tokens{}, invalidGrant("the refresh token is not valid")
	case !k.Revoked.IsZero(), !k.Expires.IsZero() && !now.Before(k.Expires), !now.Before(old.Expires):
		return tokens{}, invalidGrant("the grant has ended; ask the person again")
	case !old.Used.IsZero() && now.Sub(old.Used) >= refreshGrace:
		return tokens{}, s.revokeReused(ctx, k.ID, "the refresh token was used before")
	case !account.Covers(scopes, strings.Fields(in.Scope)):
		return tokens{}, &tokenError{"invalid_scope", "the grant has not this scope"}
	case !s.isFor(r, in.Resources, k.Scopes):
		return tokens{}, &tokenError{"invalid_target", "resource is not that of the grant"}
	}
	// The successor follows from the token, so that each use in the grace period, on any instance,
	// returns the same one without its being stored.
	access, next := newSecret(accessPrefix), refreshPrefix+s.Box.Key().MAC("oauth refresh "+in.Refresh)
	first, err := s.Store.OAuth.Refresh(ctx, hash, now, s.accessToken(&k, access, now), refreshToken(&k, next, now))
	if errors.Is(err, store.ErrNotFound) {
		return tokens{}, invalidGrant("the refresh token is not valid")
	}
	if err != nil {
		return tokens{}, fmt.Errorf("refresh a token: %w", err)
	}
	if now.Sub(first) >= refreshGrace { // it was used elsewhere since it was read
		return tokens{}, s.revokeReused(ctx, k.ID, "the refresh token was used before")
	}
	return s.tokens(access, next, k.Scopes), nil
}

// revoke ends the grant of either token (RFC 7009). A token that is not valid is no error, and one
// of another client stays.
func (s *Service) revoke(ctx context.Context, c *store.OAuthClient, token string) (k store.Key, err error) {
	t, err := s.Store.OAuth.Token(ctx, seal.Hash(token))
	if err == nil {
		k, err = s.Store.Keys.ByID(ctx, t.Key)
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && k.Client != c.ID {
		return store.Key{}, nil
	}
	if err != nil {
		return store.Key{}, err
	}
	return k, s.Store.Keys.Revoke(ctx, k.ID, s.Now())
}
