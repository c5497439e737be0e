package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/pcm"
)

// TestMain is the program that the tests run, if its first argument says so.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "program" {
		os.Exit(program(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// program behaves as one of several programs of engines.
func program(name string, args []string) (status int) {
	out := os.Stdout
	switch name {
	case "speak": // a tone for each byte of the text
		text, _ := io.ReadAll(os.Stdin)
		_ = pcm.WriteWAV(out, 16000, make([]int16, 100*len(text))) // the test fails without it
	case "raw":
		fmt.Fprint(out, "\x01\x00\x02\x00\x03\x00")
	case "arguments":
		fmt.Fprint(out, "ID3", strings.Join(args, "|"))
	case "hear":
		in := io.Reader(os.Stdin)
		if len(args) > 1 {
			f, err := os.Open(args[1])
			if err != nil {
				return 9
			}
			in = f
		}
		wav, _ := io.ReadAll(in)
		fmt.Fprintf(out, "\n %d bytes\nin %s\n", len(wav), args[0])
	case "secret":
		fmt.Fprint(out, os.Getenv("PATCHBAY_SECRET"), "none")
	case "status":
		fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 1000), "the reason")
		return 3
	case "half":
		fmt.Fprint(out, "RIFF and a part")
		return 3
	case "hang":
		<-time.After(time.Minute)
	case "hang later":
		fmt.Fprint(out, "RIFF and a part")
		<-time.After(time.Minute)
	case "nothing":
	case "endless":
		for {
			if _, err := out.Write(bytes.Repeat([]byte("RIFF "), 10000)); err != nil {
				return 1
			}
		}
	case "child": // leaves a child that holds the output and writes a file later
		c := exec.Command(os.Args[0], "program", "late", args[0])
		c.Stdout = out
		if c.Start() != nil {
			return 9
		}
		fmt.Fprint(out, "OggS and more")
	case "late":
		<-time.After(2 * time.Second)
		_ = os.WriteFile(args[0], []byte("late"), 0o600) // the test looks for it
	}
	return 0
}

func argv(args ...string) []string { return append([]string{os.Args[0], "program"}, args...) }

func newTest(t *testing.T, s Settings, log io.Writer) *runner {
	t.Helper()
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	r := newRunner(s, engine.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	t.Cleanup(func() {
		if len(r.slots) > 0 {
			t.Errorf("%d programs are left", len(r.slots))
		}
	})
	return r
}

// speak returns the sound of a text.
func speak(ctx context.Context, r *runner, text string, m engine.Manner) (engine.Clip, []byte, error) {
	s, err := engine.SpeakOnce(r.speak).Speak(ctx, m)
	if err != nil {
		return engine.Clip{}, nil, err
	}
	defer s.Close()
	if err := errors.Join(s.Write(text), s.Finish()); err != nil {
		return engine.Clip{}, nil, err
	}
	clip, err := s.Next()
	if err != nil {
		return engine.Clip{}, nil, err
	}
	defer clip.Sound.Close()
	sound, err := io.ReadAll(clip.Sound)
	return clip, sound, err
}

// TestSpeak checks the text, the arguments, and the formats of programs that speak.
func TestSpeak(t *testing.T) {
	t.Setenv("PATCHBAY_SECRET", "swordfish")
	for _, c := range []struct {
		name   string
		argv   []string
		m      engine.Manner
		format engine.Format
		want   string // of the sound; empty: a WAV file
	}{
		{"wav", argv("speak"), engine.Manner{}, engine.WAV, ""},
		{"raw", argv("raw"), engine.Manner{}, engine.PCM, "\x01\x00\x02\x00\x03\x00"},
		{"arguments", argv("arguments", "-v{voice}", "{lang}", "-s={speed}", "$HOME;{x}"),
			engine.Manner{Voice: "a b", Language: "zh-CN", Speed: 1.25}, engine.MP3, "ID3-va b|zh|-s=1.25|$HOME;{x}"},
		{"environment", argv("secret"), engine.Manner{}, engine.PCM, "none"},
	} {
		r := newTest(t, Settings{Speak: c.argv}, io.Discard)
		clip, sound, err := speak(t.Context(), r, "One.", c.m)
		if err != nil || clip.Format != c.format || c.want != "" && string(sound) != c.want {
			t.Errorf("%s: format %d, %q, %v", c.name, clip.Format, sound, err)
		}
		if c.want == "" && len(sound) != 44+2*100*len("One.\n") {
			t.Errorf("%s: %d bytes", c.name, len(sound))
		}
		if c.format == engine.PCM && clip.Rate != rawRate {
			t.Errorf("%s: rate %d", c.name, clip.Rate)
		}
	}
}

// TestListen checks what programs that listen get, and that no file is left.
func TestListen(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for name, program := range map[string][]string{"stdin": argv("hear", "{lang}"), "a file": argv("hear", "{lang}", "{file}")} {
		r := newTest(t, Settings{Listen: program}, io.Discard)
		got, err := r.transcribe(t.Context(), make([]int16, 1600), engine.Hints{Language: "en-US"})
		if err != nil || got.Text != "3244 bytes in en" {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

// TestFaults checks that each fault of a program has its class, in time, that nothing runs on, and
// that the log has the end of its standard error.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name          string
		listen, speak engine.Class // empty: no failure
	}{
		{"status", engine.Broken, engine.Broken},
		{"half", engine.Broken, engine.Broken},
		{"hang", engine.Timeout, engine.Timeout},
		{"hang later", engine.Timeout, engine.Timeout},
		{"nothing", "", engine.Broken},
		{"endless", engine.Broken, engine.Broken},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			r := newTest(t, Settings{Listen: argv(c.name), Speak: argv(c.name)}, &log)
			if r.limit = timeLimit; c.listen == engine.Timeout {
				r.limit = time.Second
			}
			_, err := r.transcribe(t.Context(), make([]int16, 16000), engine.Hints{})
			check(t, "listening", err, c.listen)
			_, _, err = speak(t.Context(), r, "One.", engine.Manner{})
			check(t, "speaking", err, c.speak)
			if c.name == "status" && (!strings.Contains(log.String(), "the reason") || log.Len() > 4*maxLogged) {
				t.Errorf("the log has %d bytes: %s", log.Len(), log.String())
			}
		})
	}
}

