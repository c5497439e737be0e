package control

import (
	"context"
	"errors"

	"patchbay/internal/store"
)

// KeyDevice is a device of OpenClaw's that has got a token with a key, by which it connects also
// when the key is revoked.
type KeyDevice struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Role string `json:"role"` // node or operator
}

// Called returns its name, or the beginning of its id.
func (d *KeyDevice) Called() string { return called(d.Name, d.ID) }

// KeyRevocation is the revocation of a key.
type KeyRevocation struct {
	Key string `path:"key"` // its id
	// Devices ends the tokens that devices have got with it, too.
	Devices bool `query:"devices"`
}

// RevokedKey is a revoked key.
type RevokedKey struct {
	KeyRow
	// Devices have got a token with the key; Ended reports whether those have ended.
	Devices []KeyDevice `json:"devices"`
	Ended   bool        `json:"devices_ended"`
}

// RevokeKey revokes a key, and those that were created with it. They are refused from the next
// request on, at the MCP endpoints within a second. The tokens of devices end within a second, too.
func (s *Service) RevokeKey(ctx context.Context, c Caller, in KeyRevocation) (r RevokedKey, err error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return r, err
	}
	if r.KeyRow, err = s.Key(ctx, c, KeyRef{in.Key}); err != nil {
		return r, err
	}
	if err = s.revoke(ctx, c, &r.KeyRow); err != nil {
		return r, err
	}
	if r.Devices, err = s.devicesOfKey(ctx, r.ID); err != nil || !in.Devices {
		return r, err
	}
	for _, d := range r.Devices {
		err := s.Accounts.RevokePeerToken(ctx, d.ID, d.Role)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // it has ended meanwhile
			return r, err
		}
		s.RecordAdminEvent(ctx, c, EventPairRevoked, d.ID+" "+d.Role)
	}
	r.Ended = true
	return r, nil
}

// KeyDevices lists the devices that have got a token with one of the caller's keys.
func (s *Service) KeyDevices(ctx context.Context, c Caller, key string) ([]KeyDevice, error) {
	k, err := s.Key(ctx, c, KeyRef{key})
	if err != nil {
		return nil, err
	}
	return s.devicesOfKey(ctx, k.ID)
}

func (s *Service) devicesOfKey(ctx context.Context, key string) ([]KeyDevice, error) {
	tokens, err := s.Hub.Store.Peers.TokensOfKey(ctx, key)
	if err != nil {
		return nil, err
	}
	devices := []KeyDevice{}
	for _, t := range tokens {
		p, err := s.Hub.Store.Peers.ByID(ctx, t.Peer)
		switch {
		case errors.Is(err, store.ErrNotFound): // removed just now
		case err != nil:
			return nil, err
		default:
			devices = append(devices, KeyDevice{p.ID, p.Name, t.Role})
		}
	}
	return devices, nil
}
