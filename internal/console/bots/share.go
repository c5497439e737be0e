package bots

import (
	"slices"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgShare       = i18n.Message("Who may ask it")
	msgShareTold   = i18n.Message("Others talk with it in conversations of their own. It calls their tools for them, as far as its rules allow, and of yours only those that its settings lend. You pay for its model.")
	msgShareAgent  = i18n.Message("An agent does for them what it can do. Share it with people whom you would let use it.")
	msgEverybody   = i18n.Message("Everybody who has an account here, now or later")
	msgNobodyHere  = i18n.Message("Nobody else has an account yet.")
	msgAddPerson   = i18n.Message("Add a person")
	msgSaveSharing = i18n.Message("Save")
	msgLendTools   = i18n.Message("Lend tools")
	msgSharedBy    = i18n.Message("shared by %s")
	msgBySomebody  = i18n.Message("by %s")
	msgFrom        = i18n.Message("From")
	msgSharedTold  = i18n.Message("%s lets you ask this bot. What you say is yours: it is in your records, and %s does not read it here.")
	msgForBoard    = i18n.Message("It can answer your voice boards, too: choose it on the page of a board. Glasses ask it by its number, %d, with a key of yours.")
	msgYourDevices = i18n.Message("Your devices")
	msgOnlyYou     = i18n.Message("Now: only you.")
	msgNowAll      = i18n.Message("Now: everybody.")
	msgNowSome     = i18n.Message("Now: you, and %s.")
)

// sharingForm says who may ask a bot.
type sharingForm struct {
	control.Sharing
	People []string // all who could
	Wrong  string
}

// now says who may ask the bot.
func (f *sharingForm) now(v *page.Visit) string {
	switch {
	case f.Everybody:
		return v.Text(msgNowAll)
	case len(f.Users) > 0:
		return v.Text(msgNowSome, strings.Join(f.Users, ", "))
	}
	return v.Text(msgOnlyYou)
}

func newSharingForm(v *page.Visit, b control.BotView) (*sharingForm, error) {
	all, err := v.Instance.Control.AllPeople(v.Context(), v.Operator())
	if err != nil {
		return nil, err
	}
	f := new(sharingForm)
	for _, p := range all {
		if p.ID != b.Owner {
			f.People = append(f.People, p.Name)
		}
	}
	if b.SharedWith != nil {
		f.Sharing = *b.SharedWith
	}
	return f, nil
}

// chosen reports whether a person is named.
func (f *sharingForm) chosen(name string) bool { return slices.Contains(f.Users, name) }

// share sets who may ask a bot.
func share(v *page.Visit) {
	b, ok := find(v)
	if !ok {
		return
	}
	v.ParseForm() //nolint:errcheck // a form that cannot be read is empty, and was refused before
	in := control.BotSharing{Bot: v.PathValue("bot")}
	if in.Everybody = v.FormValue("everybody") != ""; !in.Everybody {
		in.Users = v.PostForm["users"]
	}
	if _, err := v.Instance.Control.ShareBot(v.Context(), v.Operator(), in); err != nil {
		wrong(v, err, func(status int, text string) {
			if o, ok := view(v); ok {
				o.Sharing.Wrong = text
				v.Render(status, botPage(v, o))
			}
		})
		return
	}
	v.Redirect(botPath(b, "") + "?done=shared")
}
