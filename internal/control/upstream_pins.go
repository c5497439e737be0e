package control

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/pin"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgPinsNone    = i18n.Message("It has no tools of its own, so there is nothing to approve.")
	msgPinsChanged = i18n.Message("The server has changed that again since you saw it. Look at the difference once more.")
	msgPinsNothing = i18n.Message("There is nothing to approve.")
)

// What has become of something pinned, in [PinChange].
const (
	PinNew     = "new"
	PinChanged = "changed"
	PinRemoved = "removed"
)

// PinChange is a difference between what an upstream offers and what its owner has approved.
type PinChange struct {
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"` // of the new form; to approve it
	// Change is one of the Pin… constants.
	Change string `json:"change"`
	// Held means that it is refused until it is approved.
	Held       bool          `json:"held"`
	Differs    []pin.Field   `json:"differs,omitempty"`
	Warnings   []pin.Warning `json:"warnings,omitempty"`
	ApprovedAt time.Time     `json:"approved_at,omitzero"`
	NoticedAt  time.Time     `json:"noticed_at,omitzero"`
}

// PinWarning is something suspicious in what the owner has approved.
type PinWarning struct {
	Kind     string        `json:"kind"`
	Name     string        `json:"name"`
	Warnings []pin.Warning `json:"warnings"`
}

// UpstreamPins is what an upstream offers, compared with what its owner has approved.
type UpstreamPins struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
	// Pinned is false if changes need no approval (setting pin=off).
	Pinned   bool         `json:"pinned"`
	Approved int          `json:"approved"` // number of approved tools
	Changes  []PinChange  `json:"changes"`
	Warnings []PinWarning `json:"warnings"`
}

// PinName returns how something pinned is called in texts.
func PinName(kind, name string) string {
	switch kind {
	case pin.Server:
		return "instructions"
	case pin.Prompt, pin.Template, pin.Resource:
		return kind + ":" + name
	}
	return name
}

// maxPinNames limits the names in an admin event.
const maxPinNames = 20

// AboutPins describes pins of an upstream in an admin event.
func AboutPins(slug string, names []string) string {
	more := ""
	if len(names) > maxPinNames {
		more = " … +" + strconv.Itoa(len(names)-maxPinNames)
		names = names[:maxPinNames]
	}
	return slug + ": " + pin.Visible(strings.Join(names, ", ")) + more
}

// UpstreamPins compares what an upstream offers with what its owner has approved.
func (s *Service) UpstreamPins(ctx context.Context, c Caller, in UpstreamRef) (UpstreamPins, error) {
	u, err := s.upstream(ctx, c, in.Upstream)
	if err != nil {
		return UpstreamPins{}, err
	}
	if u.Kind != KindServer && u.Kind != KindDialsIn {
		return UpstreamPins{}, problem.New(problem.Invalid, msgPinsNone)
	}
	rows, err := s.Hub.Store.Pins.List(ctx, u.Number)
	if err != nil {
		return UpstreamPins{}, err
	}
	others := s.foreignTools(u, rows)
	out := comparePins(rows, others)
	out.ID, out.Name, out.Pinned = u.Number, u.Slug, s.isPinned(u)
	return out, nil
}

// isPinned reports whether changes of an upstream need approval.
func (s *Service) isPinned(u store.Upstream) bool {
	shown, err := s.Upstreams.Shown(u)
	var set string
	return err != nil || json.Unmarshal(shown["pin"], &set) != nil || set != "off"
}

// comparePins returns the changes and warnings of pins.
func comparePins(rows []store.Pin, others map[string]bool) UpstreamPins {
	out := UpstreamPins{Changes: []PinChange{}, Warnings: []PinWarning{}}
	for _, p := range rows {
		if p.Kind == pin.Tool && p.Fingerprint != "" {
			out.Approved++
		}
		if w := pin.Scan(p.Name, p.Content, others); p.Fingerprint != "" && len(w) > 0 {
			out.Warnings = append(out.Warnings, PinWarning{p.Kind, p.Name, w})
		}
		if p.Pending == "" {
			continue
		}
		ch := PinChange{Kind: p.Kind, Name: p.Name, Fingerprint: p.Pending, Change: PinChanged,
			Held:     p.Risk == pin.Held,
			Differs:  pin.Compare(p.Content, p.PendingContent),
			Warnings: pin.Scan(p.Name, p.PendingContent, others), ApprovedAt: p.Approved, NoticedAt: p.Noticed}
		switch {
		case p.Fingerprint == "":
			ch.Change, ch.ApprovedAt = PinNew, time.Time{}
		case p.Pending == pin.Removed:
			ch.Change, ch.Warnings = PinRemoved, nil
		}
		out.Changes = append(out.Changes, ch)
	}
	return out
}

