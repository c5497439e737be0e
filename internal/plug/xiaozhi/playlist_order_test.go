package xiaozhi

import (
	"testing"
	"time"

	"patchbay/internal/voice/pace"
)

// Music that begins while an answer is being made waits for it, whether the sound of the answer is
// among the sounds before the music or after it, and goes on by itself if there is no answer.
func TestMusicAfterTheAnswer(t *testing.T) {
	for _, order := range []string{"music, answer", "answer, music", "music"} {
		t.Run(order, func(t *testing.T) {
			c := &Conversation{ctx: t.Context(), player: pace.NewPlayer(pace.Options{Frame: 60 * time.Millisecond})}
			l := &c.list
			l.changed, l.running = make(chan struct{}, 1), true // nothing plays
			add := func(p Priority) *sound {
				t.Helper()
				s := &sound{priority: p, packet: []byte{1}, cancel: func(error) {}, done: make(chan struct{})}
				if err := c.enqueue(s, c.Generation()); err != nil {
					t.Fatal(err)
				}
				return s
			}
			next := func() *sound {
				l.mu.Lock()
				defer l.mu.Unlock()
				s, _ := l.choose(time.Now())
				return s
			}
			startsIn := func() time.Duration {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.startsIn(time.Minute)
			}
			var music, answer *sound
			ended := l.expectAnswer()
			if order == "answer, music" {
				answer = add(Answer)
			}
			if music = add(Music); order == "music" {
				if s, wait := next(), startsIn(); s != nil || wait <= 0 {
					t.Errorf("music plays before the answer: %v, in %s", s, wait)
				}
				ended()
				if wait := startsIn(); wait > 0 {
					t.Errorf("without an answer, music waits for %s", wait)
				}
				return
			}
			if order == "music, answer" {
				answer = add(Answer)
			}
			if s := next(); s != answer {
				t.Errorf("first plays %+v", s)
			}
			ended()
			if s := next(); s != answer {
				t.Errorf("after the bot has ended plays %+v", s)
			}
			l.end(answer, nil)
			if s := next(); s != music {
				t.Errorf("after the answer plays %+v", s)
			}
		})
	}
}
