package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"patchbay/internal/config"
	"patchbay/internal/i18n"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines"
	programs "patchbay/internal/voice/engines/command"
)

// offlinePlan is what programs on this machine can do.
type offlinePlan struct {
	Listen []string `json:"listen_command,omitempty"`
	Speak  []string `json:"speak_command,omitempty"`
	// YAML are the lines of the configuration file; empty if no program was found.
	YAML    string `json:"yaml,omitempty"`
	File    string `json:"file"` // the configuration file
	Written bool   `json:"written"`
}

const (
	msgOfflineListen  = i18n.Message("Understands speech: %s")
	msgOfflineSpeak   = i18n.Message("Speaks: %s")
	msgOfflineNoEar   = i18n.Message("No program that understands speech was found. Install whisper.cpp and give a model with --listen-model (%s), or for English: apt install pocketsphinx pocketsphinx-en-us")
	msgOfflineNoVoice = i18n.Message("No program that speaks was found: apt install espeak-ng, or install piper and give a voice with --speak-model (%s)")
	msgOfflineLines   = i18n.Message("Lines for %s:")
	msgOfflineNext    = i18n.Message("Then restart the server. To add the lines now, say --write as well.")
	msgOfflineWritten = i18n.Message("%s has the lines now; restart the server.")
	msgOfflineFails   = i18n.Message("%[1]s does not work as a speech engine: %[2]s (%[3]s)")
	msgOfflineThere   = i18n.Message("%s has a section speech already; change the lines there: without --write, the new ones are printed")
	msgOfflineModel   = i18n.Message("%s is not installed, which the model %s is for")
)

// offline finds programs on this machine and prints or writes the lines of the configuration file;
// only those name programs.
func (c *voiceSetupCmd) offline(ctx context.Context, sh *shell) error {
	settings, err := c.load(sh)
	if err != nil {
		return err
	}
	plan := offlinePlan{File: cmp.Or(c.Config, sh.getenv(config.EnvConfig),
		filepath.Join(settings.Data, config.FileName))}
	if plan.Listen, err = installed(true, c.ListenModel); err != nil {
		return err
	}
	if plan.Speak, err = installed(false, c.SpeakModel); err != nil {
		return err
	}
	if err := plan.test(ctx); err != nil {
		return err
	}
	plan.YAML = plan.lines()
	if c.Write && plan.YAML != "" {
		if err := plan.write(); err != nil {
			return err
		}
	}
	return sh.result(plan, func() { plan.show(sh) })
}

// installed returns the best program on this machine that listens or speaks, with its arguments;
// nil: there is none. Programs that need a model are used if one is given.
func installed(listens bool, model string) ([]string, error) {
	if model != "" {
		if _, err := os.Stat(model); err != nil {
			return nil, err
		}
		absolute, err := filepath.Abs(model)
		if err != nil {
			return nil, err
		}
		model = absolute
	}
	for _, p := range programs.Programs {
		if p.Listens != listens || (p.Model != "") != (model != "") {
			continue
		}
		if _, err := exec.LookPath(p.Name); err != nil {
			if model != "" {
				return nil, msgOfflineModel.Errorf(p.Name, model)
			}
			continue
		}
		argv := make([]string, len(p.Argv))
		for i, a := range p.Argv {
			argv[i] = strings.ReplaceAll(a, "{model}", model)
		}
		return argv, nil
	}
	return nil, nil
}

// test has the programs speak a sentence and listen to it.
func (p *offlinePlan) test(ctx context.Context) error {
	if len(p.Listen)+len(p.Speak) == 0 {
		return nil
	}
	e, err := programs.New(programs.Settings{Listen: p.Listen, Speak: p.Speak}, engine.Options{})
	if err != nil {
		return err
	}
	if t := engines.Try(ctx, e); !t.Problem.IsZero() {
		return msgOfflineFails.Errorf(strings.Join(append(p.Speak[:min(1, len(p.Speak))], p.Listen[:min(1,
			len(p.Listen))]...), ", "), t.Problem, t.Cause)
	}
	return nil
}

// lines returns the lines of the configuration file. A list in JSON is one in YAML.
func (p *offlinePlan) lines() string {
	text := ""
	for _, l := range []struct {
		name string
		argv []string
	}{{"listen_command", p.Listen}, {"speak_command", p.Speak}} {
		if l.argv != nil {
			argv, _ := json.Marshal(l.argv) // of texts
			text += "  " + l.name + ": " + strings.ReplaceAll(string(argv), `","`, `", "`) + "\n"
		}
	}
	if text == "" {
		return ""
	}
	return "speech:\n" + text
}

var speechSection = regexp.MustCompile(`(?m)^speech:`)

// write adds the lines to the configuration file, which may not exist.
func (p *offlinePlan) write() error {
	has, err := os.ReadFile(p.File)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case strings.Contains(string(has), p.YAML):
		p.Written = true
		return nil
	case speechSection.Match(has):
		return msgOfflineThere.Errorf(p.File)
	}
	if len(has) > 0 && !strings.HasSuffix(string(has), "\n") {
		has = append(has, '\n')
	}
	if err := os.MkdirAll(filepath.Dir(p.File), 0o700); err != nil {
		return err
	}
	p.Written = true
	return os.WriteFile(p.File, append(has, p.YAML...), 0o600)
}

func (p *offlinePlan) show(sh *shell) {
	if p.Listen != nil {
		sh.say(msgOfflineListen, p.Listen[0])
	} else {
		sh.say(msgOfflineNoEar, programs.Programs[0].Model)
	}
	if p.Speak != nil {
		sh.say(msgOfflineSpeak, p.Speak[0])
	} else {
		sh.say(msgOfflineNoVoice, "https://huggingface.co/rhasspy/piper-voices")
	}
	switch {
	case p.Written:
		sh.say(msgOfflineWritten, p.File)
	case p.YAML != "":
		sh.say(msgOfflineLines, p.File)
		sh.printf("\n%s\n", p.YAML)
		sh.say(msgOfflineNext)
	}
}
