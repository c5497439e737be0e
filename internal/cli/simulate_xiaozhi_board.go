package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice/opus"
	"patchbay/internal/voice/pcm"
)

// desktopBoard is a simulated board with its output in the terminal.
type desktopBoard struct {
	*sim.Board
	sh     *shell
	cmd    *simulateXiaozhiCmd
	speech [][][]byte

	mu    sync.Mutex // guards the output
	woken bool       // by the wake word; used only by the goroutine that owns the terminal
}

func newDesktopBoard(sh *shell, c *simulateXiaozhiCmd, opt sim.Options, speech [][][]byte) *desktopBoard {
	b := &desktopBoard{sh: sh, cmd: c, speech: speech}
	opt.OnEvent = b.watch
	b.Board = sim.New(opt)
	return b
}

const (
	msgBoardIs     = i18n.Message("Board %s (%s, %s)")
	msgBoardLines  = i18n.Message("/wake, /press, /hold, /release, /say, /abort, /drop, /vanish, /boot, /quit; anything else is sent as typed text.")
	msgBoardCode   = i18n.Message("It shows the pairing code %[1]s. Approve it with: patchbay device approve %[1]s")
	msgBoardPlayed = i18n.Message("  played %.1f s, first sound after %s")
	msgBoardAsleep = i18n.Message("There is no conversation; /wake or /press starts one.")
)

// boardEvents are the events that are printed. Others are printed only with -v.
var boardEvents = map[sim.EventKind]i18n.Message{
	sim.EventTranscript:   "  understood: %s",
	sim.EventSentence:     "  says: %s",
	sim.EventEmotion:      "  emotion: %s",
	sim.EventAlert:        "  alert: %s",
	sim.EventCall:         "  call: %s",
	sim.EventNotification: "  notification sound: %s",
	sim.EventDisconnected: "  disconnected: %s",
	sim.EventUpgrade:      "  downloads firmware %s",
}

// watch prints an event.
func (b *desktopBoard) watch(e sim.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sh.json {
		return
	}
	if b.cmd.Verbose {
		b.sh.printf("  %s  %s %s\n", e.At.Format("15:04:05.000"), e.Kind, e.Text)
		if e.Kind != sim.EventCode {
			return
		}
	}
	text := plain(e.Text)
	if s, ok := boardEvents[e.Kind]; ok {
		b.sh.say(s, text)
	} else if e.Kind == sim.EventCode {
		b.sh.say(msgBoardCode, text)
	} else if e.Kind == sim.EventViolation {
		fmt.Fprintln(b.sh.stderr, msgBroken.In(b.sh.lang, text))
	}
}

// printLine prints a line between events.
func (b *desktopBoard) printLine(s i18n.Message, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.sh.json {
		b.sh.say(s, args...)
	}
}

// boardAskLimit is how long the board waits for an answer.
const boardAskLimit = 2 * time.Minute

// askOnce asks once and prints the result.
func (b *desktopBoard) askOnce(ctx context.Context) error {
	b.printLine(msgBoardIs, b.MAC(), b.cmd.Profile, b.cmd.Mode)
	if err := b.Boot(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, boardAskLimit)
	a, err := b.Ask(limited, b.speech[0])
	if err == nil && a.Transcript == "" && a.Packets > 0 && b.View().State == sim.Listening { // a greeting came first
		if again, err := b.Ask(limited, b.speech[0]); err == nil {
			a = again
		}
	}
	cancel()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = i18n.Message("there was no answer within %v").Errorf(boardAskLimit)
	}
	if err != nil && ctx.Err() == nil {
		return errors.Join(err, b.violationError())
	}
	if a.Packets > 0 {
		b.printLine(msgBoardPlayed, playedSeconds(a), took(a.FirstAudio))
	}
	if b.cmd.Save != "" {
		if err := saveSpeech(b.cmd.Save, a.Audio); err != nil {
			return err
		}
	}
	b.waitForCalls(ctx)
	if err := b.report(&a); err != nil {
		return err
	}
	return b.violationError()
}

// saveSpeech writes Opus packets to a WAV file.
func saveSpeech(name string, packets [][]byte) error {
	const rate = 24000 // of the boards' speakers
	decoder, err := opus.NewDecoder(rate)
	if err != nil {
		return err
	}
	var samples []int16
	piece := make([]int16, decoder.Samples(opus.MaxDuration))
	for _, p := range packets {
		n, err := decoder.Decode(p, piece)
		if err != nil {
			n, _ = decoder.Decode(nil, piece) // as a board does: it never fails
		}
		samples = append(samples, piece[:n]...)
	}
	var wav bytes.Buffer
	if err := pcm.WriteWAV(&wav, rate, samples); err != nil {
		return err
	}
	return os.WriteFile(name, wav.Bytes(), 0o600)
}

