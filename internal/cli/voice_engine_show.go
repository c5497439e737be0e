package cli

import (
	"context"
	"maps"
	"slices"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/settings"
)

// voiceEngineFlags name an engine.
type voiceEngineFlags struct {
	Name        string `arg:"" help:"Number or name of the engine."`
	targetFlags `embed:""`
}

// ref names the engine for an operation.
func (f *voiceEngineFlags) ref() control.EngineRef { return control.EngineRef{Engine: f.Name} }

// explainNoEngine replaces the error about an engine that does not exist by one with a hint.
func explainNoEngine(err error, ref string) error {
	if isMissing(err) {
		return i18n.Message("there is no speech engine %q; patchbay voice engine list lists them").Errorf(ref)
	}
	return err
}

type voiceEngineShowCmd struct {
	voiceEngineFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (voiceEngineShowCmd) Help() string {
	return `Secrets are masked.

Examples:

    patchbay voice engine show openai
    patchbay voice engine show openai --json`
}

// Run shows the engine.
func (c *voiceEngineShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		d, err := api.ShowEngine.Call(ctx, at.Client, c.ref())
		if err != nil {
			return explainNoEngine(err, c.Name)
		}
		return sh.result(d, func() {
			_ = sh.engineTable([]control.Engine{d.Engine}) // without --json it does not fail
			for _, name := range slices.Sorted(maps.Keys(d.Settings)) {
				sh.printf("  %s = %s\n", name, plain(settings.Text(d.Settings[name])))
			}
		})
	})
}
