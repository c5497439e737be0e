package tools

import (
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

const (
	msgSharedBy     = i18n.Message("shared by %s")
	msgSharedTold   = i18n.Message("%s shares this server with you. You sign in to it for yourself: what you call, you call with your own sign-in, and nobody else uses it. Only its owner sees its settings.")
	msgShare        = i18n.Message("Share it")
	msgShareTold    = i18n.Message("Each of them signs in alone, and has the tools with that sign-in. Nobody sees the settings or uses the sign-in of another. Who is no longer named loses the tools at once, and has to sign in anew.")
	msgShareWith    = i18n.Message("share\x04With")
	msgNobody       = i18n.Message("nobody")
	msgEverybody    = i18n.Message("everybody here")
	msgThesePeople  = i18n.Message("these people")
	msgPeopleTip    = i18n.Message("One name on each line.")
	msgSharedAll    = i18n.Message("shared with everybody")
	msgSharedN      = i18n.Message("shared with people: %d")
	msgSignedInN    = i18n.Message("Signed in, besides you: %d")
	msgResting      = i18n.Message("rests until it is used")
	msgLeaveSure    = i18n.Message("Sign out of %s? You lose its tools until you sign in again.")
	shareEverybody  = "everybody"
	shareWithPeople = "people"
)

// sharedWords says with whom a server is shared.
func sharedWords(v *page.Visit, s *control.UpstreamShared) string {
	if s.Everybody {
		return v.Text(msgSharedAll)
	}
	return v.Text(msgSharedN, len(s.Users))
}

// canShare reports whether the visitor may share a server: one to which people sign in.
func canShare(v *page.Visit, d *control.UpstreamDetail) bool {
	return v.IsAdmin() && d.Kind == control.KindServer && (d.Shared != nil || d.SignIn != nil && !d.SignIn.Machine)
}

// shareChoice returns what the form of a server has chosen.
func shareChoice(s *control.UpstreamShared) (with, names string) {
	switch {
	case s == nil:
		return "nobody", ""
	case s.Everybody:
		return shareEverybody, ""
	}
	return shareWithPeople, strings.Join(s.Users, "\n")
}

func shareUpstream(v *page.Visit) {
	d, err := findUpstream(v.Context(), v)
	in := control.UpstreamSharing{Upstream: d.Number,
		Sharing: control.Sharing{Everybody: v.FormValue("with") == shareEverybody}}
	if v.FormValue("with") == shareWithPeople {
		for name := range strings.Lines(v.FormValue("users")) {
			if name = strings.TrimSpace(name); name != "" {
				in.Users = append(in.Users, name)
			}
		}
	}
	if err == nil {
		_, err = v.Instance.Control.ShareUpstream(v.Context(), v.Operator(), in)
	}
	if err != nil && d.Number != 0 {
		if text, _ := v.Wrong(err); text != "" {
			d.Notice = text
			showUpstream(v, &d, "")
		}
		return
	}
	if err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(upstreamURL(d.Number))
}

// signOutSure asks whether to sign out of a server.
func signOutSure(v *page.Visit, d *control.UpstreamDetail) string {
	if d.Member {
		return v.Text(msgLeaveSure, d.Slug)
	}
	return v.Text(msgSignOutSure, d.Slug)
}
