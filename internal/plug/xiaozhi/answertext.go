package xiaozhi

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/words"
)

// maxAhead limits the sentences of an [answerText] that were not taken yet. The bot waits when
// there are more.
const maxAhead = 64

// answerText is the text of an answer, sentence by sentence, while it is written and spoken. One
// goroutine writes it; one reads it.
type answerText struct {
	mu       sync.Mutex
	lines    []line
	taken    int
	finished bool
	clauses  bool     // the pieces may be short
	wanted   []string // commands of the bot
	awaits   bool     // the person is expected to reply
	times    timeline
	change   chan struct{} // closed at the next change

	// turn is the id of the turn, and asked its question. They are set when the bot has ended.
	turn, asked string

	played chan struct{} // closed by settle
	heard  string        // what was played; read after played
	whole  bool
}

// line is a sentence, or a face that is shown before the next one.
type line struct {
	text, face string
	note       bool // the sentence is not part of the answer
	fixed      bool // it may be said again: its sound is kept
	// late is set if the person has waited for engines, and must not wait long for this: it is
	// shown at once. It tells which engines were late.
	late func(engine.ID) bool
}

// newAnswerText returns an empty text for engines; nil: for the display.
func newAnswerText(chain *engine.Chain) *answerText {
	return &answerText{clauses: chain != nil && chain.Streams(), change: make(chan struct{}),
		played: make(chan struct{})}
}

// write adds a line. It waits while there are many. Sentences without letters are left out.
func (s *answerText) write(ctx context.Context, l line) error {
	if l.face == "" && words.Letters(l.text) == "" {
		return nil
	}
	for {
		s.mu.Lock()
		if len(s.lines)-s.taken < maxAhead {
			s.lines = append(s.lines, l)
			s.changed()
			s.mu.Unlock()
			return nil
		}
		change := s.change
		s.mu.Unlock()
		select {
		case <-change:
		case <-s.played:
			return context.Canceled
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// waits reports whether there may be more lines, and none is left.
func (s *answerText) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.finished && s.taken == len(s.lines)
}

// want adds a command that the bot wants carried out after its answer.
func (s *answerText) want(command string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wanted = append(s.wanted, command)
}

// awaitAnswer is a [talk.Turn.AwaitsAnswer].
func (s *answerText) awaitAnswer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaits = true
}

// awaitsAnswer reports whether the person is expected to reply, whatever the words are.
func (s *answerText) awaitsAnswer() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.awaits
}

// wants reports whether the bot wants a command carried out.
func (s *answerText) wants(command string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.wanted, command)
}

// finish ends the text.
func (s *answerText) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finished = true
	s.changed()
}

// changed wakes who waits. Requires mu.
func (s *answerText) changed() {
	close(s.change)
	s.change = make(chan struct{})
}

// line waits for line i. The error is io.EOF after the last one.
func (s *answerText) line(ctx context.Context, i int) (line, error) {
	for {
		s.mu.Lock()
		if i < len(s.lines) {
			if s.taken < i+1 {
				s.taken = i + 1
				s.changed()
			}
			l := s.lines[i]
			s.mu.Unlock()
			return l, nil
		}
		finished, change := s.finished, s.change
		s.mu.Unlock()
		if finished {
			return line{}, io.EOF
		}
		select {
		case <-change:
		case <-ctx.Done():
			return line{}, context.Cause(ctx)
		}
	}
}

// settle records that the first n lines were played, and nothing else will be. It is called once.
func (s *answerText) settle(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whole = s.finished && n >= len(s.lines)
	for _, l := range s.lines[:min(n, len(s.lines))] {
		if !l.note {
			s.heard = engine.JoinTexts(s.heard, l.text)
		}
	}
	close(s.played)
}

// Heard waits until the script was played. It is a [talk.Turn.Heard].
func (s *answerText) Heard() (text string, whole bool) {
	<-s.played
	return s.heard, s.whole
}

// echoTime is for how long before a question a board has spoken what may be an echo in it.
const echoTime = 10 * time.Second

// maxSpoken limits the sentences that a [spokenTexts] remembers.
const maxSpoken = 24

// spokenTexts are the last sentences that a board has spoken.
type spokenTexts struct {
	mu    sync.Mutex
	texts []string
	ends  []time.Time // when the next one began; one less than texts
}

func (s *spokenTexts) add(text string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.texts) > 0 {
		s.ends = append(s.ends, now)
	}
	s.texts = append(s.texts, text)
	if over := len(s.texts) - maxSpoken; over > 0 {
		s.texts, s.ends = s.texts[over:], s.ends[over:]
	}
}

// since returns what was spoken since a time.
func (s *spokenTexts) since(t time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := 0
	for first < len(s.ends) && s.ends[first].Before(t) {
		first++
	}
	return strings.Join(s.texts[first:], " ")
}
