package wyoming

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/wyoming/wyomingtest"
)

// faultClasses are the classes of faults at each stage; those that are missing are no failures.
var faultClasses = map[wyomingtest.Fault]map[wyomingtest.Stage]engine.Class{
	wyomingtest.Refuse:       everywhere(engine.Closed),
	wyomingtest.Hang:         everywhere(engine.Timeout),
	wyomingtest.HalfEvent:    everywhere(engine.Closed),
	wyomingtest.Garbage:      everywhere(engine.Broken),
	wyomingtest.TLS:          everywhere(engine.Closed),
	wyomingtest.WrongLength:  everywhere(engine.Broken),
	wyomingtest.HugeLength:   everywhere(engine.Broken),
	wyomingtest.WrongData:    everywhere(engine.Broken),
	wyomingtest.LongLine:     everywhere(engine.Broken),
	wyomingtest.ErrorEvent:   everywhere(engine.Broken),
	wyomingtest.CutLast:      everywhere(engine.Closed),
	wyomingtest.SlowBytes:    everywhere(engine.Timeout),
	wyomingtest.CutFirst:     {wyomingtest.Listen: engine.Closed, wyomingtest.Speak: engine.Closed},
	wyomingtest.CutMiddle:    {wyomingtest.Listen: engine.Closed, wyomingtest.Speak: engine.Closed},
	wyomingtest.SilentEnd:    {wyomingtest.Listen: engine.Timeout, wyomingtest.Speak: engine.Timeout},
	wyomingtest.EndlessSound: {wyomingtest.Speak: engine.Broken},
	wyomingtest.EmptyText:    {wyomingtest.Speak: engine.Broken}, // no sound
	wyomingtest.WrongFormat:  {wyomingtest.Speak: engine.Input},
	wyomingtest.HugeText:     {wyomingtest.Listen: engine.Broken},
	wyomingtest.LongText:     {wyomingtest.Listen: engine.Broken},
}

func everywhere(c engine.Class) map[wyomingtest.Stage]engine.Class {
	return map[wyomingtest.Stage]engine.Class{wyomingtest.Describe: c, wyomingtest.Listen: c, wyomingtest.Speak: c}
}

// short are limits for tests.
var short = limits{connect: 2 * time.Second, describe: 600 * time.Millisecond, write: time.Second,
	speech: 5 * time.Second, result: 600 * time.Millisecond, chunk: 600 * time.Millisecond,
	lost: 100 * time.Millisecond}

// secret is a text that no error and no log may have.
const secret = "the password is swordfish."

// TestFaults checks that each fault at each stage ends the use of the server in time, with its
// class, without what was said, and without goroutines and connections.
func TestFaults(t *testing.T) {
	for _, f := range wyomingtest.Faults {
		for _, stage := range []wyomingtest.Stage{wyomingtest.Describe, wyomingtest.Listen, wyomingtest.Speak} {
			for _, streaming := range []bool{false, true} {
				if streaming && stage != wyomingtest.Speak {
					continue
				}
				name := string(f) + " " + string(stage)
				if streaming {
					name += " streaming"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					testFault(t, wyomingtest.Options{Fault: f, Stage: stage, Streaming: streaming})
				})
			}
		}
	}
}

func testFault(t *testing.T, o wyomingtest.Options) {
	o.Transcript = func([]int16) string { return secret }
	server := wyomingtest.New(t, o)
	var log bytes.Buffer
	c := newTest(t, Settings{Address: server.Address}, &log)
	want := faultClasses[o.Fault][o.Stage]
	if want == engine.Timeout {
		c.limits = short
	}
	begin := time.Now()
	var err error
	if o.Stage == wyomingtest.Speak {
		_, err = speak(t.Context(), c, secret, engine.Manner{})
	} else {
		_, err = listen(t, c, make([]int16, 5*pieceSamples), "")
	}
	if took := time.Since(begin); took > 8*time.Second {
		t.Errorf("it took %s", took)
	}
	if e := engine.AsError(err); (e == nil) != (want == "") || e != nil && e.Class != want {
		t.Errorf("%v, want %q", err, want)
	}
	if err != nil && strings.Contains(err.Error(), secret) || strings.Contains(log.String(), secret) {
		t.Errorf("what was said is in an error or the log: %v\n%s", err, log.String())
	}
	eventually(t, "connections are left", func() bool { return server.Open() == 0 })
	if v := server.Violations(); len(v) > 0 {
		t.Error(v)
	}
}

