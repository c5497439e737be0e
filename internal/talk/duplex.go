package talk

import (
	"context"
	"time"
)

// DuplexBot is a [Bot] that also converses by sound: it hears what a person says and answers aloud.
type DuplexBot interface {
	Bot
	// Converse begins a conversation by sound, and does not wait for its connection. The turn has
	// no parts; it tells who talks, what was said before, and the manner. It belongs to the
	// conversation. Hear is called when a bot that [Duplex.FindsTurns] finds speech; it must not
	// wait.
	Converse(opening *Turn, hear func(Hearing)) Duplex
}

// Duplex is a conversation by sound. What is said in it is asked as turns with [Turn.Spoken], one
// after the other. Its methods are safe for concurrent use, and only Close waits.
type Duplex interface {
	// Write adds what the person says, at [HearingRate]. It does not keep the samples.
	Write(samples []int16)
	// Clear drops what the person said since the last turn.
	Clear()
	// FindsTurns reports that the bot finds out when the person has finished.
	FindsTurns() bool
	// Use returns what the conversation has used since the last call.
	Use() Use
	// Close ends the conversation.
	Close()
}

// Use is what a conversation by sound has used of a service.
type Use struct {
	Heard      time.Duration // sound that the service got
	Characters int           // that it spoke
	// Cost is what that costs, in millionths of the currency in which prices are given.
	Cost int64
}

// HearingRate and SpeakingRate are the sample rates of what a person says and of what a bot
// answers, in Hz.
const (
	HearingRate  = 16000
	SpeakingRate = 24000
)

// Hearing is what a bot finds in the sound.
type Hearing int

// What a bot finds.
const (
	SpeechBegan Hearing = iota + 1
	SpeechEnded
)

// Spoken is a turn by sound: the bot answers what was written to the conversation. It emits a
// [KindTranscript] when it knows what the person said, and the texts of its answer when the person
// begins to hear them. When ctx ends, it makes sure that what the person did not hear is not taken
// as said.
type Spoken struct {
	Conversation Duplex
	Playback     Playback
	Manner       Manner
}

// Manner is how a bot speaks to somebody. Zero values mean its own settings.
type Manner struct {
	Voice    string // as the bot's service calls it
	Language string // of the conversation, BCP 47
	Speed    float64
}

// Playback plays an answer.
type Playback interface {
	// Play adds sound of 16 bits, little endian, one channel, at [SpeakingRate]. It does not wait.
	// The error means that nobody wants more.
	Play(sound []byte) error
	// Text adds what the sound from here on says.
	Text(piece string)
	// Fail has the person told of a failure after what is played. It comes before Finish or Stop.
	Fail(f *Failure)
	// Finish marks the end of the answer.
	Finish()
	// Stop drops what was not played.
	Stop()
	// Heard has the texts that the person begins to hear. It is closed when everything was played,
	// or the person interrupted it.
	Heard() <-chan string
	// Played returns how much of the sound the person has heard, and whether that is all. It waits
	// until the playback has ended.
	Played(ctx context.Context) (played time.Duration, whole bool)
}
