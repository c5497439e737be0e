package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type voiceEngineAddCmd struct {
	Name        string   `arg:"" help:"Name of the engine."`
	Kind        string   `help:"Kind of the engine, which is the interface that it speaks; default: openai. patchbay voice engine list --kinds lists the kinds." default:"openai" placeholder:"KIND"`
	Set         []string `help:"A setting as name=value, or name=@FILE to read the value from a file (@- from standard input). Repeatable." sep:"none" placeholder:"K=V"`
	Use         string   `help:"Use: listen (understand speech), speak, or both; default: whatever it can do." placeholder:"USE" enum:"listen,speak,both" default:"both"`
	NoCheck     bool     `help:"Skip the check, which has the engine speak a sentence and listen to it."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (voiceEngineAddCmd) Help() string {
	return `Boards use the first engine that works. A new one comes last; patchbay voice engine move changes the order.

Examples:

    patchbay voice engine add openai --set base_url=https://api.openai.com/v1 --set api_key=@key.txt
    patchbay voice engine add kokoro --use speak --set base_url=http://localhost:8880/v1 --set speak_model=kokoro
    patchbay voice engine add funasr --kind stream --set url=wss://localhost:10095 --set dialect=funasr --no-check`
}

const (
	msgEngineAdded  = i18n.Message("The speech engine %s is added.")
	msgEngineListen = i18n.Message("It listens: a text after %d ms.")
	msgEngineSpeak  = i18n.Message("It speaks: sound after %d ms.")
)

// Run adds the engine.
func (c *voiceEngineAddCmd) Run(ctx context.Context, sh *shell) error {
	set, err := sh.pairs(c.Set)
	if err != nil {
		return err
	}
	return c.connect(ctx, sh, func(at *conn) error {
		added, err := api.AddEngine.Call(ctx, at.Client, control.NewEngine{Name: c.Name, Kind: c.Kind, Settings: set,
			Use: engineUse(c.Use), Unchecked: c.NoCheck})
		if err != nil {
			return err
		}
		return sh.result(added, func() {
			sh.say(msgEngineAdded, added.Name)
			sh.showEngineFound(added.Found)
		})
	})
}

// engineUse returns the use of an engine as the operations have it.
func engineUse(flag string) string {
	if flag == "both" {
		return ""
	}
	return flag
}

func (sh *shell) showEngineFound(f *control.EngineFound) {
	switch {
	case f == nil:
		return
	case f.Listens && f.Speaks:
		sh.say(msgEngineSpeak, f.SpeakMS)
		sh.say(msgEngineListen, f.ListenMS)
	case f.Listens:
		sh.say(msgEngineListen, f.ListenMS)
	case f.Speaks:
		sh.say(msgEngineSpeak, f.SpeakMS)
	}
}
