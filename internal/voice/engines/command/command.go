// Package command is an engine of programs on this machine: espeak-ng, flite, Piper, pocketsphinx,
// whisper-cli. Only the configuration file names them, because whoever does can run any program.
//
// A program that speaks gets the text as {text} or on its standard input, and writes sound to its
// standard output. One that listens gets a WAV file, as {file} or on its standard input, and writes
// the text. There is no shell.
package command

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pcm"
)

const (
	// timeLimit is how long a program may run. It protects the machine from one that hangs.
	timeLimit = 30 * time.Second
	// maxRunning is how many programs run at once, and maxWaiting how many more wait for their
	// turn: a recogniser takes a whole processor.
	maxRunning, maxWaiting = 2, 4
	// maxLogged limits what the log gets of the standard error of a program, in bytes.
	maxLogged = 2 << 10
	// rawRate is the rate of sound without a header: that of Piper's medium voices
	// (rhasspy/piper-voices README, Quality), in Hz.
	rawRate = 22050
	// leaveTime is how long to wait for the output of a program that has ended, which others that
	// it has started may hold.
	leaveTime = 500 * time.Millisecond
)

// Settings define the programs: their names and arguments. Arguments may contain {lang}; those of
// the program that speaks {text}, {voice} and {speed}, too, and those of the one that listens
// {file}. Others on this machine can see arguments.
type Settings struct{ Listen, Speak []string }

const msgNoProgram = i18n.Message("a command of a speech engine is empty; give the program and its arguments")

// Validate returns an error that explains what is invalid.
func (s *Settings) Validate() error {
	for _, argv := range [][]string{s.Listen, s.Speak} {
		if len(argv) > 0 && argv[0] == "" {
			return msgNoProgram.Errorf()
		}
	}
	if len(s.Listen)+len(s.Speak) == 0 {
		return msgNoProgram.Errorf()
	}
	return nil
}

// runner runs the programs of an engine.
type runner struct {
	settings Settings
	log      *slog.Logger
	limit    time.Duration
	slots    chan struct{}
	waiting  atomic.Int32
}

// New returns an engine with those parts that the settings have a program for. The error is that of
// [Settings.Validate].
func New(s Settings, o engine.Options) (engine.Engine, error) {
	if err := s.Validate(); err != nil {
		return engine.Engine{}, err
	}
	r := newRunner(s, o)
	e := engine.Engine{NeedsWords: true} // espeak-ng, flite, Piper
	if len(s.Listen) > 0 {
		e.Listener = engine.ListenOnce(r.transcribe)
	}
	if len(s.Speak) > 0 {
		e.Speaker = engine.SpeakOnce(r.speak)
	}
	return e, nil
}

func newRunner(s Settings, o engine.Options) *runner {
	return &runner{settings: s, log: o.WithDefaults().Logger, limit: timeLimit, slots: make(chan struct{}, maxRunning)}
}

// transcribe runs the program that listens.
func (r *runner) transcribe(ctx context.Context, samples []int16, h engine.Hints) (engine.Transcript, error) {
	var wav bytes.Buffer
	if err := pcm.WriteWAV(&wav, engine.Rate, samples); err != nil {
		return engine.Transcript{}, err
	}
	file, stdin := "", io.Reader(&wav)
	if strings.Contains(strings.Join(r.settings.Listen, " "), "{file}") {
		name, err := temporary(wav.Bytes())
		if err != nil {
			return engine.Transcript{}, err
		}
		defer os.Remove(name) //nolint:errcheck // nothing else can be done
		file, stdin = name, nil
	}
	p, err := r.start(ctx, r.settings.Listen, stdin, strings.NewReplacer("{file}", file, "{lang}", base(h.Language, "auto")))
	if err != nil {
		return engine.Transcript{}, err
	}
	defer p.Close()
	text, err := io.ReadAll(io.LimitReader(p, engine.MaxTranscript+1))
	switch {
	case err != nil:
		return engine.Transcript{}, err
	case len(text) > engine.MaxTranscript:
		return engine.Transcript{}, engine.Errorf(engine.Broken, "the program wrote more than %d KiB of text",
			engine.MaxTranscript>>10)
	}
	return engine.Transcript{Text: strings.Join(strings.Fields(strings.ToValidUTF8(string(text), "")), " ")}, nil
}