// minOwnName is the length from which a tool's own name, without its provider's, is no word of a
// language.
const minOwnName = 8

// foreignTools returns the names of the tools of an owner that are not of an upstream: in full, and
// their own if these are no words.
func (s *Service) foreignTools(u store.Upstream, rows []store.Pin) map[string]bool {
	list, err := s.Hub.Inventory(u.Owner, "")
	if err != nil {
		return nil
	}
	out := map[string]bool{}
	id := "upstream:" + strconv.FormatInt(u.Number, 10)
	for _, l := range list {
		if l.Provider().ID == id {
			continue
		}
		for _, name := range []string{l.Name, l.OriginalName(), l.Tool.Name} {
			if isNoWord(name) {
				out[name] = true
			}
		}
	}
	at := hub.ProviderRef{Slug: u.Slug}
	for _, p := range rows {
		delete(out, p.Name)
		delete(out, at.FullName(p.Name))
	}
	return out
}

func isNoWord(name string) bool { return len(name) >= minOwnName && strings.ContainsAny(name, "_.") }

// PinApproval approves changes of an upstream.
type PinApproval struct {
	Upstream int64 `path:"upstream" json:"-"`
	// Changes are the approved ones, with the fingerprints that the owner has seen.
	Changes []ApprovedPin `json:"changes"`
}

// ApprovedPin is a change that its owner has seen.
type ApprovedPin struct {
	Kind        string `json:"kind"`
	Name        string `json:"name"`
	Fingerprint string `json:"fingerprint"`
}

// ApprovedPins are changes that were approved, and what remains.
type ApprovedPins struct {
	Approved []string `json:"approved"`
	UpstreamPins
}

// ApproveUpstream approves changes of an upstream, on all instances.
func (s *Service) ApproveUpstream(ctx context.Context, c Caller, in PinApproval) (ApprovedPins, error) {
	_, u, err := s.changeable(ctx, c, in.Upstream, nil)
	if err != nil {
		return ApprovedPins{}, err
	}
	if len(in.Changes) == 0 {
		return ApprovedPins{}, problem.New(problem.Invalid, msgPinsNothing)
	}
	var names []string
	var forms []store.PinForm
	for _, a := range in.Changes {
		k := store.PinKey{Kind: a.Kind, Name: a.Name}
		names = append(names, PinName(a.Kind, a.Name))
		forms = append(forms, store.PinForm{PinKey: k, Fingerprint: a.Fingerprint})
	}
	err = s.Hub.Store.Pins.Approve(ctx, u.Number, forms, pin.Removed, time.Now())
	if errors.Is(err, store.ErrPinChanged) {
		err = problem.New(problem.Conflict, msgPinsChanged)
	}
	if err != nil {
		return ApprovedPins{}, err
	}
	slices.Sort(names)
	s.RecordAdminEvent(ctx, c, EventPinsApproved, AboutPins(u.Slug, names))
	s.toolsChanged(ctx)
	left, err := s.UpstreamPins(ctx, c, UpstreamRef{in.Upstream})
	return ApprovedPins{names, left}, err
}

const (
	msgCheckPins  = i18n.Message("tools of %s")
	msgPinsHeld   = i18n.Message("changes that are refused until you approve them: %d")
	msgPinsFlag   = i18n.Message("changes that you have not seen: %d")
	msgPinsDoubt  = i18n.Message("texts of approved tools look as if they were written to mislead a model: %s")
	adviceSeePins = i18n.Message("See them: patchbay upstream diff %s%s")
)

// CheckPins checks whether changes of a tool server wait for approval, and its texts.
func CheckPins(ctx context.Context, r *check.Report, db *store.DB, u store.Upstream) {
	if u.Kind != KindServer && u.Kind != KindDialsIn {
		return
	}
	name, advice := msgCheckPins.With(u.Slug), adviceSeePins.With(u.Slug, r.Flags)
	rows, err := db.Pins.List(ctx, u.Number)
	if err != nil {
		r.Error(name, err, check.AdviceLog.With())
		return
	}
	p := comparePins(rows, nil)
	held, suspicious := 0, []string{}
	for _, c := range p.Changes {
		if c.Held {
			held++
		}
	}
	for _, w := range p.Warnings {
		suspicious = append(suspicious, PinName(w.Kind, w.Name))
	}
	switch {
	case held > 0:
		r.Warn(name, msgPinsHeld.With(held), advice)
	case len(p.Changes) > 0:
		r.Warn(name, msgPinsFlag.With(len(p.Changes)), advice)
	}
	if len(suspicious) > 0 {
		r.Warn(name, msgPinsDoubt.With(check.Quote(pin.Visible(strings.Join(suspicious, ", ")))), advice)
	}
}
