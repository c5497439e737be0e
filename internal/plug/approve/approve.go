// Package approve tells people of calls that wait for their approval, on their glasses, and lets
// them decide by voice.
package approve

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/pin"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/words"
)

// Settings is a setting of bots.
type Settings struct {
	// Approve lets people who talk to the bot decide about calls that wait for its owner.
	Approve bool `json:"approve,omitempty"`
	// ApproveAloud has the owner's boards that speak with the bot say that a call waits, if Approve
	// is set.
	ApproveAloud bool `json:"approve_aloud,omitempty"`
}

// Options configures a [Service]. All fields are required.
type Options struct {
	Hub    *hub.Hub
	Logger *slog.Logger
	// MayDecide reports whether the asker of a turn may decide for the owner of the bot. The bot's
	// setting allows it already.
	MayDecide func(ctx context.Context, bot store.Bot, turn *talk.Turn) bool
	// Show shows a text on the glasses of a person. It returns [ErrNoGlasses] if none can be
	// reached.
	Show func(ctx context.Context, person, id, text string, lang i18n.Lang) error
	// Say has the boards of a person that speak with one of the bots say a text, unless somebody
	// talks with them. Those that cannot speak now may say it until a time.
	Say func(ctx context.Context, person string, bots []int64, text string, until time.Time) error
	// PublicURL is the address of the console; empty if it is not known.
	PublicURL string
}

// ErrNoGlasses means that a person has no glasses that can be reached.
var ErrNoGlasses = errors.New("no glasses can be reached")

// Service tells people of calls, and understands what they decide. It is safe for concurrent use.
type Service struct{ Options }

// New returns a service.
func New(o Options) *Service { return &Service{o} }

// maxSpokenArgs limits the arguments of a call that can be decided by voice, in bytes: they have to
// be told.
const maxSpokenArgs = 200

const (
	msgAsks     = i18n.Message("%s wants to use %s (%s) with %s. Say “allow it” or “refuse it”.")
	msgOpen     = i18n.Message("%s wants to use %s (%s). Decide in Patchbay: %s")
	msgOpenHome = i18n.Message("%s wants to use %s (%s). Decide in Patchbay, on the page Approvals.")
	msgAloud    = i18n.Message("%s wants to use %s. Say “allow it” or “refuse it”.")
	msgAloudFar = i18n.Message("%s wants to use %s. Decide in Patchbay, on the page Approvals.")
	msgAllowed  = i18n.Message("Allowed: %s may use %s once.")
	msgRefused  = i18n.Message("Refused: %s may not use %s.")
	msgTooLong  = i18n.Message("That call has more arguments than can be told. Decide in Patchbay, on the page Approvals.")
	msgSeveral  = i18n.Message("%d calls wait. Decide in Patchbay, on the page Approvals.")
	msgTooLate  = i18n.Message("That call does not wait any more.")
)

// Notify tells the owner of a call, as [hub.Hub.OnApproval] wants it.
func (s *Service) Notify(ctx context.Context, a store.Approval) {
	p, err := s.Hub.Store.People.ByID(ctx, a.Person)
	if err == nil {
		var said sync.WaitGroup
		defer said.Wait()
		said.Go(func() { s.sayAloud(ctx, a, i18n.ParseLang(p.Lang, i18n.English)) })
		lang := i18n.ParseLang(p.Lang, i18n.English)
		err = s.Show(ctx, a.Person, a.ID, s.question(ctx, a).In(lang), lang)
	}
	if err != nil && !errors.Is(err, ErrNoGlasses) {
		s.Logger.WarnContext(ctx, "a person was not told on their glasses that a call waits", "person", a.Person,
			"error", err)
	}
}