func playedSeconds(a sim.Answer) float64 {
	return (time.Duration(a.Packets) * wire.DownlinkFrame).Seconds()
}

const msgBoardStays = i18n.Message("It can be called for %s; press Ctrl-C to stop.")

// waitForCalls waits for tool calls for a while.
func (b *desktopBoard) waitForCalls(ctx context.Context) {
	if b.cmd.Stay == 0 {
		return
	}
	b.printLine(msgBoardStays, b.cmd.Stay)
	_ = netx.Wait(ctx, b.cmd.Stay)
}

// violationError returns an error if the server has violated the protocol.
func (b *desktopBoard) violationError() error {
	return brokenRules(b.Report().Violations)
}

func brokenRules(v []sim.Violation) error {
	if len(v) == 0 {
		return nil
	}
	return i18n.Message("the server violates the boards' protocol in %d ways, see above").Errorf(len(v))
}

// session runs the lines of standard input.
func (b *desktopBoard) session(ctx context.Context) error {
	b.printLine(msgBoardIs, b.MAC(), b.cmd.Profile, b.cmd.Mode)
	if err := b.Boot(ctx); err != nil {
		return err
	}
	fmt.Fprintln(b.sh.stderr, msgBoardLines.In(b.sh.lang))
	following, stop := context.WithCancel(ctx)
	var follows sync.WaitGroup
	follows.Go(func() { b.follow(following) })
	defer follows.Wait()
	defer stop()
	for {
		line, err := b.sh.readLine(ctx)
		if errors.Is(err, io.EOF) || strings.TrimSpace(line) == "/quit" || ctx.Err() != nil {
			stop()
			return errors.Join(b.report(nil), b.violationError())
		}
		if err == nil {
			err = b.do(ctx, strings.TrimSpace(line))
		}
		switch {
		case errors.Is(err, sim.ErrIdle):
			fmt.Fprintln(b.sh.stderr, msgBoardAsleep.In(b.sh.lang))
		case err != nil && ctx.Err() == nil:
			b.sh.fail(err) // and continue
		}
	}
}

// follow prints how much of each answer was played.
func (b *desktopBoard) follow(ctx context.Context) {
	for seen := b.View().Answers; ; {
		v, err := b.Await(ctx, func(v sim.View) bool { return v.Answers > seen })
		if err != nil {
			return
		}
		seen = v.Answers
		if a := b.LastAnswer(); a.Packets > 0 {
			b.printLine(msgBoardPlayed, playedSeconds(a), took(a.FirstAudio))
		}
	}
}

// do runs one line of input.
func (b *desktopBoard) do(ctx context.Context, line string) error {
	command, rest, _ := strings.Cut(line, " ")
	switch command {
	case "":
		return nil
	case "/wake":
		b.woken = true
		return b.Wake(ctx)
	case "/press":
		return b.Press(ctx)
	case "/hold":
		return b.Hold(ctx)
	case "/release":
		return b.Release(ctx)
	case "/say":
		return b.say(ctx, rest)
	case "/abort":
		return b.Abort(ctx)
	case "/drop":
		return b.Lose(sim.Dropped)
	case "/vanish":
		return b.Lose(sim.Vanished)
	case "/boot":
		return b.Boot(ctx)
	}
	if strings.HasPrefix(command, "/") {
		return i18n.Message("there is no %s; %s").Errorf(plain(command), msgBoardLines.In(b.sh.lang))
	}
	return b.typed(ctx, line)
}

// say sends a recording to the board, and wakes it first if necessary.
func (b *desktopBoard) say(ctx context.Context, number string) (err error) {
	n := 1
	if number = strings.TrimSpace(number); number != "" {
		n, err = strconv.Atoi(number)
	}
	if err != nil || n < 1 || n > len(b.speech) {
		return i18n.Message("there is no recording %s; there are %d").Errorf(plain(number),
			len(b.speech))
	}
	manual := b.cmd.Mode == wire.ModeManual
	switch v := b.View(); {
	case manual && v.State != sim.Listening:
		err = b.Hold(ctx)
	case v.SessionID == "":
		b.woken = true
		err = b.Wake(ctx)
	}
	if err == nil {
		err = b.Talk(ctx, b.speech[n-1])
	}
	if err == nil && manual {
		err = b.Release(ctx)
	}
	return err
}

// typed sends a text. In a conversation that a wake word has opened, it would be taken for the wake
// word, so that conversation is ended first.
func (b *desktopBoard) typed(ctx context.Context, text string) error {
	if v := b.View(); b.woken && v.State == sim.Listening {
		if err := b.Press(ctx); err != nil { // ends the conversation
			return err
		}
	}
	b.woken = false
	return b.Type(ctx, text)
}
