package control

import (
	"context"
	"slices"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// latencyTurns is the number of spoken turns of [VoiceLatency].
const latencyTurns = 100

// VoiceLatencyQuery selects spoken turns.
type VoiceLatencyQuery struct {
	User string `query:"user"` // a name; admins may name others
}

// VoiceLatency is how fast the last spoken turns were answered.
type VoiceLatency struct {
	Turns       int `json:"turns"`       // at most 100
	Interrupted int `json:"interrupted"` // by the person, while the answer was spoken
	// Stages are in their order. Those that no turn has reached are left out.
	Stages []VoiceStage `json:"stages"`
}

// Stages of a spoken turn.
const (
	StageCommit        = "commit"         // it was decided that the person has finished
	StageTranscript    = "transcript"     // their words were certain
	StageFirstText     = "first_text"     // the bot had written the beginning of its answer
	StageFirstSentence = "first_sentence" // it had written a sentence
	StageFirstSound    = "first_sound"    // the board began to play it
)

// VoiceStage is when turns reached a stage, in milliseconds after the end of the speech.
type VoiceStage struct {
	Name     string `json:"name"`  // one of the Stage… constants
	Turns    int    `json:"turns"` // that reached it
	MedianMS int64  `json:"median_ms"`
	P95MS    int64  `json:"p95_ms"`
}

// stageTitles are the names of the stages for people.
var stageTitles = map[string]i18n.Message{
	StageCommit:        i18n.Message("the question is complete"),
	StageTranscript:    i18n.Message("it is understood"),
	StageFirstText:     i18n.Message("the bot begins to answer"),
	StageFirstSentence: i18n.Message("the bot has written a sentence"),
	StageFirstSound:    i18n.Message("the board begins to speak"),
}

// Title returns the name of the stage for people.
func (s VoiceStage) Title() i18n.Message { return stageTitles[s.Name] }

// VoiceLatency returns how fast the last spoken turns of the caller's bots were answered, stage by
// stage.
func (s *Service) VoiceLatency(ctx context.Context, c Caller, in VoiceLatencyQuery) (VoiceLatency, error) {
	owner, err := s.recordsOwner(ctx, c, in.User)
	if err != nil {
		return VoiceLatency{}, err
	}
	times, err := s.Hub.Store.Traces.Spoken(ctx, owner, latencyTurns)
	if err != nil {
		return VoiceLatency{}, err
	}
	l := VoiceLatency{Turns: len(times), Stages: []VoiceStage{}}
	for _, t := range times {
		if t.Interrupted > 0 {
			l.Interrupted++
		}
	}
	for _, stage := range []struct {
		name string
		of   func(store.VoiceTimes) int64
	}{
		{StageCommit, func(t store.VoiceTimes) int64 { return t.Commit }},
		{StageTranscript, func(t store.VoiceTimes) int64 { return t.Transcript }},
		{StageFirstText, func(t store.VoiceTimes) int64 { return t.FirstText }},
		{StageFirstSentence, func(t store.VoiceTimes) int64 { return t.FirstSentence }},
		{StageFirstSound, func(t store.VoiceTimes) int64 { return t.FirstSound }},
	} {
		var reached []int64
		for _, t := range times {
			if ms := stage.of(t); ms > 0 {
				reached = append(reached, ms)
			}
		}
		if n := len(reached); n > 0 {
			slices.Sort(reached)
			l.Stages = append(l.Stages, VoiceStage{Name: stage.name, Turns: n, MedianMS: reached[n/2],
				P95MS: reached[min(n*95/100, n-1)]})
		}
	}
	return l, nil
}
