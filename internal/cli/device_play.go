package cli

import (
	"context"
	"io"
	"os"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/voice/engine"
)

type devicePlayCmd struct {
	Text        string `help:"Text that the device shows during playback." placeholder:"TEXT"`
	laterFlag   `embed:""`
	deviceFlags `embed:""`
	Source      string `arg:"" name:"file|url" help:"An Ogg Opus, WAV or MP3 file of up to 2 MiB, or its http or https URL."`
}

// laterFlag queues a call for a device that is asleep.
type laterFlag struct {
	Later bool `help:"If the device is asleep, deliver it when the device wakes."`
}

// Help returns the command's detailed help with examples.
func (devicePlayCmd) Help() string {
	return `To create a file, run: ffmpeg -i song.mp3 -ac 1 -c:a libopus song.ogg

Examples:

    patchbay device play kitchen bell.ogg
    patchbay device play kitchen https://example.org/news.ogg --text "The news"
    patchbay device play 3 https://example.org/reminder.wav --later`
}

// maxPlayed is the maximum size of a file that is sent with a call, in bytes. It keeps the call
// below its limit of 4 MiB.
const maxPlayed = 2 << 20

// Run plays the sound.
func (c *devicePlayCmd) Run(ctx context.Context, sh *shell) error {
	args := map[string]any{}
	if err := addSound(args, c.Source); err != nil {
		return err
	}
	if c.Text != "" {
		args["text"] = c.Text
	}
	if c.Later {
		args["later"] = true
	}
	return c.callTool(ctx, sh, toolPlay, args)
}

// addSound adds a URL, or the content of a file, to the arguments of a tool; empty: neither.
func addSound(args map[string]any, source string) error {
	switch {
	case source == "":
		return nil
	case strings.HasPrefix(source, "http://"), strings.HasPrefix(source, "https://"):
		args["url"] = source
		return nil
	}
	sound, err := readSound(source)
	args["sound"] = sound // encoded as base64 in JSON
	return err
}

// readSound reads a sound file that devices can play.
func readSound(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sound, err := io.ReadAll(io.LimitReader(f, maxPlayed+1))
	switch {
	case err != nil:
		return nil, err
	case engine.FormatOf(sound) == 0:
		return nil, i18n.Message("%s is no Ogg, WAV or MP3 file; make one with: ffmpeg -i %s -ac 1 -c:a libopus sound.ogg").Errorf(name, quoteWord(name))
	case len(sound) > maxPlayed:
		return nil, i18n.Message("%s is larger than %d MiB; give the device a URL instead").Errorf(name,
			maxPlayed>>20)
	}
	return sound, nil
}
