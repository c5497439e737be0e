package cli

import (
	"context"

	"patchbay/internal/i18n"
	chat "patchbay/internal/plug/openai/openaitest"
	speech "patchbay/internal/voice/engines/openai/openaitest"
)

type simulateSpeechCmd struct {
	Listen string `help:"Address to listen on." placeholder:"ADDR" default:"127.0.0.1:8124"`
	Hears  string `help:"What it understands, whatever is said; default: a question about the weather." placeholder:"TEXT"`
	Says   string `help:"What its model answers; default: the weather." placeholder:"TEXT"`
}

// Help returns the command's detailed help with examples.
func (simulateSpeechCmd) Help() string {
	return `A service with OpenAI's interface that understands always the same, answers always the same, and speaks in tones: for trying how voice is set up without a key of a real one. Ctrl-C ends it.

Examples:

    patchbay simulate speech
    patchbay voice setup --url http://127.0.0.1:8124/v1 --model weather`
}

const (
	msgSpeechAt   = i18n.Message("The service is at %s; its key is %s")
	msgSpeechHear = i18n.Message("What is the weather like?")
	msgSpeechSay  = i18n.Message("It is sunny, and it stays warm until the evening.")
)

// Run serves until it is interrupted.
func (c *simulateSpeechCmd) Run(ctx context.Context, sh *shell) error {
	hears, says := c.Hears, c.Says
	if hears == "" {
		hears = msgSpeechHear.In(sh.lang)
	}
	if says == "" {
		says = msgSpeechSay.In(sh.lang)
	}
	model, err := chat.Start()
	if err != nil {
		return err
	}
	defer model.Close()
	model.Key = speech.Key
	model.Answer = func(*chat.Request) chat.Reply { return chat.Reply{Steps: chat.Words(says, 0)} }
	service, err := speech.Start(c.Listen)
	if err != nil {
		return err
	}
	defer service.Close()
	service.Transcript, service.Other = func([]int16) string { return hears }, model
	err = sh.result(map[string]string{"url": service.URL, "key": speech.Key}, func() {
		sh.say(msgSpeechAt, service.URL, speech.Key)
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