// temporary writes a file that only this user can read.
func temporary(data []byte) (string, error) {
	f, err := os.CreateTemp("", "patchbay-*.wav")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = os.Remove(f.Name()) // nothing else can be done
	}
	return f.Name(), err
}

// speak runs the program that speaks. Its sound is played while it is written.
func (r *runner) speak(ctx context.Context, text string, m engine.Manner) (engine.Clip, error) {
	speed := m.Speed
	if speed == 0 {
		speed = 1
	}
	var stdin io.Reader
	if !strings.Contains(strings.Join(r.settings.Speak, " "), "{text}") {
		stdin = strings.NewReader(text + "\n")
	}
	p, err := r.start(ctx, r.settings.Speak, stdin, strings.NewReplacer("{text}", text, "{lang}", base(m.Language, "en"),
		"{voice}", m.Voice, "{speed}", strconv.FormatFloat(speed, 'f', -1, 64)))
	if err != nil {
		return engine.Clip{}, err
	}
	return clipOf(p)
}

// clipOf waits for the first sound of a program.
func clipOf(p *process) (engine.Clip, error) {
	head, err := p.out.Peek(4)
	switch {
	case err != nil && err != io.EOF:
		err = p.failure(err)
	case len(head) > 0:
		err = nil
	default:
		if err = p.end(); err == nil {
			err = engine.Errorf(engine.Broken, "the program wrote no sound")
		}
	}
	if err != nil {
		_ = p.Close() // the first error counts
		return engine.Clip{}, err
	}
	clip := engine.Clip{Format: engine.FormatOf(head), Sound: p}
	if clip.Format == 0 {
		clip.Format, clip.Rate = engine.PCM, rawRate
	}
	return clip, nil
}

// base returns the language of a BCP 47 tag, without script and region, or otherwise if there is
// none.
func base(tag, otherwise string) string {
	before, _, _ := strings.Cut(tag, "-")
	if before == "" {
		return otherwise
	}
	return before
}

// start starts a program when it is its turn.
func (r *runner) start(ctx context.Context, argv []string, stdin io.Reader, fill *strings.Replacer) (*process, error) {
	if err := r.await(ctx); err != nil {
		return nil, err
	}
	args := make([]string, len(argv)-1)
	for i := range args {
		args[i] = fill.Replace(argv[i+1])
	}
	p, err := r.run(ctx, argv[0], args, stdin)
	if err != nil {
		<-r.slots
	}
	return p, err
}

// await waits for a slot.
func (r *runner) await(ctx context.Context) error {
	select {
	case r.slots <- struct{}{}:
		return nil
	default:
	}
	defer r.waiting.Add(-1)
	if r.waiting.Add(1) > maxWaiting {
		return engine.Errorf(engine.Busy, "%d programs run and %d wait", maxRunning, maxWaiting)
	}
	select {
	case r.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// environment returns the environment of programs: ours without our settings, which may be secrets.
func environment() (list []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PATCHBAY_") {
			list = append(list, v)
		}
	}
	return list
}

func (r *runner) run(ctx context.Context, name string, args []string, stdin io.Reader) (*process, error) {
	limited, cancel := context.WithTimeout(ctx, r.limit)
	p := &process{r: r, ctx: limited, cancel: cancel, name: name, stderr: &tail{}}
	p.cmd = exec.CommandContext(limited, name, args...)
	p.cmd.Stdin, p.cmd.Stderr, p.cmd.Env, p.cmd.WaitDelay = stdin, p.stderr, environment(), leaveTime
	inGroup(p.cmd)
	pipe, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		cancel()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, engine.Errorf(engine.Closed, "the program cannot be started: %w", err)
	}
	p.begin(pipe)
	return p, nil
}
