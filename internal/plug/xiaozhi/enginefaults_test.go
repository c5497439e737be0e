package xiaozhi_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi"
	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket/sockettest"
)

const (
	heardText  = "tell me more"
	answerText = "A fish swims in the sea."
	// failOver is how long a turn may take longer whose first engine fails, and turnLimit how long
	// it may take from the speech to its end when all fail. The pause that ends the speech is
	// speechPause.
	failOver, turnLimit = 3 * time.Second, 8 * time.Second
	speechPause         = 800 * time.Millisecond
	// faultsAtOnce is how many boards talk at a time, and allAtOnce how many with CHECK_ALL.
	faultsAtOnce, allAtOnce = 12, 32
)

// faultCase is a turn whose engine fails.
type faultCase struct {
	driver, stage, fault string
	second               bool // another engine is left
	want                 outcome
}

func (c faultCase) String() string {
	return fmt.Sprintf("%s, %s, %s, second engine %t", c.driver, c.stage, c.fault, c.second)
}

// commonFaults are tried without CHECK_ALL, with and without a second engine.
var commonFaults = map[string][]string{
	"openai listen":     {"refuse", "empty text", "wrong gzip"},
	"openai both":       {"hang before"},
	"openai speak":      {"hang middle", "endless sound"},
	"wyoming speak":     {"cut middle"},
	"vosk listen":       {"hang before"},
	"dashscope listen":  {"hang@last"},
	"volcengine listen": {"garbage@last"},
	"volcengine speak":  {"slow@middle"},
	"http speak":        {"slow bytes"},
}

// bothStages is the stage of an engine that fails whether it listens or speaks.
const bothStages = "both"

// both returns the faults of an engine at both stages, without those in the middle of a protocol.
func (w failingWire) both() map[string]outcome {
	faults := map[string]outcome{}
	for fault, want := range w.listen {
		also, has := w.speak[fault]
		if has && want == fails && also == fails && !strings.Contains(fault, "@") {
			faults[fault] = fails
		}
	}
	return faults
}

// faultCases returns all cases, or the common ones.
func faultCases() (list []faultCase) {
	for driver, w := range failingWires {
		for stage, faults := range map[string]map[string]outcome{engine.StageListen: w.listen,
			engine.StageSpeak: w.speak, bothStages: w.both()} {
			for fault, want := range faults {
				if os.Getenv("CHECK_ALL") == "" && !slices.Contains(commonFaults[driver+" "+stage], fault) {
					continue
				}
				if stage == bothStages && driver == "wyoming" {
					continue // its stand-in fails at one stage
				}
				for _, second := range []bool{true, false} {
					list = append(list, faultCase{driver, stage, fault, second, want})
				}
			}
		}
	}
	slices.SortFunc(list, func(a, b faultCase) int { return strings.Compare(a.String(), b.String()) })
	return list
}

// faultRig is a server whose boards have engines of their own.
type faultRig struct {
	*testServer
	engineLog sockettest.Log

	meter *sim.Meter

	mu     sync.Mutex
	chains map[string]*engine.Chain // by the board's address
}

// TestEngineFaults has the engine of a board fail in each way, at each stage, with and without a
// second engine. The turn ends in time, with the answer or with one sentence that tells why there
// is none, the next one works, and nothing is left: no connection, no goroutine, no secret in a
// log.
func TestEngineFaults(t *testing.T) {
	ctx := limit(t, 20*time.Minute)
	r := &faultRig{meter: sim.NewMeter(), chains: map[string]*engine.Chain{}}
	t.Cleanup(r.meter.Close)
	off := xiaozhi.VoiceSettings{Fillers: new(bool)}
	r.testServer = newTestServer(t, testServerOptions{boards: func(o *xiaozhi.Options) {
		o.Voice = xiaozhi.Dialogue{
			Engines: func(d store.Device) *engine.Chain {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.chains[d.Hardware]
			},
			Settings: func(context.Context, store.Device) xiaozhi.VoiceSettings { return off },
		}
	}})
	cases, question := faultCases(), spoken(t)
	next := make(chan faultCase)
	var all sync.WaitGroup
	atOnce := faultsAtOnce
	if os.Getenv("CHECK_ALL") != "" {
		atOnce = allAtOnce
	}
	for range atOnce {
		b := r.newFaultBoard(ctx)
		all.Go(func() {
			for c := range next {
				if err := b.try(ctx, c, question); err != nil {
					t.Errorf("%s: %v", c, err)
				}
			}
		})
	}
	for _, c := range cases {
		next <- c
	}
	close(next)
	all.Wait()
	if s := hasSecret(r.engineLog.String()); s != "" {
		t.Errorf("%q is in the log:\n%s", s, r.engineLog.String())
	}
	if s := hasSecret(r.log.String()); s != "" {
		t.Errorf("%q is in the log of the server", s)
	}
	stacks := make([]byte, 4<<20)
	sockettest.Eventually(t, "goroutines of engines are left", func() bool {
		return !ofEngine.Match(stacks[:runtime.Stack(stacks, true)])
	})
}

