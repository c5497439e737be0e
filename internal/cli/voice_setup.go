package cli

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type voiceSetupCmd struct {
	Service     string   `help:"Service whose key you have: openai, groq, siliconflow, dashscope (Alibaba Cloud Model Studio) or dashscope-intl (its region Singapore)." placeholder:"NAME" xor:"service"`
	URL         string   `name:"url" help:"Address of another service with OpenAI's interface; with --service, that of a workspace or a proxy of the service." placeholder:"URL" xor:"url"`
	Wyoming     []string `help:"Address of a Wyoming server, as Home Assistant uses them. Repeatable; default without --service and --url: those on the server's machine at the ports 10300 and 10200." placeholder:"HOST:PORT" xor:"service,url,source"`
	Offline     bool     `help:"Use programs on this machine: prints the lines for the configuration file, and what to install." xor:"service,url,source"`
	Write       bool     `help:"With --offline: add the lines to the configuration file."`
	KeyStdin    bool     `help:"Read the key of the service from standard input instead of the terminal."`
	Use         string   `help:"Use of the service: listen (understand speech), speak, or both." placeholder:"USE" enum:"listen,speak,both" default:"both"`
	ListenModel string   `help:"Model that understands speech; default: that of the service. With --offline: the model file of whisper-cli." placeholder:"NAME"`
	SpeakModel  string   `help:"Model that speaks; default: that of the service. With --offline: the voice file of piper." placeholder:"NAME"`
	Voice       string   `help:"Voice; default: that of the service." placeholder:"NAME"`
	Model       string   `help:"Model that answers, as a bot; default: that of the service, and no bot with --url." placeholder:"NAME"`
	NoBot       bool     `help:"Make no bot."`
	User        string   `help:"Owner of the bot; optional if there is only one account." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (voiceSetupCmd) Help() string {
	return `Makes speech engines that hear and speak, and a bot that answers if the service has models, and tests them. What has the same address already gets the new key and models instead.

The key is asked for, or read from standard input with --key-stdin, or from the variable that programs of the service use: OPENAI_API_KEY, GROQ_API_KEY, SILICONFLOW_API_KEY or DASHSCOPE_API_KEY.

Examples:

    patchbay voice setup --service openai
    patchbay voice setup --service dashscope --key-stdin < key.txt
    patchbay voice setup --service dashscope --url https://ID.cn-beijing.maas.aliyuncs.com
    patchbay voice setup --url http://localhost:8000/v1 --listen-model whisper-1 --speak-model kokoro --voice af_heart
    patchbay voice setup
    patchbay voice setup --wyoming assistant.local:10300 --wyoming assistant.local:10200
    patchbay voice setup --offline --write`
}

const (
	msgSetupTests    = i18n.Message("Testing; this takes a few seconds …")
	msgServiceKey    = i18n.Message("Key of %s (made at %s): ")
	msgAddressKey    = i18n.Message("Key of %s (press Enter for none): ")
	msgBotKept       = i18n.Message("Bot %d (%s) uses it.")
	msgBotAnswers    = i18n.Message("It answers: %s")
	msgSetupTalk     = i18n.Message("Talk with it: %s/talk")
	msgSetupServe    = i18n.Message("Start the server:\n  patchbay serve%s\nand open the page Talk.")
	msgSetupNoBot    = i18n.Message("Nobody answers yet; add a bot:\n  patchbay bot add --role companion --kind openai --set base_url=URL --set model=NAME%s")
	msgSetupBotFails = i18n.Message("the speech engine works, but bot %d (%s) does not answer: %s")
)

// Run sets up.
func (c *voiceSetupCmd) Run(ctx context.Context, sh *shell) error {
	switch {
	case c.Offline:
		return c.offline(ctx, sh)
	case c.Write:
		return usage(i18n.Message("--write requires --offline"))
	case c.KeyStdin && c.Service == "" && c.URL == "":
		return usage(i18n.Message("--key-stdin requires --service or --url"))
	}
	return c.connect(ctx, sh, func(at *conn) error {
		key, err := c.key(ctx, sh, at)
		if err != nil {
			return err
		}
		if !sh.json {
			sh.say(msgSetupTests)
		}
		set, err := api.SetUpVoice.Call(ctx, at.Client, control.VoiceSetup{Service: c.Service, URL: c.URL,
			Wyoming: c.Wyoming, Key: key, Use: engineUse(c.Use), ListenModel: c.ListenModel, SpeakModel: c.SpeakModel,
			Voice: c.Voice, Model: c.Model, NoBot: c.NoBot, User: c.User})
		if err != nil {
			return err
		}
		if err := sh.result(set, func() { c.show(ctx, sh, at, set) }); err != nil {
			return err
		}
		if b := set.Bot; b != nil && !b.Test.OK() {
			return msgSetupBotFails.Errorf(b.Number, b.Name, problemText(strings.TrimSpace(b.Test.Problem+" "+b.Test.Do),
				b.Test.Cause))
		}
		return nil
	})
}

// key returns the key of the service: from standard input, the environment or the terminal.
func (c *voiceSetupCmd) key(ctx context.Context, sh *shell, at *conn) (string, error) {
	if c.KeyStdin {
		key, err := sh.readLine(ctx)
		if errors.Is(err, io.EOF) || err == nil && key == "" {
			return "", i18n.Message("no key came on standard input").Errorf()
		}
		return strings.TrimSpace(key), err
	}
	prompt, about := msgAddressKey, []any{c.URL}
	switch {
	case c.Service != "":
		list, err := api.VoiceServices.Call(ctx, at.Client, control.Empty{})
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(list.Services, func(s control.VoiceService) bool { return s.Name == c.Service })
		if i < 0 {
			return "", nil // the operation refuses
		}
		s := list.Services[i]
		if key := sh.getenv(s.KeyVariable); key != "" {
			return key, nil
		}
		prompt, about = msgServiceKey, []any{s.Title, s.Keys}
	case c.URL == "":
		return "", nil
	}
	fd, ok := terminal(sh.stdin)
	if !ok {
		return "", nil
	}
	key, err := sh.askSecret(ctx, fd, prompt, about...)
	return strings.TrimSpace(key), err
}

// show tells what was made, and what to do next.
func (c *voiceSetupCmd) show(ctx context.Context, sh *shell, at *conn, set control.VoiceSet) {
	for _, e := range set.Engines {
		done := msgEngineChanged
		if e.Added {
			done = msgEngineAdded
		}
		sh.say(done, e.Name)
		sh.showEngineFound(e.Found)
	}
	switch b := set.Bot; {
	case b == nil:
		if list, err := api.Bots.Call(ctx, at.Client, struct{}{}); err == nil && len(list.Bots) == 0 {
			sh.say(msgSetupNoBot, c.retryFlags())
			return
		}
	case b.Added:
		sh.say(msgBotAdded, b.Number, b.Name)
	default:
		sh.say(msgBotKept, b.Number, b.Name)
	}
	if b := set.Bot; b != nil && !b.Test.OK() {
		return
	} else if b != nil {
		sh.say(msgBotAnswers, plain(singleLine(b.Test.Text)))
	}
	if at.local {
		sh.say(msgSetupServe, c.retryFlags())
		return
	}
	sh.say(msgSetupTalk, at.publicURL(ctx))
}
