// Package engine defines what speech engines do: listeners turn speech into text, speakers turn
// text into speech. The packages below engines implement them, one per wire protocol.
//
// An engine that takes whole utterances only is a [Listener] by [ListenOnce], and one that takes
// whole sentences only is a [Speaker] by [SpeakOnce]. A [Chain] uses several engines, one after the
// other when they fail.
package engine

import (
	"context"
	"io"
	"time"
)

// Rate is the sample rate of the sound that listeners get, in Hz.
const Rate = 16000

// MaxUtterance limits what a listener gets at once. Whoever detects the end of speech stops earlier
// (endpoint.Options.MaxSpeech).
const MaxUtterance = 60 * time.Second

// MaxTranscript limits a transcript, in bytes: ten times what anybody says in MaxUtterance.
const MaxTranscript = 16 << 10

// MaxClip limits the sound of one sentence, in bytes: two minutes of PCM at 24 kHz.
const MaxClip = 6 << 20

// Engine is a configured speech engine. Listener or Speaker is nil if it cannot do that.
type Engine struct {
	Listener Listener
	Speaker  Speaker
	// NeedsWords reports that the speaker reads numbers badly, and should get them in words.
	NeedsWords bool
	// Release closes connections that wait for their next use, and waits for them. It is called
	// when the engine is no longer used; nil: none wait.
	Release func()
}

// Close calls Release.
func (e Engine) Close() {
	if e.Release != nil {
		e.Release()
	}
}

// Hints help a listener. All are optional.
type Hints struct {
	Language string   // BCP 47, such as zh or en-US; empty: the engine finds out
	Words    []string // names that are likely to be said
}

// Transcript is what was said.
type Transcript struct {
	Text string
	// Final reports that the text will not change any more. Earlier transcripts replace each other.
	Final bool
	// Language, BCP 47, and Emotion are empty unless the engine reports them.
	Language, Emotion string
	// Billed is how much sound the engine bills so far; 0: it does not tell.
	Billed time.Duration
}

// Listener turns speech into text. It is safe for concurrent use.
type Listener interface {
	// Listen begins an utterance, which ends with ctx at the latest. The error is an [*Error], or
	// that of ctx.
	Listen(ctx context.Context, h Hints) (Utterance, error)
}

// Utterance is speech that is being recognised. One goroutine calls Write and Finish, one calls
// Next; both may be the same.
type Utterance interface {
	// Write adds samples at [Rate]. It does not keep them. After an error, Next returns it too.
	Write(samples []int16) error
	// Finish marks the end of the speech.
	Finish() error
	// Next waits for a transcript. After the final one its error is io.EOF. Other errors are
	// [*Error], or that of the context.
	Next() (Transcript, error)
	// Close ends the utterance and releases its resources. It is called once, after all other
	// calls have returned or while Next waits.
	Close()
}

// Manner is how something is said. Zero values mean the engine's settings.
type Manner struct {
	Voice    string
	Language string  // BCP 47
	Speed    float64 // 1 is normal
}

// Format is the encoding of a [Clip].
type Format int

// The formats.
const (
	OggOpus Format = iota + 1
	WAV
	PCM // 16 bits, little endian, one channel
	MP3
)

// FormatOf returns the format of a sound that begins with some bytes; 4 are enough. It is 0 if they
// are of none, as those of PCM are.
func FormatOf(head []byte) Format {
	switch {
	case len(head) < 4:
	case string(head[:4]) == "OggS":
		return OggOpus
	case string(head[:4]) == "RIFF":
		return WAV
	case string(head[:3]) == "ID3", isMP3Frame(head):
		return MP3
	}
	return 0
}

// isMP3Frame reports whether a header is that of a frame of layer III: 11 bits of 1, and no
// reserved version, bit rate or sample rate (ISO/IEC 11172-3, 2.4.1.3).
func isMP3Frame(head []byte) bool {
	return head[0] == 0xff && head[1]&0xe0 == 0xe0 && head[1]&0x18 != 0x08 && head[1]&0x06 == 0x02 &&
		head[2]&0xf0 != 0xf0 && head[2]&0x0c != 0x0c
}

// Clip is a piece of speech.
type Clip struct {
	// Text is what the sound says; empty: more of the clip before.
	Text   string
	Format Format
	Rate   int // of PCM, in Hz
	// Sound ends with io.EOF after at most [MaxClip] bytes. Other errors are [*Error], or that of
	// the context. Whoever gets the clip closes it.
	Sound io.ReadCloser
}

// Speaker turns text into speech. It is safe for concurrent use.
type Speaker interface {
	// Speak begins to speak, and ends with ctx at the latest. The error is an [*Error], or that of
	// ctx.
	Speak(ctx context.Context, m Manner) (Speech, error)
}

// Streamer is a [Speaker] that takes a text while it is written, in any parts: they cost no more
// time or money than whole sentences.
type Streamer interface{ Streams() }

// Speech is text that is being spoken. One goroutine calls Write and Finish, one calls Next; both
// may be the same.
type Speech interface {
	// Write adds a sentence, or a clause of one. It waits while the engine is more than a few
	// sentences ahead of Next.
	Write(text string) error
	// Finish marks the end of the text.
	Finish() error
	// Next waits for a clip. The clip before has to be closed. After the last clip its error is
	// io.EOF. Other errors are [*Error], or that of the context.
	Next() (Clip, error)
	// Close stops speaking and releases its resources. It is called once, after all other calls
	// have returned or while Write or Next waits.
	Close()
}