func check(t *testing.T, what string, err error, want engine.Class) {
	t.Helper()
	if e := engine.AsError(err); (e == nil) != (want == "") || e != nil && e.Class != want {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// TestMissing checks a program that does not exist, and settings without one.
func TestMissing(t *testing.T) {
	r := newTest(t, Settings{Speak: []string{"/nonexistent/espeak"}}, io.Discard)
	_, _, err := speak(t.Context(), r, "One.", engine.Manner{})
	check(t, "speaking", err, engine.Closed)
	for _, s := range []Settings{{}, {Listen: []string{""}}} {
		if _, err := New(s, engine.Options{}); err == nil {
			t.Errorf("%+v is accepted", s)
		}
	}
}

// TestContext checks that the end of the context ends a program at once.
func TestContext(t *testing.T) {
	for _, name := range []string{"hang", "hang later", "endless"} {
		r := newTest(t, Settings{Speak: argv(name)}, io.Discard)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, context.Canceled)
		begin := time.Now()
		if _, _, err := speak(ctx, r, "One.", engine.Manner{}); name != "endless" && !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("%s: it took %s", name, took)
		}
	}
}

// TestGroup checks that what a program has started ends with it, even if it holds the output.
func TestGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "late")
	r := newTest(t, Settings{Speak: argv("child", file)}, io.Discard)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, _, _ = speak(ctx, r, "One.", engine.Manner{}) // the child keeps the sound from ending
	<-time.After(1500 * time.Millisecond)            // until it would have written
	if _, err := os.Stat(file); err == nil {
		t.Error("the child was not killed")
	}
}

// TestQueue checks that only a few programs run and wait.
func TestQueue(t *testing.T) {
	r := newTest(t, Settings{Speak: argv("hang")}, io.Discard)
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error)
	for range maxRunning + maxWaiting + 1 {
		go func() {
			_, _, err := speak(ctx, r, "One.", engine.Manner{})
			results <- err
		}()
	}
	check(t, "one too many", <-results, engine.Busy)
	cancel()
	for range maxRunning + maxWaiting {
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestReal has programs of this machine speak, and one hear it.
func TestReal(t *testing.T) {
	flite, err := exec.LookPath("flite")
	if err != nil {
		t.Skip("flite is not installed")
	}
	r := newTest(t, Settings{Speak: []string{flite, "-voice", "slt", "-t", "{text}", "-o", "/dev/stdout"}}, io.Discard)
	_, sound, err := speak(t.Context(), r, "good morning", engine.Manner{})
	if err != nil {
		t.Fatal(err)
	}
	samples := samplesOf(t, sound)
	t.Run("espeak-ng", func(t *testing.T) {
		if _, err := exec.LookPath("espeak-ng"); err != nil {
			t.Skip("espeak-ng is not installed")
		}
		r := newTest(t, Settings{Speak: []string{"espeak-ng", "-v", "{lang}", "--stdout"}}, io.Discard)
		_, sound, err := speak(t.Context(), r, "早上好", engine.Manner{Language: "cmn"})
		if n := len(samplesOf(t, sound)); err != nil || n < 16000/3 {
			t.Errorf("%d samples, %v", n, err)
		}
	})
	t.Run("pocketsphinx", func(t *testing.T) {
		program, err := exec.LookPath("pocketsphinx_continuous")
		if err != nil {
			t.Skip("pocketsphinx is not installed")
		}
		grammar := filepath.Join(t.TempDir(), "words.gram")
		text := "#JSGF V1.0; grammar words; public <words> = good morning | good night | what time is it;"
		if err := os.WriteFile(grammar, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := newTest(t, Settings{Listen: []string{program, "-infile", "{file}", "-jsgf", grammar, "-logfn", "/dev/null"}},
			io.Discard)
		heard, err := r.transcribe(t.Context(), samples, engine.Hints{})
		if err != nil || heard.Text != "good morning" {
			t.Errorf("%+v, %v", heard, err)
		}
	})
}

func samplesOf(t *testing.T, wav []byte) (samples []int16) {
	t.Helper()
	in, err := pcm.NewWAV(bytes.NewReader(wav), engine.Rate)
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]int16, 4096)
	for {
		n, err := in.Read(buf)
		if samples = append(samples, buf[:n]...); err != nil {
			return samples
		}
	}
}