// ofEngine matches a function of an engine in the stack of a goroutine, and none of a stand-in.
var ofEngine = regexp.MustCompile(`internal/voice/(engines/[a-z]+|engine|realtime)\.`)

// goodEar and goodVoice are engines that work.
var (
	goodEar = engine.ListenOnce(func(context.Context, []int16, engine.Hints) (engine.Transcript, error) {
		return engine.Transcript{Text: heardText}, nil
	})
	goodVoice = engine.SpeakOnce(func(_ context.Context, text string, _ engine.Manner) (engine.Clip, error) {
		sound := strings.NewReader(strings.Repeat("\x00\x10\x00\xf0", len([]rune(text))*120)) // 10 ms for each character
		return engine.Clip{Format: engine.PCM, Rate: 24000, Sound: io.NopCloser(sound)}, nil
	})
)

// good are engines that work.
var good = []engine.Link{{Name: "good", Engine: engine.Engine{Listener: goodEar, Speaker: goodVoice}}}

// links returns the engines of the turn, with one that fails.
func (c faultCase) links(e engine.Engine) []engine.Link {
	first := engine.Link{Name: c.driver, Engine: e}
	ear := engine.Link{Name: "ear", Engine: engine.Engine{Listener: goodEar}}
	voice := engine.Link{Name: "voice", Engine: engine.Engine{Speaker: goodVoice}}
	switch {
	case c.stage == engine.StageListen:
		first.Speaker = nil
		if c.second {
			return []engine.Link{first, ear, voice}
		}
		return []engine.Link{first, voice}
	case c.stage == engine.StageSpeak:
		first.Listener = nil
		if c.second {
			return []engine.Link{first, ear, voice}
		}
		return []engine.Link{first, ear}
	case c.second:
		return []engine.Link{first, ear, voice}
	}
	return []engine.Link{first}
}

// faultBoard is a board whose engines fail now and then. The board's lock guards its times.
type faultBoard struct {
	*faultRig
	*sim.Board
	normal time.Duration // that a turn takes whose engines work; 0: not known yet

	// Took is how long the board was in the state speaking, which begins when the end of the speech
	// is certain, without the time in which this process did not run.
	began         time.Time
	stalled, took time.Duration
}

func (r *faultRig) newFaultBoard(ctx context.Context) *faultBoard {
	b := &faultBoard{faultRig: r}
	b.Board = r.device(sim.Options{Lang: "en-US", OnEvent: b.onEvent})
	b.use(good)
	must(r.t, b.Boot(ctx))
	r.bindScript(ctx, b.Board, func(_ context.Context, _ *talk.Turn, emit talk.Emit) error {
		return emit(talk.Text(answerText))
	})
	r.t.Cleanup(func() {
		for _, v := range b.Report().Violations {
			if !strings.HasPrefix(v.What, "the first audio comes") { // later, but it is read at once
				r.t.Errorf("%s: %v", b.MAC(), v)
			}
		}
	})
	return b
}

// use sets the engines.
func (b *faultBoard) use(links []engine.Link) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chains[b.MAC()] = &engine.Chain{Links: links}
}

