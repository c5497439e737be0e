package control

import (
	"context"
	"errors"
	"strings"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNoSetupCode    = i18n.Message("There is no such setup code, or it has expired.")
	msgManySetupCodes = i18n.Message("Several setup codes have ids that begin with %q; give more of it.")
	msgSetupCodeUsed  = i18n.Message("%s has used this setup code already. To remove it: patchbay node rm %s")
)

// SetupCode is a setup code that is valid, without what is secret in it.
type SetupCode struct {
	ID      string    `json:"id"`
	Person  string    `json:"person"` // the name of who made it
	Key     string    `json:"key,omitempty"`
	KeyName string    `json:"key_name,omitempty"`
	URL     string    `json:"url"` // address of this server in it
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	// Node is the id of the node that has used it, and NodeName its name; empty: none yet. No other
	// node can use it then.
	Node     string `json:"node,omitempty"`
	NodeName string `json:"node_name,omitempty"`
}

// Used reports whether a node has used it.
func (c *SetupCode) Used() bool { return c.Node != "" }

// CalledNode returns the name of the node that has used it, or the beginning of its id.
func (c *SetupCode) CalledNode() string { return called(c.NodeName, c.Node) }

// SetupCodes are the valid setup codes, the newest first.
type SetupCodes struct {
	Codes []SetupCode `json:"codes"`
}

// SetupCodeRef identifies a setup code.
type SetupCodeRef struct {
	Code string `path:"code" json:"-"` // its id, or the beginning of it
}

// SetupCodes lists the valid setup codes of the caller.
func (s *Service) SetupCodes(ctx context.Context, c Caller, _ Empty) (SetupCodes, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return SetupCodes{}, err
	}
	list, err := s.Hub.Store.Peers.Invites(ctx, c.Owner(), time.Now())
	out := SetupCodes{Codes: []SetupCode{}}
	for _, i := range list {
		out.Codes = append(out.Codes, SetupCode{ID: i.ID, Person: i.OwnerName, Key: i.Key, KeyName: i.KeyName,
			URL: i.URL, Created: i.Created, Expires: i.Expires, Node: i.Peer, NodeName: i.PeerName})
	}
	return out, err
}

// CancelSetupCode makes a setup code invalid that no node has used yet, and returns it.
func (s *Service) CancelSetupCode(ctx context.Context, c Caller, in SetupCodeRef) (SetupCode, error) {
	list, err := s.SetupCodes(ctx, c, Empty{})
	if err != nil {
		return SetupCode{}, err
	}
	var found []SetupCode
	for _, code := range list.Codes {
		if in.Code != "" && strings.HasPrefix(code.ID, in.Code) {
			found = append(found, code)
		}
	}
	switch {
	case len(found) == 0:
		return SetupCode{}, problem.New(problem.NotFound, msgNoSetupCode)
	case len(found) > 1:
		return SetupCode{}, problem.New(problem.Conflict, msgManySetupCodes, in.Code)
	case found[0].Used():
		return SetupCode{}, problem.New(problem.Conflict, msgSetupCodeUsed, found[0].CalledNode(), found[0].Node)
	}
	err = s.Hub.Store.Peers.CancelInvite(ctx, found[0].ID)
	if errors.Is(err, store.ErrNotFound) { // it was used, or was cancelled, at this moment
		return SetupCode{}, problem.New(problem.NotFound, msgNoSetupCode)
	}
	if err == nil {
		s.RecordAdminEvent(ctx, c, EventPairCancelled, found[0].ID)
	}
	return found[0], err
}
