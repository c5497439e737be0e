package xiaozhi

import (
	"maps"
	"sync"
	"time"

	"patchbay/internal/talk"
)

// Stages of a spoken turn.
const (
	stageSpeechEnd     = "speech_end"
	stageCommit        = "commit"
	stageTranscript    = "transcript"
	stageFirstText     = "first_text"
	stageFirstSentence = "first_sentence"
	stageFirstSound    = "first_sound"
	stageInterrupted   = "interrupted"
)

// timeline has when the stages of a spoken turn were reached. It is safe for concurrent use.
type timeline struct {
	mu sync.Mutex
	at map[string]time.Time
}

// mark notes that a stage was reached, unless it was before.
func (t *timeline) mark(stage string, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at == nil {
		t.at = map[string]time.Time{}
	}
	if _, known := t.at[stage]; !known {
		t.at[stage] = at
	}
}

// add adds the stages of another timeline.
func (t *timeline) add(other *timeline) {
	other.mu.Lock()
	have := maps.Clone(other.at)
	other.mu.Unlock()
	for stage, at := range have {
		t.mark(stage, at)
	}
}

// voiceTimes returns the stages; nil if nobody spoke.
func (t *timeline) voiceTimes() *talk.VoiceTimes {
	t.mu.Lock()
	defer t.mu.Unlock()
	end, spoke := t.at[stageSpeechEnd]
	if !spoke {
		return nil
	}
	after := func(stage string) int64 {
		at, reached := t.at[stage]
		if !reached {
			return 0
		}
		return max(at.Sub(end).Milliseconds(), 1)
	}
	return &talk.VoiceTimes{SpeechEnded: end, Commit: after(stageCommit), Transcript: after(stageTranscript),
		FirstText: after(stageFirstText), FirstSentence: after(stageFirstSentence),
		FirstSound: after(stageFirstSound), Interrupted: after(stageInterrupted)}
}