// try has an engine fail in a turn, and work in the next one.
func (b *faultBoard) try(ctx context.Context, c faultCase, question [][]byte) (err error) {
	dialer := new(sockettest.Dialer)
	fault, stage, _ := strings.Cut(c.fault, "@")
	if c.driver == "wyoming" {
		stage = c.stage
	}
	e, err := failingWires[c.driver].open(b.t, fault, stage, engine.Options{Dial: dialer.Dial,
		Logger: slog.New(slog.NewTextHandler(&b.engineLog, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		return err
	}
	defer func() {
		e.Close()
		dialer.Clean(b.t, c.String())
	}()
	if b.normal == 0 {
		if _, b.normal, err = b.turn(ctx, question, nil); err != nil {
			return err
		}
	}
	links, heard := c.links(e), (chan struct{})(nil)
	if c.want == nothing {
		heard = make(chan struct{}, 1)
		links[0].OnResult = func(string, time.Duration) { heard <- struct{}{} }
	}
	b.use(links)
	a, took, err := b.turn(ctx, question, heard)
	b.use(good)
	if err != nil {
		return err
	}
	err = c.check(a, took, b.normal)
	a, normal, nextErr := b.turn(ctx, question, nil)
	if nextErr == nil && (!slices.Equal(a.Sentences, []string{answerText}) || a.Packets == 0) {
		nextErr = fmt.Errorf("the next answer is %q with %d packets", a.Sentences, a.Packets)
	}
	b.normal = normal
	return errors.Join(err, nextErr)
}

// onEvent is the [sim.Options.OnEvent] of a board.
func (b *faultBoard) onEvent(e sim.Event) {
	switch {
	case e.Kind != sim.EventState:
	case e.Text == sim.Speaking.String():
		b.began, b.stalled = e.At, b.meter.Stalled()
	default:
		b.took = e.At.Sub(b.began) - (b.meter.Stalled() - b.stalled)
	}
}

// turn has a board ask, and returns the answer and how long it took. Heard has a token when the
// board will get no answer, since nothing was said; nil: it gets one. A question of which a busy
// machine has lost too much is asked again.
func (b *faultBoard) turn(ctx context.Context, question [][]byte, heard <-chan struct{}) (
	a sim.Answer, took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for range 5 {
		a, took, err = b.ask(ctx, question, heard)
		if !errors.Is(err, sim.ErrIdle) {
			return a, took, err
		}
	}
	return a, took, err
}

func (b *faultBoard) ask(ctx context.Context, question [][]byte, heard <-chan struct{}) (
	a sim.Answer, took time.Duration, err error) {
	before, dropped := b.View(), b.Report().DroppedState
	if before.State == sim.Idle {
		err = b.Press(ctx)
	}
	if err == nil {
		err = b.Talk(ctx, question)
	}
	if err == nil && heard != nil {
		err = b.awaitHeard(ctx, heard)
	}
	if err != nil {
		return a, 0, fmt.Errorf("the board is %v: %w", b.View().State, err)
	}
	v, err := b.Await(ctx, func(v sim.View) bool {
		took = b.took
		return v.State == sim.Idle || v.State == sim.Listening && (heard != nil || v.Answers > before.Answers)
	})
	switch {
	case v.Answers > before.Answers:
		a = b.LastAnswer()
	case v.State == sim.Idle:
		err = sim.ErrIdle
	}
	if err != nil {
		err = fmt.Errorf("the board is %v after %d answers: %w", v.State, v.Answers-before.Answers, err)
	}
	a.Packets += b.Report().DroppedState - dropped // a busy machine is late to see tts/start
	return a, took, err
}

// awaitHeard waits for heard, or until the conversation ends without it.
func (b *faultBoard) awaitHeard(ctx context.Context, heard <-chan struct{}) error {
	ctx, cancel := context.WithCancel(ctx)
	idle := make(chan error, 1)
	go func() {
		_, err := b.Await(ctx, func(v sim.View) bool { return v.State == sim.Idle })
		idle <- err
	}()
	select {
	case <-heard:
		cancel()
		<-idle
		return nil
	case err := <-idle:
		cancel()
		return cmp.Or(err, sim.ErrIdle)
	}
}

// check checks the answer of a turn. Normal is how long one takes whose engines work.
func (c faultCase) check(a sim.Answer, took, normal time.Duration) (err error) {
	limit := turnLimit - speechPause
	if c.want == fails && c.second {
		limit = failOver + normal + time.Second // for sound that the first engine had before
		if c.stage == bothStages {
			limit += failOver
		}
	}
	// A turn that works takes half a second, unless the machine is busy.
	if limit += max(0, normal-500*time.Millisecond); took > limit {
		err = fmt.Errorf("the turn took %s, want %s; one that works takes %s", took, limit, normal)
	}
	told, want, prefix := 0, []string{answerText}, "I cannot speak at the moment: "
	if c.stage != engine.StageSpeak {
		prefix = "I could not understand you: "
	}
	rest := slices.DeleteFunc(slices.Compact(slices.Clone(a.Sentences)), func(s string) bool {
		if strings.HasPrefix(s, prefix) {
			told++
			return true
		}
		return false
	})
	wantTold := 0
	if c.want == fails && !c.second {
		wantTold = 1
	}
	if c.want == nothing || wantTold == 1 && c.stage != engine.StageSpeak {
		want = nil
	}
	if told != wantTold || !slices.Equal(slices.Compact(rest), want) {
		err = errors.Join(err, fmt.Errorf("the board shows %q", a.Sentences))
	}
	if want != nil && wantTold == 0 && a.Packets == 0 {
		err = errors.Join(err, errors.New("there is no sound"))
	}
	return err
}
