package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

// limitFlags say what a person may do.
type limitFlags struct {
	Questions  *int     `help:"Questions that bots answer in a day; 0: no limit." placeholder:"N"`
	SharedOnly *bool    `help:"Add no bots, tool servers, programs and keys: use what is shared." negatable:""`
	AllowTools []string `help:"Tools that may be called, as names and patterns with *; all: every tool." placeholder:"TOOL"`
	DenyTools  []string `help:"Tools that may never be called; none: there are no such tools." placeholder:"TOOL"`
	Bots       []string `help:"Bots of administrators that the account may ask, by number or name; none: no bots. Replaces those that were named before." placeholder:"BOT"`
}

// change changes limits, and reports whether anything is to be changed.
func (f *limitFlags) change(l *control.PersonLimits) bool {
	if f.Questions != nil {
		l.Questions = *f.Questions
	}
	if f.SharedOnly != nil {
		l.SharedOnly = *f.SharedOnly
	}
	if f.AllowTools != nil {
		l.AllowTools = slices.DeleteFunc(slices.Clone(f.AllowTools), func(t string) bool { return t == "all" })
	}
	if f.DenyTools != nil {
		l.DenyTools = withoutNone(f.DenyTools)
	}
	return f.Questions != nil || f.SharedOnly != nil || f.AllowTools != nil || f.DenyTools != nil
}

// withoutNone returns a list of which the word none makes nothing.
func withoutNone(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(t string) bool { return t == "none" })
}

type userSetCmd struct {
	Name        string `arg:"" help:"Name of the account."`
	Role        string `help:"Role: admin (everything) or member (own bots and keys)." enum:"admin,member," default:""`
	limitFlags  `embed:""`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (userSetCmd) Help() string {
	return `Limits are those of a member: an administrator has none. What is not named stays.

Examples:

    patchbay user set bob --questions 40 --shared-only
    patchbay user set bob --bots Home --bots Tutor
    patchbay user set bob --deny-tools "*_camera*" --questions 0
    patchbay user set ada --role admin`
}

const (
	msgUserSet      = i18n.Message("%s is changed.")
	msgHeadUser     = i18n.Message("%s (%s)")
	msgPausedSince  = i18n.Message("paused since %s")
	msgInvitedUntil = i18n.Message("invited until %s")
	msgUserAsked    = i18n.Message("questions today: %d of %d")
	msgUserShared   = i18n.Message("adds no bots, tool servers, programs and keys")
	msgUserAllow    = i18n.Message("may call: %s")
	msgUserDeny     = i18n.Message("may never call: %s")
	msgUserOwns     = i18n.Message("bots: %d, devices: %d")
	msgUserBots     = i18n.Message("may ask: %s")
)

// Run changes the account.
func (c *userSetCmd) Run(ctx context.Context, sh *shell) error {
	in := control.PersonChange{Role: c.Role}
	if c.Bots != nil {
		bots := withoutNone(c.Bots)
		in.Bots = &bots
	}
	return c.connect(ctx, sh, func(at *conn) error {
		p, err := findPerson(ctx, at, c.Name)
		if err != nil {
			return err
		}
		in.Person = p.ID
		if l := p.Limits; c.change(&l) {
			in.Limits = &l
		}
		if in.Role == "" && in.Bots == nil && in.Limits == nil {
			return usage(i18n.Message("no changes are given; patchbay user set --help lists them"))
		}
		return sh.changePerson(ctx, at, in, msgUserSet)
	})
}

// changePerson changes an account, and prints what it is then.
func (sh *shell) changePerson(ctx context.Context, at *conn, in control.PersonChange, done i18n.Message) error {
	p, err := api.ChangePerson.Call(ctx, at.Client, in)
	if err != nil {
		return err
	}
	return sh.result(p, func() {
		sh.say(done, p.Name)
		sh.showPerson(p)
	})
}

type userShowCmd struct {
	Name        string `arg:"" help:"Name of the account."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (userShowCmd) Help() string {
	return `Example:

    patchbay user show bob`
}

// Run shows the account.
func (c *userShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		p, err := findPerson(ctx, at, c.Name)
		if err != nil {
			return err
		}
		if p, err = api.Member.Call(ctx, at.Client, control.PersonRef{Person: p.ID}); err != nil {
			return err
		}
		return sh.result(p, func() {
			sh.say(msgHeadUser, p.Name, p.Role)
			sh.showPerson(p)
		})
	})
}

// showPerson prints what somebody may do.
func (sh *shell) showPerson(p control.Person) {
	if !p.Paused.IsZero() {
		sh.say(msgPausedSince, sh.when(p.Paused))
	}
	if !p.Invited.IsZero() {
		sh.say(msgInvitedUntil, sh.when(p.Invited))
	}
	sh.say(msgUserOwns, p.Bots, p.Devices)
	var bots []string
	for _, b := range p.MayAsk {
		bots = append(bots, b.Name+" (#"+strconv.FormatInt(b.ID, 10)+")")
	}
	if len(bots) > 0 {
		sh.say(msgUserBots, strings.Join(bots, ", "))
	}
	l := p.Limits
	if l.Questions > 0 {
		sh.say(msgUserAsked, p.Asked, l.Questions)
	}
	if l.SharedOnly {
		sh.say(msgUserShared)
	}
	if len(l.AllowTools) > 0 {
		sh.say(msgUserAllow, strings.Join(l.AllowTools, ", "))
	}
	if len(l.DenyTools) > 0 {
		sh.say(msgUserDeny, strings.Join(l.DenyTools, ", "))
	}
}
