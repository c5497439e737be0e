package account

import (
	"context"
	"slices"
	"strings"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

const (
	msgCheckPeople  = i18n.Message("people")
	msgPeople       = i18n.Message("%d")
	msgPeoplePaused = i18n.Message("%d, paused: %s")
	msgCheckConsole = i18n.Message("console")
	msgNobodySigns  = i18n.Message("nobody can sign in: no account has a password")
	msgSignsIn      = i18n.Message("%d can sign in at %s")
	msgClear        = i18n.Message("passwords travel to %s in the clear")

	msgCheckSteps   = i18n.Message("second steps")
	msgPasswordOnly = i18n.Message("from the internet, a password alone opens everything that these administrators can: %s")
	msgAllSteps     = i18n.Message("no administrator signs in with a password alone")

	adviceSteps    = i18n.Message("They can add a passkey or an authenticator app in the console, under Settings.")
	advicePassword = i18n.Message("Set one: patchbay user passwd %s%s")
	adviceClear    = i18n.Message("Let the server get a certificate (https.names), set tls.cert and tls.key, or put a proxy that speaks https in front and set public_url.")
)

// CheckPeople checks that there are people who can sign in to the console at an address, and that
// their passwords are encrypted in transit.
func CheckPeople(ctx context.Context, r *check.Report, db *store.DB, address string, unencrypted bool) {
	people, err := db.People.All(ctx)
	if err != nil {
		r.Error(msgCheckPeople.With(), err, check.AdviceLog.With())
		return
	}
	if len(people) == 0 {
		r.Warn(msgCheckPeople.With(), check.NothingYet.With(), check.AdviceBegin.With(r.Flags))
		return
	}
	var paused []string
	for _, p := range people {
		if !p.Paused.IsZero() {
			paused = append(paused, p.Name)
		}
	}
	if len(paused) > 0 {
		r.OK(msgCheckPeople.With(), msgPeoplePaused.With(len(people), strings.Join(paused, ", ")))
	} else {
		r.OK(msgCheckPeople.With(), msgPeople.With(len(people)))
	}
	linked, err := db.Linked.List(ctx, "")
	if err != nil {
		r.Error(msgCheckPeople.With(), err, check.AdviceLog.With())
		return
	}
	with := 0
	for _, p := range people {
		if p.Password != "" || slices.ContainsFunc(linked, func(l store.Linked) bool { return l.Person == p.ID }) {
			with++
		}
	}
	switch {
	case with == 0:
		r.Warn(msgCheckConsole.With(), msgNobodySigns.With(), advicePassword.With(check.Quote(people[0].Name), r.Flags))
	case unencrypted:
		r.Warn(msgCheckConsole.With(), msgClear.With(address), adviceClear.With())
	default:
		r.OK(msgCheckConsole.With(), msgSignsIn.With(with, address))
	}
}

// CheckSecondSteps checks that no administrator of an installation that the internet reaches signs
// in with a password alone.
func (s *Service) CheckSecondSteps(ctx context.Context, r *check.Report) {
	people, err := s.db.People.All(ctx)
	if err != nil {
		r.Error(msgCheckSteps.With(), err, check.AdviceLog.With())
		return
	}
	steps, err := s.EverySecondStep(ctx, "")
	var alone []string
	for _, p := range people {
		if p.Role == RoleAdmin && p.Password != "" && !steps[p.ID].Any() {
			alone = append(alone, p.Name)
		}
	}
	switch {
	case err != nil:
		r.Error(msgCheckSteps.With(), err, check.AdviceLog.With())
	case len(alone) > 0:
		r.Warn(msgCheckSteps.With(), msgPasswordOnly.With(strings.Join(alone, ", ")), adviceSteps.With())
	case len(people) > 0:
		r.OK(msgCheckSteps.With(), msgAllSteps.With())
	}
}
