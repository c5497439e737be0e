package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/pin"
)

type upstreamDiffCmd struct {
	upstreamFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamDiffCmd) Help() string {
	return `Shows the tools whose names, texts, schemas or hints differ from those that you approved, and texts that look as if they were written to mislead a model. What is held back is refused until you approve it.

Examples:

    patchbay upstream diff files
    patchbay upstream diff files --json`
}

// Run prints the changes.
func (c *upstreamDiffCmd) Run(ctx context.Context, sh *shell) error {
	return c.find(ctx, sh, func(at *conn, u control.Upstream) error {
		d, err := api.DiffUpstream.Call(ctx, at.Client, control.UpstreamRef{Upstream: u.Number})
		if err != nil {
			return err
		}
		return sh.result(d, func() { sh.showPins(&d) })
	})
}

const (
	msgHeld         = i18n.Message("changed")
	adviceHeld      = i18n.Message("Its server has changed it. See the change, and approve it: patchbay upstream diff NAME")
	msgItsHeld      = i18n.Message("Of these changed, and refused until you approve them: %d. See: patchbay upstream diff %s")
	msgPinsSame     = i18n.Message("Nothing differs from what was approved (tools: %d).")
	msgPinsOff      = i18n.Message("Changes of this server need no approval (pin=off).")
	msgPinNew       = i18n.Message("%s: new")
	msgPinChanged   = i18n.Message("%s: changed")
	msgPinRemoved   = i18n.Message("%s: no longer offered")
	msgPinHeld      = i18n.Message("held back")
	msgPinInstruct  = i18n.Message("Warning: it speaks to the model: %s")
	msgPinHidden    = i18n.Message("Warning: it has hidden characters: %s")
	msgPinOther     = i18n.Message("Warning: it names a tool of another server: %s")
	msgPinSuspects  = i18n.Message("Approved, but suspicious: %s")
	msgPinsApproved = i18n.Message("Approved: %s")
	msgPinsLeft     = i18n.Message("Still to approve: %d")
	msgPinUnknown   = i18n.Message("%s has not changed; patchbay upstream diff %s shows what has")
)

func (sh *shell) showPins(d *control.UpstreamPins) {
	switch {
	case !d.Pinned:
		sh.say(msgPinsOff)
	case len(d.Changes) == 0:
		sh.say(msgPinsSame, d.Approved)
	}
	for _, c := range d.Changes {
		sh.showChange(&c)
	}
	for _, w := range d.Warnings {
		sh.say(msgPinSuspects, pinTitle(w.Kind, w.Name))
		sh.showWarnings(w.Warnings)
	}
}

func (sh *shell) showChange(c *control.PinChange) {
	say := map[string]i18n.Message{control.PinNew: msgPinNew, control.PinRemoved: msgPinRemoved}[c.Change]
	if say == "" {
		say = msgPinChanged
	}
	line := say.In(sh.lang, pinTitle(c.Kind, c.Name))
	if c.Held {
		line += " (" + msgPinHeld.In(sh.lang) + ")"
	}
	sh.printf("%s\n", line)
	sh.showWarnings(c.Warnings)
	for _, f := range c.Differs {
		sh.printf("  %s\n", f.Name)
		for _, l := range f.Lines() {
			sh.printf("    %c %s\n", l.Op, plain(l.Text))
		}
	}
}

func (sh *shell) showWarnings(list []pin.Warning) {
	for _, w := range list {
		say := msgPinInstruct
		switch w.Found {
		case pin.Hidden:
			say = msgPinHidden
		case pin.OtherTool:
			say = msgPinOther
		}
		sh.printf("  %s\n", say.In(sh.lang, plain(w.Text)))
	}
}

func pinTitle(kind, name string) string {
	return plain(pin.Visible(control.PinName(kind, name)))
}
