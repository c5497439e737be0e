package cli

import (
	"context"
	"fmt"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type voiceEngineListCmd struct {
	Kinds       bool `help:"List the kinds of engines and their settings instead."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (voiceEngineListCmd) Help() string {
	return `Engines are listed in the order in which they are tried. State, delays and problems are those of the server that answers, since its start.

Examples:

    patchbay voice engine list
    patchbay voice engine list --kinds
    patchbay voice engine list --json`
}

const (
	msgNoEngines     = i18n.Message("There are no speech engines yet. To add one: patchbay voice engine add --help")
	msgEngineKindOf  = i18n.Message("%s: %s. %s")
	msgUse           = i18n.Message("USE")
	msgListenDelay   = i18n.Message("LISTENS AFTER")
	msgSpeakDelay    = i18n.Message("SPEAKS AFTER")
	msgUseListen     = i18n.Message("listens")
	msgUseSpeak      = i18n.Message("speaks")
	msgUseBoth       = i18n.Message("listens, speaks")
	msgStateUnused   = i18n.Message("not used yet")
	msgStatePaused   = i18n.Message("paused after failures")
	msgStateSpent    = i18n.Message("limit of the day reached")
	msgStateRefused  = i18n.Message("key refused")
	msgStateOff      = i18n.Message("off")
	msgStateBadSet   = i18n.Message("settings not readable")
	msgInConfig      = i18n.Message("configuration")
	msgSettingNeeded = i18n.Message("required")
)

// Run lists the engines.
func (c *voiceEngineListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		if c.Kinds {
			kinds, err := api.EngineKinds.Call(ctx, at.Client, control.Empty{})
			if err != nil {
				return err
			}
			return sh.result(kinds.Kinds, func() { sh.showEngineKinds(kinds.Kinds) })
		}
		list, err := api.ListEngines.Call(ctx, at.Client, control.Empty{})
		if err != nil {
			return err
		}
		return sh.engineTable(list.Engines)
	})
}

func (sh *shell) showEngineKinds(kinds []control.EngineKind) {
	for _, k := range kinds {
		sh.say(msgEngineKindOf, k.Name, k.Title, k.About)
		for _, s := range k.Settings {
			needed := ""
			if s.Required {
				needed = " (" + msgSettingNeeded.In(sh.lang) + ")"
			}
			sh.printf("  %s%s\n", s.Name, needed)
		}
	}
}

func (sh *shell) engineTable(list []control.Engine) error {
	return sh.result(list, func() {
		if len(list) == 0 {
			sh.say(msgNoEngines)
			return
		}
		var cells [][]string
		for _, e := range list {
			kind := e.Kind
			if e.Configured {
				kind = msgInConfig.In(sh.lang)
			}
			cells = append(cells, []string{e.Name, kind, sh.engineUses(&e), e.Where, sh.engineState(&e),
				delay(e.ListenMS, e.ListenP95MS), delay(e.SpeakMS, e.SpeakP95MS),
				problemText(e.Problem, e.Cause)})
		}
		sh.table([]i18n.Message{msgName, msgKind, msgUse, msgWhere, msgState, msgListenDelay, msgSpeakDelay,
			i18n.Message("")}, cells)
	})
}

func (sh *shell) engineUses(e *control.Engine) string {
	switch {
	case e.Listens && e.Speaks:
		return msgUseBoth.In(sh.lang)
	case e.Listens:
		return msgUseListen.In(sh.lang)
	case e.Speaks:
		return msgUseSpeak.In(sh.lang)
	}
	return "–"
}

// engineState returns the name of a state.
func (sh *shell) engineState(e *control.Engine) string {
	if !e.Enabled {
		return msgStateOff.In(sh.lang)
	}
	switch e.State {
	case control.EngineUnused:
		return msgStateUnused.In(sh.lang)
	case control.EngineReady:
		return msgReady.In(sh.lang)
	case control.EngineFailing:
		return msgFailedState.In(sh.lang)
	case control.EnginePaused:
		return msgStatePaused.In(sh.lang)
	case control.EngineSpent:
		return msgStateSpent.In(sh.lang)
	case control.EngineRefused:
		return msgStateRefused.In(sh.lang)
	case control.EngineBroken:
		return msgStateBadSet.In(sh.lang)
	}
	return "–"
}

// delay formats a median and the 95th percentile.
func delay(median, p95 int64) string {
	if median == 0 {
		return "–"
	}
	return fmt.Sprintf("%d / %d ms", median, p95)
}
