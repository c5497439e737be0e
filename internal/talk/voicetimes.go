package talk

import "time"

// VoiceTimes tells when the stages of a spoken turn were reached. Milliseconds count from the end
// of the speech; 0: the stage was not reached.
type VoiceTimes struct {
	SpeechEnded time.Time `json:"speech_ended_at"`
	// Commit is when it was decided that the person has finished, Transcript when their words were
	// certain.
	Commit     int64 `json:"commit_ms,omitempty"`
	Transcript int64 `json:"transcript_ms,omitempty"`
	// FirstText and FirstSentence are when the bot had written the beginning of its answer, and a
	// sentence of it; FirstSound is when the board began to play it.
	FirstText     int64 `json:"first_text_ms,omitempty"`
	FirstSentence int64 `json:"first_sentence_ms,omitempty"`
	FirstSound    int64 `json:"first_sound_ms,omitempty"`
	// Interrupted is when the person interrupted it.
	Interrupted int64 `json:"interrupted_ms,omitempty"`
}
