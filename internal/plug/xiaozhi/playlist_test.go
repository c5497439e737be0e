package xiaozhi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/voice/pace"
)

const frame = 60 * time.Millisecond

// script is a transport that writes down what is sent, such as "start a1 a2 stop".
type script struct {
	mu   sync.Mutex
	sent []string
	at   []time.Time
}

func (s *script) add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.at = append(s.sent, what), append(s.at, time.Now())
}

func (s *script) Text(b []byte) error {
	m, err := wire.Parse(b)
	switch {
	case err != nil:
		return err
	case m.State == wire.TTSSentenceStart:
		s.add(m.Text + ":")
	case m.State != wire.TTSSentenceEnd: // that one keeps connections alive
		s.add(m.State)
	}
	return nil
}

func (s *script) Audio(b []byte, _ time.Duration) error { s.add(string(b)); return nil }
func (s *script) Close(bool)                            {}

func (s *script) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.sent, " ")
}

// wait waits until something was sent, and all that is due with it.
func (s *script) wait(what string) {
	for !slices.Contains(strings.Fields(s.String()), what) {
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
}

// sentences is a source whose packets are named a1, a2, and so on, in sentences of some packets.
type sentences struct {
	name         string
	each, total  int
	n            int
	delay, stall time.Duration // before the first packet, and before the others
	closed       bool
}

func (s *sentences) Next(ctx context.Context) ([]byte, error) {
	wait := s.stall
	if s.n == 0 {
		wait = s.delay
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if s.n == s.total {
		return nil, io.EOF
	}
	s.n++
	return []byte(fmt.Sprint(s.name, s.n)), nil
}

func (s *sentences) Text() (string, bool) {
	return fmt.Sprint(strings.ToUpper(s.name), (s.n-1)/s.each+1), (s.n-1)%s.each == 0
}

func (s *sentences) Close() error { s.closed = true; return nil }

// stage is a conversation whose packets are written down.
type stage struct {
	*Conversation
	out *script
	all sync.WaitGroup
}

// onStage runs a test with a conversation in which nobody has spoken for a while.
func onStage(t *testing.T, test func(t *testing.T, s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{out: &script{}}
		_, s.Conversation = talking(t, alone(t, deaf{}), s.out)
		time.Sleep(noticeQuiet)
		test(t, s)
		s.all.Wait()
		synctest.Wait()
		if s.list.running || len(s.list.sounds) > 0 {
			t.Error("something still plays")
		}
	})
}

// plays plays a source in the background.
func (s *stage) plays(t *testing.T, p Priority, src *sentences, want error) {
	generation := s.Generation()
	s.all.Go(func() {
		if _, err := s.Play(t.Context(), p, generation, src); !errors.Is(err, want) {
			t.Errorf("%s: %v", src.name, err)
		}
		if !src.closed {
			t.Errorf("%s is not closed", src.name)
		}
	})
}

func (s *stage) said(t *testing.T, want string) {
	t.Helper()
	s.all.Wait()
	if got := s.out.String(); got != want {
		t.Errorf("played %s\nwant   %s", got, want)
	}
}

// What is due in the next 120 ms is sent already: three packets at the beginning. So that is what a
// sound plays on when another one begins.
func TestPriorities(t *testing.T) {
	answer := func() *sentences { return &sentences{name: "a", each: 4, total: 6} }
	notice := func() *sentences { return &sentences{name: "n", each: 2, total: 2} }
	music := func() *sentences { return &sentences{name: "m", each: 100, total: 8} }
	for _, c := range []struct {
		name, want string
		test       func(t *testing.T, s *stage)
	}{
		{"an answer", "start A1: a1 a2 a3 a4 A2: a5 a6 stop", func(t *testing.T, s *stage) {
			s.plays(t, Answer, answer(), nil)
		}},
		{"a notice waits for the end of the sentence", "start A1: a1 a2 a3 a4 N1: n1 n2 A2: a5 a6 stop",
			func(t *testing.T, s *stage) {
				s.plays(t, Answer, answer(), nil)
				s.out.wait("a1")
				s.plays(t, Notice, notice(), nil)
			}},
		{"an answer waits for the notice", "start N1: n1 n2 n3 n4 n5 A1: a1 a2 a3 a4 A2: a5 a6 stop",
			func(t *testing.T, s *stage) {
				s.plays(t, Notice, &sentences{name: "n", each: 9, total: 5}, nil)
				s.out.wait("n1")
				s.plays(t, Answer, answer(), nil)
			}},
		{"a notice is given while the answer is prepared", "start N1: n1 n2 A1: a1 a2 a3 a4 A2: a5 a6 stop",
			func(t *testing.T, s *stage) {
				s.plays(t, Answer, &sentences{name: "a", each: 4, total: 6, delay: time.Second}, nil)
				s.out.wait("start")
				s.plays(t, Notice, notice(), nil)
			}},
		{"an answer waits for the tool that gives a notice", "start A1: a1 N1: n1 n2 A2: a2 stop",
			func(t *testing.T, s *stage) {
				s.plays(t, Answer, &sentences{name: "a", each: 1, total: 2, stall: 2 * time.Second}, nil)
				s.out.wait("a1")
				s.plays(t, Notice, notice(), nil)
			}},
		{"an alarm interrupts", "start A1: a1 a2 a3 a4 W1: w1 w2 A2: a5 a6 stop", func(t *testing.T, s *stage) {
			s.plays(t, Answer, answer(), nil)
			s.out.wait("a1")
			s.plays(t, Alarm, &sentences{name: "w", each: 2, total: 2}, nil)
		}},
		{"speech pauses music", "start M1: m1 m2 m3 m4 N1: n1 n2 M1: m5 m6 m7 A1: a1 a2 a3 a4 A2: a5 a6 M1: m8 stop",
			func(t *testing.T, s *stage) {
				s.plays(t, Music, music(), nil)
				s.out.wait("m1")
				s.plays(t, Notice, notice(), nil)
				s.out.wait("m6")
				s.plays(t, Answer, answer(), nil)
			}},
		{"other music", "start M1: m1 m2 m3 m4 O1: o1 o2 stop", func(t *testing.T, s *stage) {
			s.plays(t, Music, music(), errOtherMusic)
			s.out.wait("m1")
			s.plays(t, Music, &sentences{name: "o", each: 5, total: 2}, nil)
		}},
		{"an interruption pauses music until the answer",
			"start M1: m1 m2 m3 stop start A1: a1 a2 a3 a4 A2: a5 a6 M1: m5 m6 m7 m8 stop",
			func(t *testing.T, s *stage) {
				s.plays(t, Music, music(), nil)
				s.out.wait("m1")
				s.StopPlayback()
				time.Sleep(2 * time.Second)
				s.plays(t, Answer, answer(), nil)
			}},
		{"an interruption without words", "start M1: m1 m2 m3 stop start M1: m5 m6 m7 m8 stop",
			func(t *testing.T, s *stage) {
				s.plays(t, Music, music(), nil)
				s.out.wait("m1")
				s.StopPlayback()
				time.Sleep(musicQuiet - time.Second)
				if got := s.out.String(); !strings.HasSuffix(got, "stop") {
					t.Errorf("the music goes on: %s", got)
				}
			}},
		{"stop ends everything", "start M1: m1 m2 m3 m4 N1: n1 n2 stop", func(t *testing.T, s *stage) {
			s.plays(t, Music, music(), pace.ErrAborted)
			s.out.wait("m1")
			s.plays(t, Notice, &sentences{name: "n", each: 9, total: 9}, pace.ErrAborted)
			s.out.wait("n2")
			s.plays(t, Notice, notice(), pace.ErrAborted)
			s.StopEverything()
		}},
		{"a pause", "start M1: m1 m2 m3 m4 stop start M1: m5 m6 m7 m8 stop", func(t *testing.T, s *stage) {
			s.plays(t, Music, music(), nil)
			s.out.wait("m2")
			if !s.pauseMusic(true) {
				t.Error("no music")
			}
			time.Sleep(time.Minute)
			s.pauseMusic(false)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onStage(t, func(t *testing.T, s *stage) {
				c.test(t, s)
				s.said(t, c.want)
			})
		})
	}
}

// A notice does not begin while the person speaks, so that their words are heard.
func TestNoticeWaitsForSilence(t *testing.T) {
	onStage(t, func(t *testing.T, s *stage) {
		began := time.Now()
		for range 10 {
			s.HeardSpeech()
			if s.out.String() == "" {
				s.plays(t, Notice, &sentences{name: "n", each: 1, total: 1}, nil)
			}
			time.Sleep(frame)
			if s.out.String() != "" {
				t.Fatal("it does not wait")
			}
			if time.Since(began) == frame {
				continue
			}
		}
		s.out.wait("start")
		if waited := time.Since(began); waited < 9*frame+noticeQuiet || waited > 11*frame+noticeQuiet {
			t.Errorf("it waited for %s", waited)
		}
	})
}

// Whatever happens when: each start has its stop, packets are between them and in their order.
// Music that was interrupted may lack the packet that was due next. After an interruption, the last
// packet of what played is sent within 100 ms, and tts/stop within 200 ms. With CHECK_ALL there are
// some 14,000 interruptions.
func TestInterruptions(t *testing.T) {
	seeds, cuts := uint64(300), 0
	if os.Getenv("CHECK_ALL") != "" {
		seeds = 3500
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 17))
		onStage(t, func(t *testing.T, s *stage) {
			music := map[byte]bool{}
			for i := range 12 {
				src := &sentences{name: string(rune('a' + i)), each: 1 + r.IntN(3), total: 1 + r.IntN(8),
					delay: time.Duration(r.IntN(300)) * time.Millisecond}
				p := Priority(r.IntN(4))
				music[src.name[0]] = p == Music
				generation := s.Generation()
				s.all.Go(func() {
					_, err := s.Play(t.Context(), p, generation, src)
					if err != nil && !errors.Is(err, pace.ErrAborted) && !errors.Is(err, errOtherMusic) {
						t.Error(err)
					}
				})
				time.Sleep(time.Duration(r.IntN(400)) * time.Millisecond)
				if r.IntN(3) == 0 {
					cuts++
					all := r.IntN(2) == 0
					s.out.add(fmt.Sprint(cutWord[all], i))
					s.stopPlayback(all)
				}
			}
			s.all.Wait()
			checkScript(t, s.out.String())
			checkCuts(t, s.out, music)
		})
	}
	t.Logf("%d interruptions", cuts)
}

