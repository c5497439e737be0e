package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
)

// checkRow is a rule, and whether the server conforms to it.
type checkRow struct {
	Check  string   `json:"check"`
	About  string   `json:"about"`
	Tried  bool     `json:"tried"`
	Broken []string `json:"broken,omitempty"`
}

// boardChecks are the rules in the order of their numbers.
var boardChecks = []struct {
	check string
	about i18n.Message
}{
	{"C1", i18n.Message("the response to the configuration request")},
	{"C2", i18n.Message("wrong tokens are refused")},
	{"C3", i18n.Message("the hello")},
	{"C4", i18n.Message("frames of sound")},
	{"C5", i18n.Message("requests for tools")},
	{"C6", i18n.Message("sound is between start and stop")},
	{"C7", i18n.Message("timing of packets")},
	{"C8", i18n.Message("timing of stop")},
	{"C9", i18n.Message("interrupting")},
	{"C10", i18n.Message("malformed audio is tolerated")},
	{"C11", i18n.Message("the wake word is not a question")},
	{"C12", i18n.Message("how a conversation ends")},
	{"C13", i18n.Message("the newest connection replaces the older one")},
	{"C14", i18n.Message("a missing pong does not end the connection")},
	{"C15", i18n.Message("MQTT")},
	{"C16", i18n.Message("datagrams")},
	{"C17", i18n.Message("photos")},
	{"C18", i18n.Message("malformed messages are tolerated")},
	{"C20", i18n.Message("firmware")},
}

// checkLimit is the timeout of the whole script. Servers end conversations after up to two minutes
// of silence.
const checkLimit = 6 * time.Minute

// maxSilence is how long the server may take to end a silent conversation.
const maxSilence = 150 * time.Second

// check runs the script, and prints which rules the server violates.
func (b *desktopBoard) check(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	tried := map[string]bool{}
	broke := b.runChecks(limited, tried)
	if broke == nil {
		b.waitForCalls(ctx)
	}
	rows := b.checks(tried)
	r := b.reported()
	r.Checks = rows
	b.mu.Lock()
	err := b.sh.result(r, func() { b.sh.checks(rows) })
	b.mu.Unlock()
	if broke != nil && ctx.Err() != nil {
		broke = ctx.Err()
	}
	return errors.Join(broke, err, b.violationError())
}

const msgStep = i18n.Message("• %s")

// Steps of the script.
const (
	msgStepBoot   = i18n.Message("turn on, try wrong tokens")
	msgStepAsk    = i18n.Message("ask twice")
	msgStepOdd    = i18n.Message("send malformed messages and audio, and ask again")
	msgStepAbort  = i18n.Message("interrupt an answer")
	msgStepCall   = i18n.Message("be called by the server: volume, photo")
	msgStepVanish = i18n.Message("disconnect, reconnect, and ask again")
	msgStepSilent = i18n.Message("say nothing until the server ends the conversation (%s at most)")
)

// runChecks simulates the behaviour of people and networks.
func (b *desktopBoard) runChecks(ctx context.Context, tried map[string]bool) error {
	try := func(checks ...string) {
		for _, c := range checks {
			tried[c] = true
		}
	}
	b.printLine(msgBoardIs, b.MAC(), b.cmd.Profile, b.cmd.Mode)
	b.step(msgStepBoot)
	if err := b.Boot(ctx); err != nil {
		return err
	}
	try("C1")
	if err := b.Probe(ctx); err != nil {
		return err
	}
	try("C2")
	if b.View().Online {
		try("C15", "C16")
	}
	b.step(msgStepAsk)
	for range 2 {
		if err := b.checkAnswer(ctx); err != nil {
			return err
		}
	}
	try("C3", "C4", "C5", "C6", "C7", "C8")
	if b.cmd.Profile != sim.C3.Name { // the C3 does not send the wake word
		try("C11")
	}
	b.step(msgStepOdd)
	if err := b.sendUnusualInput(ctx); err != nil {
		return err
	}
	try("C10", "C18")
	b.step(msgStepAbort)
	if err := b.interrupt(ctx); err != nil {
		return fmt.Errorf("interrupt: %w", err)
	}
	try("C9")
	photo, err := b.checkToolCalls(ctx)
	if err != nil {
		return err
	}
	if photo {
		try("C17")
	}
	b.step(msgStepVanish)
	if err := b.reconnectAfterFailure(ctx); err != nil {
		return fmt.Errorf("come back: %w", err)
	}
	try("C13")
	if b.Report().Pings > 0 {
		try("C14")
	}
	if b.cmd.Mode == wire.ModeManual {
		return nil // a server may wait for the button without limit
	}
	b.printLine(msgStep, msgStepSilent.In(b.sh.lang, maxSilence))
	silent, cancel := context.WithTimeout(ctx, maxSilence)
	defer cancel()
	if _, err := b.Await(silent, func(v sim.View) bool {
		return v.State == sim.Idle &&
			v.SessionID == ""
	}); err != nil && ctx.Err() == nil {
		return fmt.Errorf("the server does not end the conversation after %v of silence; boards never do", maxSilence)
	} else if err != nil {
		return err
	}
	try("C12")
	return nil
}

