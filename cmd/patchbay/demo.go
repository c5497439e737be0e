package main

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
}

// Help returns the command's detailed help with examples.
func (demoCmd) Help() string {
	return `Starts a server in a temporary folder, on a local port. Simulated glasses, a simulated EyeClaw plugin, a mock model, a tool server, a simulated voice board and a simulated OpenClaw node connect to it over the network, and the last step signs in to the console. Each step verifies its result: the exit code is 1 if a check fails. With --json each step is one JSON object.

Examples:

    patchbay demo
    patchbay demo --lang en --json`
}

// demoLimit is the timeout of the whole demo.
const demoLimit = 2 * time.Minute

// Run runs the demo.
func (c *demoCmd) Run(ctx context.Context, sh *shell) (err error) {
	if c.Lang != "" {
		sh.lang = i18n.Lang(c.Lang)
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
	msgDemoBegins = i18n.Message("The story of Patchbay, all on this machine, through real connections.")
	msgDemoEnds   = i18n.Message("\nEverything went as it should, in %.1f s. What next:\n  patchbay serve --demo     the same, to try at leisure\n  patchbay user add NAME    set up your own")
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
	{"bind", i18n.Message("A stranger is bound by a QR code"),
		i18n.Message("Somebody unknown is asked to photograph a bot's code, which is read here; no third party sees the photo."), playBind},
	{"plugin", i18n.Message("An EyeClaw plugin loses its connection in mid-answer"),
		i18n.Message("The plugin dials out from behind its router; what is lost while it is away is made good when it is back."), playPlugin},
	{"model", i18n.Message("A model with an OpenAI-compatible API"),
		i18n.Message("It remembers what was said, and has the glasses take a photo when it needs to see."), playModel},
	{"tools", i18n.Message("A model calls a tool, and so does a program"),
		i18n.Message("Somebody's MCP server is plugged in; bots and programs use its tools, and every call is written down."), playTools},
	{"learn", i18n.Message("Knowledge points, reviewed with the glasses on"),
		i18n.Message("A program adds what is to be learned, the glasses ask; how well it is recalled says when it comes again."), playLearn},
	{"board", i18n.Message("A voice board shows its code, is called, takes a photo, and says back what it hears"),
		i18n.Message("A XiaoZhi board is reached over MQTT even while nobody talks with it; its sound goes over UDP."),
		playBoard},
	{"nodes", i18n.Message("OpenClaw: a node, an operator, an agent"),
		i18n.Message("OpenClaw's nodes connect here, and everybody uses their tools; all that is here is a node to its operators; an agent can be a bot."), playNodes},
	{"late", i18n.Message("A late answer"),
		i18n.Message("The glasses hang up, the bot goes on, and the answer is told at the next turn."), playLate},
	{"console", i18n.Message("The owner signs in to the web pages"),
		i18n.Message("The console is at the same address, for a phone or a computer; all that has happened is there."),
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
}

// play runs one step and prints the result.
func (st *demoRun) play(ctx context.Context, number int, a demoStep) error {
	if !st.sh.json {
		st.sh.printf("\n%d  %s\n   %s\n", number, a.title.In(st.sh.lang), a.tell.In(st.sh.lang))
	}
	st.answers, st.note = nil, ""
	begin := time.Now()
	err := a.play(ctx, st)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	passed := time.Since(begin)
	if st.sh.json {
		r := stepReport{Step: number, Name: a.name, Title: a.title.In(st.sh.lang), OK: err == nil, Note: st.note,
			Took: millis(passed), Answers: st.answers}
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