// sayAloud has boards say that a call waits, but for its arguments: others may hear it. While
// several calls wait, none of which can be decided by voice, nothing more is said.
func (s *Service) sayAloud(ctx context.Context, a store.Approval, lang i18n.Lang) {
	bots, err := s.Hub.Store.Bots.ByOwner(ctx, a.Person)
	var aloud []int64
	for _, b := range bots {
		var o Settings
		if s.Hub.Registry.Settings(b, &o) == nil && o.Approve && o.ApproveAloud {
			aloud = append(aloud, b.Number)
		}
	}
	if err == nil && len(aloud) > 0 {
		var waiting []store.Approval
		if waiting, err = s.Hub.Store.Approvals.Waiting(ctx, a.Person, time.Now()); err == nil && len(waiting) == 1 &&
			waiting[0].ID == a.ID {
			text := msgAloud.With(a.Caller, a.Spoken())
			if len(a.Args) > maxSpokenArgs {
				text = msgAloudFar.With(a.Caller, a.Spoken())
			}
			err = s.Say(ctx, a.Person, aloud, text.In(lang), a.Expires)
		}
	}
	if err != nil {
		s.Logger.WarnContext(ctx, "a person was not told by boards that a call waits", "person", a.Person, "error", err)
	}
}

// question says what waits, and how to decide.
func (s *Service) question(ctx context.Context, a store.Approval) i18n.Text {
	bots, err := s.Hub.Store.Bots.ByOwner(ctx, a.Person)
	if err == nil {
		for _, b := range bots {
			if len(a.Args) <= maxSpokenArgs && s.allows(b) {
				return msgAsks.With(a.Caller, a.Title, a.Provider, pin.Visible(a.Args))
			}
		}
	}
	if s.PublicURL == "" {
		return msgOpenHome.With(a.Caller, a.Title, a.Provider)
	}
	return msgOpen.With(a.Caller, a.Title, a.Provider, hub.ApprovalURL(s.PublicURL, a.ID))
}

// allows reports whether the owner of a bot has people decide who talk to it.
func (s *Service) allows(bot store.Bot) bool {
	var o Settings
	return s.Hub.Registry.Settings(bot, &o) == nil && o.Approve
}

// Intercept answers a turn that allows or refuses a call, as [hub.Interceptor] wants it.
func (s *Service) Intercept(ctx context.Context, bot store.Bot, turn *talk.Turn) talk.Bot {
	text := turn.Text()
	allow := words.IsAllow(text)
	if !allow && !words.IsRefuse(text) || turn.Depth > 0 || !s.allows(bot) || !s.MayDecide(ctx, bot, turn) {
		return nil
	}
	list, err := s.Hub.Store.Approvals.Waiting(ctx, bot.Owner, time.Now())
	if err != nil {
		s.Logger.WarnContext(ctx, "the calls that wait for an approval cannot be read", "error", err)
	}
	if len(list) == 0 {
		return nil // it means something else
	}
	return &decision{s, bot.Owner, list, allow}
}

// decision answers a turn by deciding about a call.
type decision struct {
	s     *Service
	owner string // who decides: the bot's owner
	list  []store.Approval
	allow bool
}

// Answer decides, and says so.
func (d *decision) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	if turn.Commit != nil {
		if err := turn.Commit(ctx); err != nil {
			return err
		}
	}
	text, err := d.decide(ctx, turn)
	if err != nil {
		return err
	}
	return emit(talk.Text(text.In(turn.Lang)))
}

func (d *decision) decide(ctx context.Context, turn *talk.Turn) (i18n.Text, error) {
	if len(d.list) > 1 {
		return msgSeveral.With(len(d.list)), nil
	}
	a := &d.list[0]
	if d.allow && len(a.Args) > maxSpokenArgs {
		return msgTooLong.With(), nil
	}
	_, err := d.s.Hub.DecideApproval(ctx, a.ID, d.allow,
		hub.Decider{Person: d.owner, Address: turn.Address, Channel: turn.Channel})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return msgTooLate.With(), nil
	case err != nil:
		return i18n.Text{}, err
	case d.allow:
		return msgAllowed.With(a.Caller, a.Title), nil
	}
	return msgRefused.With(a.Caller, a.Title), nil
}
