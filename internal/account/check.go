package account

import (
	"context"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

const (
	msgCheckPeople  = i18n.Message("people")
	msgPeople       = i18n.Message("%d")
	msgCheckConsole = i18n.Message("console")
	msgNobodySigns  = i18n.Message("nobody can sign in: no account has a password")
	msgSignsIn      = i18n.Message("%d can sign in at %s")
	msgClear        = i18n.Message("passwords travel to %s in the clear")

	advicePassword = i18n.Message("Set one: patchbay user passwd %s%s")
	adviceClear    = i18n.Message("Set tls.cert and tls.key, or put a proxy that speaks https in front and set public_url.")
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
	r.OK(msgCheckPeople.With(), msgPeople.With(len(people)))
	with := 0
	for _, p := range people {
		if p.Password != "" {
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
