package control

import (
	"context"
	"errors"
	"slices"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNoApproval      = i18n.Message("This call does not wait for an approval: it is too old, or it was decided already.")
	msgNoDecision      = i18n.Message("A decision is once, always or no.")
	msgOwnApproval     = i18n.Message("A key cannot approve its own calls: decide in the console, or with another key.")
	msgAlwaysOnlyKeys  = i18n.Message("For a bot, add the tool to the dangerous tools in its settings.")
	msgApprovalGoneKey = i18n.Message("The key of this call was revoked.")
)

// Decisions about a call that waits.
const (
	DecideOnce   = "once"   // this call may be carried out
	DecideAlways = "always" // and the key may call the tool from now on, or the computer runs the program
	DecideNo     = "no"
)

// WaitingCall is a call that waits for a person, or was decided a short time ago.
type WaitingCall = store.Approval

// Approvals are the calls that wait for a person, the oldest first.
type Approvals struct {
	Approvals []WaitingCall `json:"approvals"`
}

// ApprovalRef identifies a call that waits.
type ApprovalRef struct {
	Approval string `path:"approval" json:"-"` // its id
}

// ApprovalDecision is what a person says about a call that waits.
type ApprovalDecision struct {
	Approval string `path:"approval" json:"-"`
	Decision string `json:"decision"` // once, always or no
}

// Approvals lists the calls that wait for the caller.
func (s *Service) Approvals(ctx context.Context, c Caller, _ struct{}) (Approvals, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return Approvals{}, err
	}
	list, err := s.Hub.Store.Approvals.Waiting(ctx, c.Owner(), time.Now())
	if list == nil {
		list = []WaitingCall{}
	}
	return Approvals{list}, err
}

// WaitingCalls returns how many calls wait for the caller. It is for every page of the console.
func (s *Service) WaitingCalls(ctx context.Context, c Caller) (int, error) {
	return s.Hub.Store.Approvals.CountWaiting(ctx, c.Person, time.Now())
}

// Approval returns a call that waits, or that was decided a short time ago.
func (s *Service) Approval(ctx context.Context, c Caller, in ApprovalRef) (WaitingCall, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return WaitingCall{}, err
	}
	a, err := s.Hub.Store.Approvals.ByID(ctx, in.Approval, time.Now())
	if errors.Is(err, store.ErrNotFound) || err == nil && c.Owner() != "" && a.Person != c.Owner() {
		return WaitingCall{}, problem.New(problem.NotFound, msgNoApproval)
	}
	return a, err
}

// DecideApproval allows or denies a call that waits. The call goes on at once, on whatever instance
// it waits.
func (s *Service) DecideApproval(ctx context.Context, c Caller, in ApprovalDecision) (WaitingCall, error) {
	a, err := s.Approval(ctx, c, ApprovalRef{in.Approval})
	switch {
	case err != nil:
		return WaitingCall{}, err
	case !slices.Contains([]string{DecideOnce, DecideAlways, DecideNo}, in.Decision):
		return WaitingCall{}, problem.New(problem.Invalid, msgNoDecision)
	case a.State != store.ApprovalWaiting:
		return WaitingCall{}, problem.New(problem.NotFound, msgNoApproval)
	}
	if own, err := s.descends(ctx, c.Key, a.Key); err != nil {
		return WaitingCall{}, err
	} else if own {
		return WaitingCall{}, problem.New(problem.Denied, msgOwnApproval)
	}
	if in.Decision == DecideAlways && a.Kind == "" {
		if err := s.allowAlways(ctx, c, a); err != nil {
			return WaitingCall{}, err
		}
	}
	a, err = s.Hub.DecideApproval(ctx, a.ID, in.Decision != DecideNo,
		hub.Decider{Person: c.Person, Key: c.Key, Address: c.Address, Channel: c.Program,
			Always: in.Decision == DecideAlways && a.Kind != ""})
	if errors.Is(err, store.ErrNotFound) {
		return WaitingCall{}, problem.New(problem.NotFound, msgNoApproval)
	}
	return a, err
}

// maxKeyChain limits the keys that made one another and are looked at.
const maxKeyChain = 100

// descends reports whether a key is another one, or was made with it.
func (s *Service) descends(ctx context.Context, key, of string) (bool, error) {
	for range maxKeyChain {
		if key == "" || of == "" {
			return false, nil
		}
		if key == of {
			return true, nil
		}
		k, err := s.Hub.Store.Keys.ByID(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return false, nil // the one that made it was deleted, so it is not the other one
		}
		if err != nil {
			return false, err
		}
		key = k.Parent
	}
	return true, nil
}

// allowAlways adds the tool to those that the key of a call may call without an approval.
func (s *Service) allowAlways(ctx context.Context, c Caller, a WaitingCall) error {
	if a.Key == "" {
		return problem.New(problem.Invalid, msgAlwaysOnlyKeys)
	}
	k, err := s.Hub.Store.Keys.ByID(ctx, a.Key)
	if errors.Is(err, store.ErrNotFound) || err == nil && !k.Revoked.IsZero() {
		return problem.New(problem.Conflict, msgApprovalGoneKey)
	}
	if err != nil {
		return err
	}
	rules, err := hub.ParseRules(k.Rules)
	if err != nil {
		return err
	}
	if !slices.Contains(rules.Dangerous, a.Tool) {
		rules.Dangerous = append(rules.Dangerous, a.Tool)
	}
	_, err = s.ChangeKey(ctx, c, KeyChange{Key: a.Key, Rules: rules, Original: true})
	return err
}