func newTest(t *testing.T, s Settings, log io.Writer) *client {
	t.Helper()
	c, err := newClient(s, engine.Options{Logger: slog.New(slog.NewTextHandler(log,
		&slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// listen speaks samples and returns all transcripts.
func listen(t *testing.T, c *client, samples []int16, language string) (list []engine.Transcript, err error) {
	t.Helper()
	u, err := engine.ListenLive(c.recognise).Listen(t.Context(), engine.Hints{Language: language})
	if err != nil {
		return nil, err
	}
	defer u.Close()
	_ = u.Write(samples) // Next gets the error
	_ = u.Finish()
	for {
		tr, err := u.Next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, tr)
	}
}

// speak returns the sound of a text.
func speak(ctx context.Context, c *client, text string, m engine.Manner) ([]byte, error) {
	s, err := engine.SpeakOnce(c.speak).Speak(ctx, m)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := errors.Join(s.Write(text), s.Finish()); err != nil {
		return nil, err
	}
	clip, err := s.Next()
	if err != nil {
		return nil, err
	}
	defer clip.Sound.Close()
	return io.ReadAll(clip.Sound)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); _ = netx.Wait(t.Context(), time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// TestContext checks that the context ends everything at once.
func TestContext(t *testing.T) {
	for _, stage := range []wyomingtest.Stage{wyomingtest.Describe, wyomingtest.Listen, wyomingtest.Speak} {
		t.Run(string(stage), func(t *testing.T) {
			server := wyomingtest.New(t, wyomingtest.Options{Fault: wyomingtest.Hang, Stage: stage})
			c := newTest(t, Settings{Address: server.Address}, io.Discard)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				if stage == wyomingtest.Speak {
					_, err := speak(ctx, c, "One.", engine.Manner{})
					ended <- err
					return
				}
				u, err := engine.ListenLive(c.recognise).Listen(ctx, engine.Hints{})
				if err == nil {
					_ = errors.Join(u.Write(make([]int16, 5000)), u.Finish()) // Next gets the error
					_, err = u.Next()
					u.Close()
				}
				ended <- err
			}()
			eventually(t, "no connection", func() bool { return server.Open() > 0 })
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			eventually(t, "connections are left", func() bool { return server.Open() == 0 })
		})
	}
}

// FuzzEvents checks the parser of events, and of the data of each type.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"{\"type\":\"audio-chunk\",\"version\":\"1.9.0\",\"data_length\":37,\"payload_length\":2}\n" +
			`{"rate":16000,"width":2,"channels":1}` + "\x01\x02",
		"{\"type\":\"transcript\",\"data\":{\"text\":\"a\"}}\n{\"type\":\"info\",\"data_length\":10}\n" + `{"asr":[]} `,
		"{\"type\":\"error\",\"data\":{\"code\":\"a\"},\"data_length\":2}\n{}", "{\"type\":\"\"}\n", "\n", "[]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := newEventReader(bytes.NewReader(stream))
		for {
			e, err := r.next()
			if err != nil {
				if e := engine.AsError(err); e.Class != engine.Broken {
					t.Errorf("class %s", e.Class)
				}
				return
			}
			if e.kind == "" || len(e.data)+len(e.payload) > len(stream) {
				t.Fatalf("%+v", e)
			}
			var in info
			if e.decode(&in) == nil && len(in.TTS) > 0 {
				_, _ = in.voice(&Settings{}, engine.Manner{Language: "zh-CN"}) // whatever it is
			}
			if err := e.failure(); len(err.Error()) > 500 {
				t.Errorf("a long error: %v", err)
			}
		}
	})
}