func (b *desktopBoard) step(s i18n.Message) { b.printLine(msgStep, s.In(b.sh.lang)) }

// checkAnswer asks a question, and fails if the answer has no sound.
func (b *desktopBoard) checkAnswer(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, boardAskLimit)
	defer cancel()
	a, err := b.Ask(limited, b.speech[0])
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return i18n.Message("there was no answer within %v").Errorf(boardAskLimit)
	case err != nil:
		return err
	case a.Packets == 0:
		return errors.New("the answer has no sound")
	}
	b.printLine(msgBoardPlayed, playedSeconds(a), took(a.FirstAudio))
	return nil
}

// sendUnusualInput sends input that servers must tolerate, and checks that they continue.
func (b *desktopBoard) sendUnusualInput(ctx context.Context) error {
	for _, text := range []string{`{"type":"tilt","angle":7}`, `{"type":"listen"}`, `no JSON`} {
		if err := b.SendRaw(false, []byte(text)); err != nil {
			return err
		}
	}
	if err := b.SendRaw(true, []byte{0xff}); err != nil {
		return err
	}
	return b.checkAnswer(ctx)
}

// interrupt asks a question, and does not wait for the end of the answer.
func (b *desktopBoard) interrupt(ctx context.Context) (err error) {
	button := b.cmd.Mode == wire.ModeManual
	if button {
		err = b.Hold(ctx)
	}
	if err == nil {
		err = b.Talk(ctx, b.speech[0])
	}
	if err == nil && button {
		err = b.Release(ctx)
	}
	if err == nil {
		_, err = b.Await(ctx, func(v sim.View) bool { return v.State == sim.Speaking || v.SessionID == "" })
	}
	if err == nil {
		err = b.Abort(ctx)
	}
	if err == nil {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		_, err = b.Await(limited, func(v sim.View) bool { return v.State != sim.Speaking })
	}
	return err
}

// reconnectAfterFailure simulates a network failure that the server does not notice.
func (b *desktopBoard) reconnectAfterFailure(ctx context.Context) error {
	online := b.View().Online
	if err := b.Lose(sim.Vanished); err != nil {
		return err
	}
	if online {
		if err := b.Boot(ctx); err != nil {
			return err
		}
	}
	return b.checkAnswer(ctx)
}

// checkToolCalls has the server call tools of the board, if it is the one of the data directory:
// other servers do not permit it.
func (b *desktopBoard) checkToolCalls(ctx context.Context) (photo bool, err error) {
	if b.cmd.URL != "" {
		return false, nil
	}
	settings, err := b.cmd.load(b.sh)
	if err != nil {
		return false, err
	}
	running, err := app.ConnectRunning(ctx, settings, b.sh.lang)
	if running == nil || err != nil {
		return false, err
	}
	b.step(msgStepCall)
	at := &conn{Client: running}
	for _, c := range []struct{ tool, args string }{
		{"self.audio_speaker.set_volume", `{"volume":30}`}, {"self.camera.take_photo", `{"question":"What is there?"}`},
	} {
		end, err := at.callDeviceOnce(ctx, b.sh, deviceCall{device: b.MAC(), tool: c.tool, args: []byte(c.args)})
		if err == nil && end.Error != "" {
			err = errors.New(end.Error)
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", c.tool, err)
		}
	}
	if v := b.Volume(); v != 30 {
		return false, fmt.Errorf("the volume was set to 30, and is %d", v)
	}
	return b.Report().Photos > 0, nil
}

// checks returns all rules with their results. A violated rule counts as tried, and violations
// without a rule number come last.
func (b *desktopBoard) checks(tried map[string]bool) []checkRow {
	var rows []checkRow
	broken := b.Report().Violations
	for _, c := range boardChecks {
		row := checkRow{Check: c.check, About: c.about.In(b.sh.lang), Tried: tried[c.check]}
		for _, v := range broken {
			if v.Check == c.check {
				row.Tried, row.Broken = true, append(row.Broken, plain(strings.TrimPrefix(v.String(), v.Check+": ")))
			}
		}
		rows = append(rows, row)
	}
	for _, v := range broken {
		if !slices.ContainsFunc(rows, func(r checkRow) bool { return r.Check == v.Check }) {
			rows = append(rows, checkRow{Check: "–", Tried: true, Broken: []string{plain(v.String())}})
		}
	}
	return rows
}

const (
	msgCheckKept   = i18n.Message("ok")
	msgCheckBroken = i18n.Message("broken")
	msgCheckNot    = i18n.Message("not tried")
)

// checks prints the rules and results.
func (sh *shell) checks(rows []checkRow) {
	var table [][]string
	for _, r := range rows {
		how := msgCheckNot
		switch {
		case len(r.Broken) > 0:
			how = msgCheckBroken
		case r.Tried:
			how = msgCheckKept
		}
		table = append(table, []string{r.Check, how.In(sh.lang), r.About})
		for _, what := range r.Broken {
			table = append(table, []string{"", "", "  " + what})
		}
	}
	sh.grid("", table)
}
