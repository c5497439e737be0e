package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type voiceEngineTryCmd struct {
	Name        string `arg:"" help:"Number or name of the engine."`
	Say         string `help:"A text to speak; the sound is written to --out." placeholder:"TEXT" xor:"what"`
	Out         string `help:"File for the sound, a WAV file." placeholder:"FILE" default:"speech.wav"`
	Hear        string `help:"A WAV or Ogg Opus file to understand; - reads standard input." placeholder:"FILE" xor:"what"`
	Language    string `help:"Language of the sound, such as zh or en; default: the engine finds out." placeholder:"CODE"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (voiceEngineTryCmd) Help() string {
	return `Examples:

    patchbay voice engine try openai --say "Good morning" --out morning.wav
    patchbay voice engine try openai --hear morning.wav
    patchbay voice engine try funasr --hear question.ogg --language zh --json`
}

const (
	msgEngineSaid  = i18n.Message("%s: %d ms of speech; the first sound came after %d ms.")
	msgEngineHeard = i18n.Message("Understood after %d ms: %s")
)

// maxHearFile limits a file to understand, in bytes: two minutes of WAV at 16 kHz.
const maxHearFile = 4 << 20

// Run tries the engine.
func (c *voiceEngineTryCmd) Run(ctx context.Context, sh *shell) error {
	switch {
	case c.Say != "":
		return c.connect(ctx, sh, func(at *conn) error { return c.say(ctx, sh, at) })
	case c.Hear != "":
		return c.connect(ctx, sh, func(at *conn) error { return c.hear(ctx, sh, at) })
	}
	return usage(i18n.Message("give a text with --say or a file with --hear"))
}

func (c *voiceEngineTryCmd) say(ctx context.Context, sh *shell, at *conn) error {
	said, err := api.SayWithEngine.Call(ctx, at.Client, control.EngineText{Engine: c.Name, Text: c.Say})
	if err != nil {
		return explainNoEngine(err, c.Name)
	}
	if err := os.WriteFile(c.Out, said.Sound, 0o600); err != nil {
		return err
	}
	return sh.result(struct {
		File     string `json:"file"`
		FirstMS  int64  `json:"first_ms"`
		LengthMS int64  `json:"length_ms"`
	}{c.Out, said.FirstMS, said.LengthMS}, func() { sh.say(msgEngineSaid, c.Out, said.LengthMS, said.FirstMS) })
}

func (c *voiceEngineTryCmd) hear(ctx context.Context, sh *shell, at *conn) error {
	in := sh.stdin
	if c.Hear != "-" {
		f, err := os.Open(c.Hear)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	sound, err := io.ReadAll(io.LimitReader(in, maxHearFile+1))
	switch {
	case err != nil:
		return err
	case len(sound) > maxHearFile:
		return i18n.Message("%s has more than %d bytes").Errorf(c.Hear, maxHearFile)
	}
	heard, err := api.HearWithEngine.Call(ctx, at.Client, control.EngineSound{Engine: c.Name, Sound: sound,
		Language: c.Language})
	if err != nil {
		return explainNoEngine(err, c.Name)
	}
	return sh.result(heard, func() { sh.say(msgEngineHeard, heard.TookMS, fmt.Sprintf("%q", plain(heard.Text))) })
}
