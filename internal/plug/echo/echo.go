// Package echo implements a bot that repeats the message it receives, one character at a time.
// It has no dependencies, so it shows whether a path through the hub works. A few phrases make it
// send device commands.
package echo

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/hub"
	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/settings"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// Settings are the settings of an echo bot.
type Settings struct {
	// Pace is the pause between two characters; 0 means no pause.
	Pace settings.Duration `json:"pace,omitempty"`
}

// Kind returns the bot kind "echo".
func Kind() hub.Kind {
	return hub.Kind{
		Name: "echo",
		Text: hub.KindText{
			Name:  i18n.Message("Echo"),
			About: i18n.Message("Says everything back. Use it first, to see that the way to it works."),
			Needs: i18n.Message("Needs nothing."),
			Settings: map[string]settings.FieldText{"pace": {Label: i18n.Message("Pause"),
				Hint: i18n.Message("Between two characters, such as 50ms"), Example: "50ms"}},
		},
		Settings: func() any { return new(Settings) },
		Build: func(_ store.Bot, settings any) (talk.Bot, error) {
			return &Bot{Pace: time.Duration(settings.(*Settings).Pace)}, nil
		},
	}
}

// Bot repeats each message. It implements [talk.Bot].
type Bot struct {
	Pace time.Duration // pause between two characters; 0 means no pause
}

// phrases are the messages that Answer replies to with a command, if the device supports it. The
// arguments are those of the glasses' platform (sengmitnick/eyeclaw at 9fa98ce,
// docs/ROKID_LINGZHU_SSE_API.md, Tool Object); navi_type 1 is walking.
var phrases = []struct {
	match   *regexp.Regexp
	command func(words []string) talk.Command
}{
	{regexp.MustCompile(`(?i)^(?:拍照|拍一张照片?|take a photo)[。.!！]?$`), func([]string) talk.Command {
		return talk.Command{Name: talk.CommandTakePhoto}
	}},
	{regexp.MustCompile(`(?i)^(?:导航到|navigate to )\s*(.+?)[。.!！]?$`), func(w []string) talk.Command {
		return talk.Command{Name: talk.CommandNavigate, Args: map[string]string{"action": "open", "poi_name": w[1],
			"navi_type": "1"}}
	}},
	{regexp.MustCompile(`(?i)^(?:日程|remind me)\s+(\d{4}-\d\d-\d\d \d\d:\d\d)\s+(.+)$`), func(w []string) talk.Command {
		return talk.Command{Name: talk.CommandCalendar, Args: map[string]string{"action": "create", "title": w[2],
			"start_time": w[1], "end_time": w[1]}}
	}},
	{regexp.MustCompile(`(?i)^(?:退出|再见|leave|goodbye)[。.!！]?$`), func([]string) talk.Command {
		return talk.Command{Name: talk.CommandLeave}
	}},
}

const msgPicture = i18n.Message("I see a picture (%s, %d bytes).")

// Answer implements [talk.Bot]: it emits a command for a known phrase, otherwise the text of the
// turn and a description of each image.
func (b *Bot) Answer(ctx context.Context, turn *talk.Turn, emit talk.Emit) error {
	for _, p := range phrases {
		words := p.match.FindStringSubmatch(strings.TrimSpace(turn.Text()))
		if words == nil {
			continue
		}
		if c := p.command(words); turn.Can(c.Name) {
			return emit(talk.DoCommand(c))
		}
	}
	text := turn.Text()
	for _, im := range turn.Images() {
		if text != "" && !strings.HasSuffix(text, " ") {
			text += " "
		}
		text += msgPicture.In(turn.Lang, im.MIME, len(im.Data))
	}
	return b.emitSlowly(ctx, text, emit)
}

func (b *Bot) emitSlowly(ctx context.Context, text string, emit talk.Emit) error {
	for len(text) > 0 {
		_, n := utf8.DecodeRuneInString(text)
		if err := emit(talk.Text(text[:n])); err != nil {
			return fmt.Errorf("echo: %w", err)
		}
		text = text[n:]
		pace := b.Pace
		if text == "" {
			pace = 0
		}
		if err := netx.Wait(ctx, pace); err != nil {
			return err
		}
	}
	return nil
}
