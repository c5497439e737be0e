package app

import (
	"strings"

	"patchbay/internal/config"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/command"
)

// programs returns the engines of the configuration that are programs on this machine.
func programs(s config.Speech, o engine.Options) (links []engine.Link, err error) {
	for _, p := range []struct {
		name string
		of   command.Settings
	}{{"speech.listen_command", command.Settings{Listen: s.ListenCommand}},
		{"speech.speak_command", command.Settings{Speak: s.SpeakCommand}}} {
		if len(p.of.Listen)+len(p.of.Speak) == 0 {
			continue
		}
		e, err := command.New(p.of, o)
		if err != nil {
			return nil, err
		}
		links = append(links, engine.Link{Name: p.name, Engine: e, Spell: spelling(e)})
	}
	return links, nil
}

// isProgram reports whether an engine of the configuration is a program on this machine.
func isProgram(name string) bool { return strings.HasSuffix(name, "_command") }