// cutWord is what a script says of an interruption, of music too or not, before the number of the
// last sound that had been asked for.
var cutWord = map[bool]string{true: "cut-all", false: "cut"}

// checkCuts checks how soon sounds end after an interruption. Music goes on later, if the
// interruption was not of music too.
func checkCuts(t *testing.T, s *script, music map[byte]bool) {
	t.Helper()
	speaking := false
	for i, w := range s.sent {
		number, all := strings.CutPrefix(w, "cut-all")
		if !all && !strings.HasPrefix(w, "cut") {
			if !strings.HasSuffix(w, ":") {
				speaking = w != "stop"
			}
			continue
		}
		var last int
		if _, err := fmt.Sscan(strings.TrimPrefix(number, "cut"), &last); err != nil {
			t.Fatal(err)
		}
		stopped := !speaking
		for j, next := range s.sent[i+1:] {
			after := s.at[i+1+j].Sub(s.at[i])
			switch {
			case strings.HasPrefix(next, "cut"), strings.HasSuffix(next, ":"):
			case next == "stop" || next == "start":
				if !stopped && after > 200*time.Millisecond {
					t.Errorf("%s comes %v after %s: %v", next, after, w, s.sent)
				}
				stopped = true
			case next[0] <= 'a'+byte(last) && (all || !music[next[0]]) && after > 100*time.Millisecond:
				t.Errorf("%s is sent %v after %s: %v", next, after, w, s.sent)
			}
		}
	}
}

// checkScript checks what was sent.
func checkScript(t *testing.T, script string) {
	t.Helper()
	speaking := false
	last := map[byte]int{}
	for _, w := range strings.Fields(script) {
		n := 0
		switch {
		case w == "start" && !speaking, w == "stop":
			speaking = w == "start"
			continue
		case w == "start":
			t.Fatalf("start in start: %s", script)
		case strings.HasPrefix(w, "cut"), strings.HasSuffix(w, ":"):
			continue
		}
		if _, err := fmt.Sscan(w[1:], &n); err != nil || !speaking || n <= last[w[0]] || n > last[w[0]]+2 {
			t.Fatalf("%s is out of place: %s", w, script)
		}
		last[w[0]] = n
	}
	if speaking {
		t.Fatalf("no stop: %s", script)
	}
}
