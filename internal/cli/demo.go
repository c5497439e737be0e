package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"patchbay/internal/i18n"
)

type demoCmd struct {
	Lang string `help:"Language of the demo, such as en; default: the terminal's." enum:"${languages}," default:""`
	Deck string `help:"Only write the deck of the learner's day into this file, which learn import and Anki read." placeholder:"FILE"`
}

// Help returns the command's detailed help with examples.
func (demoCmd) Help() string {
	return `Starts a server in a temporary folder, on a local port. Simulated glasses, a simulated EyeClaw plugin, a simulated connector of OpenClaw, a mock model, a tool server, a simulated voice board, a simulated speech engine and simulated OpenClaw nodes connect to it over the network, and the last step signs in to the console. Each step verifies its result: the exit code is 1 if a check fails. With --json each step is one JSON object.

Examples:

    patchbay demo
    patchbay demo --lang en --json
    patchbay demo --deck demo.apkg`
}

// demoLimit is the timeout of the whole demo.
const demoLimit = 2 * time.Minute

// Run runs the demo.
func (c *demoCmd) Run(ctx context.Context, sh *shell) (err error) {
	if c.Lang != "" {
		sh.lang = i18n.Lang(c.Lang)
	}
	if c.Deck != "" {
		return writeDemoFile(c.Deck, sh)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, demoLimit,
		errors.New("the demo takes too long; is this machine very busy?"))
	defer cancel()
	folder, err := os.MkdirTemp("", "patchbay-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	st := &demoRun{demoOutput: demoOutput{sh: sh}, folder: folder}
	defer func() { err = errors.Join(err, st.close()) }()
	if !sh.json {
		sh.say(msgDemoBegins)
	}
	begin := time.Now()
	for i, a := range demoSteps {
		if err := st.play(ctx, i+1, a); err != nil {
			return err
		}
	}
	if !sh.json {
		sh.say(msgDemoEnds, time.Since(begin).Seconds())
	}
	return nil
}

const (
	msgDemoBegins = i18n.Message("A demonstration of Patchbay, on this machine, over real connections.")
	msgDemoEnds   = i18n.Message("\nAll steps passed, in %.1f s. Next steps:\n  patchbay serve --demo     run the demo server and try it yourself\n  patchbay user add NAME    set up your own installation")
)

// demoStep is one step of the demo.
type demoStep struct {
	name  string
	title i18n.Message
	tell  i18n.Message // one line of explanation
	play  func(context.Context, *demoRun) error
}

var demoSteps = []demoStep{
	{"serve", i18n.Message("The server starts"),
		i18n.Message("One process, one folder, no other service."), playServe},
	{"ask", i18n.Message("Glasses ask"),
		i18n.Message("The platform posts each sentence; the answer streams back piece by piece."), playAsk},
	{"bind", i18n.Message("An unknown wearer is bound with a QR code"),
		i18n.Message("An unknown wearer is asked to photograph a bot's QR code. The photo is decoded locally and not sent to third parties."), playBind},
	{"plugin", i18n.Message("An EyeClaw plugin loses its connection in mid-answer"),
		i18n.Message("The plugin connects out through its router; text that is lost during an outage is delivered after it reconnects."), playPlugin},
	{"connector", i18n.Message("An OpenClaw behind a router answers, and gives the glasses a command"),
		i18n.Message("Patchbay's own connector dials out with one setting; its agent gets the commands of the glasses as tools."), playConnector},
	{"model", i18n.Message("A model with an OpenAI-compatible API"),
		i18n.Message("It remembers the conversation, and requests a photo from the glasses when it needs one."), playModel},
	{"tools", i18n.Message("A model calls a tool, and so does a program"),
		i18n.Message("An external MCP server is connected; bots and programs use its tools, and every call is recorded."), playTools},
	{"board", i18n.Message("A voice board shows its pairing code, is called, takes a photo, and repeats what it hears"),
		i18n.Message("A XiaoZhi board can be reached over MQTT even when nobody talks to it; its audio uses UDP."),
		playBoard},
	{"voice", i18n.Message("A person talks to the board, and its bot answers aloud"),
		i18n.Message("A speech engine, here a simulated one, turns speech into text and the answer into speech; the record of the turn has where the time went."),
		playVoice},
	{"morning", i18n.Message("A learner's day: the morning, with the glasses on"),
		i18n.Message("A deck comes from Anki with pictures, sounds, formulas and clozes; the glasses ask what is due."), playMorning},
	{"kitchen", i18n.Message("A learner's day: at noon in the kitchen"),
		i18n.Message("A program makes a card of a photo, and the board asks words by voice while its owner cooks."), playKitchen},
	{"evening", i18n.Message("A learner's day: the train, and the evening at the desk"),
		i18n.Message("Reviews without a network are merged later; the memory model is fitted to the learner's own reviews."), playEvening},
	{"family", i18n.Message("A family: a bot is shared, and somebody is limited"),
		i18n.Message("A member asks a bot that the owner shares, with a tool that the owner lends, until the questions of the day are used up."),
		playFamily},
	{"nodes", i18n.Message("OpenClaw: a node, a node with a setup code, an operator, an agent"),
		i18n.Message("OpenClaw nodes connect and their tools can be used by everybody; operators see all devices and tool servers as nodes; an agent can be a bot."), playNodes},
	{"late", i18n.Message("A late answer"),
		i18n.Message("The glasses disconnect, the bot continues, and the answer is delivered at the next turn."), playLate},
	{"console", i18n.Message("The owner signs in to the web pages"),
		i18n.Message("The console is at the same address, for phones and computers; it shows everything that has happened."),
		playConsole},
}

// stepReport is a step in the JSON output.
type stepReport struct {
	Step    int        `json:"step"`
	Name    string     `json:"name"`
	Title   string     `json:"title"`
	OK      bool       `json:"ok"`
	Error   string     `json:"error,omitempty"`
	Note    string     `json:"note,omitempty"`
	Took    float64    `json:"took_ms"`
	Answers []answered `json:"answers,omitempty"`
	Voice   *spoken    `json:"voice,omitempty"`
}

// play runs one step and prints the result.
func (st *demoRun) play(ctx context.Context, number int, a demoStep) error {
	if !st.sh.json {
		st.sh.printf("\n%d  %s\n   %s\n", number, a.title.In(st.sh.lang), a.tell.In(st.sh.lang))
	}
	st.answers, st.voice, st.note = nil, nil, ""
	begin := time.Now()
	err := a.play(ctx, st)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	passed := time.Since(begin)
	if st.sh.json {
		r := stepReport{Step: number, Name: a.name, Title: a.title.In(st.sh.lang), OK: err == nil, Note: st.note,
			Took: millis(passed), Answers: st.answers, Voice: st.voice}
		if err != nil {
			r.Error = err.Error()
		}
		if jerr := st.sh.writeJSON(r, ""); jerr != nil {
			return jerr
		}
	}
	if err != nil {
		return fmt.Errorf("step %d (%s) went wrong: %w", number, a.name, err)
	}
	if !st.sh.json {
		st.sh.say(msgStepDone, st.summary())
	}
	return nil
}

const msgStepDone = i18n.Message("   ✓ %s")

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
