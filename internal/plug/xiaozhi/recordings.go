package xiaozhi

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/store"
	"patchbay/internal/voice/ogg"
	"patchbay/internal/voice/opus"
)

// What is said to a board whose owner wants it recorded is stored with the record of the turn: the
// packets of the question as they came, and those of the answer that were sent.

const (
	// maxRecordedQuestion and maxRecordedAnswer limit the sounds of a recording. The rest of a
	// longer one is left out.
	maxRecordedQuestion, maxRecordedAnswer = time.Minute, 5 * time.Minute
	// maxPage is what a [soundFile] may still have to write when it is full, in bytes.
	maxPage = 128 << 10
	// maxKeeping limits the recordings that are being stored, each of which takes up to 4 MiB of
	// memory. More are dropped, and counted: no conversation waits for one.
	maxKeeping = 16
	// keepLimit is how long the database may fail until a recording is dropped.
	keepLimit = 30 * time.Second
)

const msgRecorded = i18n.Message("This conversation is recorded.")

// soundFile is a sound that is recorded, as Ogg Opus. Nil is not recorded. It is safe for
// concurrent use.
type soundFile struct {
	mu     sync.Mutex
	limit  time.Duration
	file   bytes.Buffer
	writer *ogg.Writer
}

func newSoundFile(rate int, limit time.Duration) *soundFile {
	f := &soundFile{limit: limit}
	o := ogg.WriterOptions{Channels: 1, InputRate: max(rate, 0), Vendor: "patchbay"}
	f.writer, _ = ogg.NewWriter(&f.file, o) // the options are valid
	return f
}

// add adds a packet, which it does not keep.
func (f *soundFile) add(packet []byte) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writer.Length() < f.limit && f.file.Len() < store.MaxRecordedSound-maxPage {
		_ = f.writer.Write(packet) // fails only after close
	}
}

// close returns the file and its length. It is empty if there is no sound.
func (f *soundFile) close() ([]byte, time.Duration) {
	if f == nil {
		return nil, 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	length := f.writer.Length()
	if length == 0 || f.writer.Close() != nil {
		return nil, 0
	}
	return f.file.Bytes(), length
}

// questionSound is the sound of a question in packets, from a moment before speech was detected. It
// is used by one goroutine.
type questionSound struct {
	recent [][]byte // the last packets before the question, at most preroll
	length time.Duration
	file   *soundFile // nil: no question is recorded
}

// hear takes a packet, which it does not keep.
func (s *questionSound) hear(packet []byte) {
	if s.file != nil {
		s.file.add(packet)
		return
	}
	var memory []byte
	s.length += opus.Duration(packet)
	for s.length > preroll && len(s.recent) > 0 {
		memory = s.recent[0]
		s.length -= opus.Duration(memory)
		s.recent = s.recent[:copy(s.recent, s.recent[1:])]
	}
	s.recent = append(s.recent, append(memory[:0], packet...))
}

// record records a question that has begun.
func (s *questionSound) record(rate int) {
	s.file = newSoundFile(rate, maxRecordedQuestion)
	for _, packet := range s.recent {
		s.file.add(packet)
	}
}

// end returns the question so far, nil if it is not recorded, and forgets it.
func (s *questionSound) end() *soundFile {
	f := s.file
	s.recent, s.length, s.file = s.recent[:0], 0, nil
	return f
}

// turnRecording is a turn that is recorded.
type turnRecording struct {
	days             int
	question, answer *soundFile // question is nil if nobody spoke
}

// recordedSource is a source whose packets are recorded when they are sent.
type recordedSource interface{ recording() *soundFile } // nil: they are not

// recording begins to record a turn if the board's owner wants that. It returns nil otherwise.
func (c *Conversation) recording(s VoiceSettings) *turnRecording {
	if s.Record == 0 {
		return nil
	}
	c.tellRecorded(s)
	return &turnRecording{days: s.Record, answer: newSoundFile(c.output.SampleRate, maxRecordedAnswer)}
}

// tellRecorded shows that the conversation is recorded, once, if it is. Boards show this text in
// any state (xiaozhi-esp32 main/application.cc, Application::InitializeProtocol), without a sound.
func (c *Conversation) tellRecorded(s VoiceSettings) {
	if s.Record != 0 && !c.toldRecorded.Swap(true) {
		_ = c.ShowText(msgRecorded.In(c.Lang())) // the reader notices a broken connection
	}
}

// keep stores the recording of a turn that is over, with the texts of both sides. It waits for the
// database.
func (r *turnRecording) keep(c *Conversation, turn, question, answer string) {
	if r == nil || turn == "" {
		return
	}
	row := store.Recording{Turn: turn, Device: c.board.number, Question: question, Answer: answer,
		Expires: time.Now().AddDate(0, 0, r.days)}
	var sound store.RecordedSound
	sound.Question, row.QuestionLength = r.question.close()
	sound.Answer, row.AnswerLength = r.answer.close()
	h := c.board.boards
	h.metrics.recordings.WithLabelValues(h.keepRecording(row, sound)).Inc()
}

// keepRecording stores a recording, and returns what became of it.
func (h *Boards) keepRecording(r store.Recording, sound store.RecordedSound) (outcome string) {
	select {
	case h.keeping <- struct{}{}:
		defer func() { <-h.keeping }()
	default:
		return "dropped"
	}
	began, backoff := time.Now(), netx.Backoff{First: 200 * time.Millisecond, Max: 5 * time.Second}
	for {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(h.ctx), databaseTimeout)
		err := h.Store.Recordings.Add(ctx, r, sound)
		cancel()
		switch {
		case err == nil:
			return "kept"
		case errors.Is(err, store.ErrNotFound): // the turn was refused, or its record deleted
			return "no_turn"
		case time.Since(began) > keepLimit || netx.Wait(h.ctx, backoff.Next()) != nil:
			h.Logger.Warn("a recording was not stored", "device", r.Device, "turn", r.Turn, "error", err)
			return "dropped"
		}
	}
}
