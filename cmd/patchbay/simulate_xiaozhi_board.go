package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/talk"
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

var (
	sayBoardIs    = talk.Say{Zh: "设备 %s（%s，%s）", En: "Board %s (%s, %s)"}
	sayBoardLines = talk.Say{
		Zh: "/wake、/press、/hold、/release、/say、/abort、/drop、/vanish、/boot、/quit；其他内容作为文字发送。",
		En: "/wake, /press, /hold, /release, /say, /abort, /drop, /vanish, /boot, /quit; anything else is sent as typed text.",
	}
	sayBoardCode = talk.Say{
		Zh: "屏幕上显示验证码 %[1]s。认领它：patchbay device approve %[1]s",
		En: "It shows the code %[1]s. Make it yours with: patchbay device approve %[1]s",
	}
	sayBoardPlayed = talk.Say{Zh: "  播放 %.1f 秒，%s 后首音", En: "  it played %.1f s, the first sound after %s"}
	sayBoardAsleep = talk.Say{Zh: "不在通话中；用 /wake 或 /press 开始。",
		En: "There is no conversation; /wake or /press begins one."}
)

// boardEvents are the events that are printed. Others are printed only with -v.
var boardEvents = map[sim.EventKind]talk.Say{
	sim.EventTranscript:   {Zh: "  服务器听到：%s", En: "  understood: %s"},
	sim.EventSentence:     {Zh: "  字幕：%s", En: "  says: %s"},
	sim.EventEmotion:      {Zh: "  表情：%s", En: "  makes a face: %s"},
	sim.EventAlert:        {Zh: "  提醒：%s", En: "  alert: %s"},
	sim.EventCall:         {Zh: "  被调用：%s", En: "  is called: %s"},
	sim.EventNotification: {Zh: "  播放通知：%s", En: "  plays a notification: %s"},
	sim.EventDisconnected: {Zh: "  断开：%s", En: "  disconnected: %s"},
	sim.EventUpgrade:      {Zh: "  升级固件到 %s", En: "  takes firmware %s"},
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
		b.sh.say(sayBoardCode, text)
	} else if e.Kind == sim.EventViolation {
		fmt.Fprintln(b.sh.stderr, sayBroken.In(b.sh.lang, text))
	}
}

// printLine prints a line between events.
func (b *desktopBoard) printLine(s talk.Say, args ...any) {
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
	b.printLine(sayBoardIs, b.MAC(), b.cmd.Profile, b.cmd.Mode)
	if err := b.Boot(ctx); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, boardAskLimit)
	a, err := b.Ask(limited, b.speech[0])
	cancel()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = talk.Say{Zh: "%v 内没有得到回答", En: "there was no answer within %v"}.Wrong(boardAskLimit)
	}
	if err != nil && ctx.Err() == nil {
		return errors.Join(err, b.violationError())
	}
	if a.Packets > 0 {
		b.printLine(sayBoardPlayed, playedSeconds(a), took(a.FirstAudio))
	}
	b.waitForCalls(ctx)
	if err := b.report(&a); err != nil {
		return err
	}
	return b.violationError()
}

func playedSeconds(a sim.Answer) float64 {
	return (time.Duration(a.Packets) * wire.DownlinkFrame).Seconds()
}

var sayBoardStays = talk.Say{Zh: "可以调用它，%s；按 Ctrl-C 结束。", En: "It can be called now, for %s; Ctrl-C ends that."}

// waitForCalls waits for tool calls for a while.
func (b *desktopBoard) waitForCalls(ctx context.Context) {
	if b.cmd.Stay == 0 {
		return
	}
	b.printLine(sayBoardStays, b.cmd.Stay)
	timer := time.NewTimer(b.cmd.Stay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// violationError returns an error if the server has violated the protocol.
func (b *desktopBoard) violationError() error {
	return brokenRules(b.Report().Violations)
}

func brokenRules(v []sim.Violation) error {
	if len(v) == 0 {
		return nil
	}
	return talk.Say{Zh: "服务器有 %d 处违反语音设备的协议，见上",
		En: "the server breaks the boards' protocol in %d ways, see above"}.Wrong(len(v))
}

// session runs the lines of standard input.
func (b *desktopBoard) session(ctx context.Context) error {
	b.printLine(sayBoardIs, b.MAC(), b.cmd.Profile, b.cmd.Mode)
	if err := b.Boot(ctx); err != nil {
		return err
	}
	fmt.Fprintln(b.sh.stderr, sayBoardLines.In(b.sh.lang))
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
			fmt.Fprintln(b.sh.stderr, sayBoardAsleep.In(b.sh.lang))
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
			b.printLine(sayBoardPlayed, playedSeconds(a), took(a.FirstAudio))
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
		return talk.Say{Zh: "没有 %s；%s", En: "there is no %s; %s"}.Wrong(plain(command), sayBoardLines.In(b.sh.lang))
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
		return talk.Say{Zh: "没有录音 %s；一共有 %d 个", En: "there is no recording %s; there are %d"}.Wrong(plain(number),
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
