package control

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

const (
	msgNotYourRecordings = i18n.Message("only the owner of the device may read and hear what is recorded")
	msgNotYourRecord     = i18n.Message("record: only the owner of the device can change this")
	msgNoRecording       = i18n.Message("There is no recording of that turn, or it was kept for as long as it is to be.")
)

// mayHear reports whether the caller may read and hear what an owner's devices have recorded: the
// owner, and the operator of this machine.
func (c Caller) mayHear(owner string) bool { return c.Person == "" || c.Person == owner }

// RecordingQuery selects recordings of a device. Empty fields select all.
type RecordingQuery struct {
	Device string    `path:"device"`
	Text   string    `query:"text"` // part of the question or the answer
	From   time.Time `query:"from"`
	Until  time.Time `query:"until"` // exclusive
	After  string    `query:"after"` // next of the page before
	Limit  int       `query:"limit"`
}

// Recording is what was said in a turn.
type Recording = store.Recording

// Recordings is a page of what is recorded of a device, newest first.
type Recordings struct {
	Device int64  `json:"device"`
	Name   string `json:"name"`
	// Days is for how long what is said now will be stored; 0: it is not.
	Days       int                  `json:"days"`
	Usage      store.RecordingUsage `json:"usage"` // of all recordings
	Recordings []Recording          `json:"recordings"`
	// Next is the value of after= for the next page; empty on the last page.
	Next string `json:"next,omitempty"`
}

// recordedDevice returns a device whose recordings the caller may hear.
func (s *Service) recordedDevice(ctx context.Context, c Caller, ref string) (store.Device, error) {
	if err := requireUnrestrictedKey(c); err != nil {
		return store.Device{}, err
	}
	d, err := s.FindDevice(ctx, c, ref)
	if err == nil && !c.mayHear(d.Owner) {
		err = problem.New(problem.Denied, msgNotYourRecordings)
	}
	return d, err
}

// Recordings lists what is recorded of a device.
func (s *Service) Recordings(ctx context.Context, c Caller, q RecordingQuery) (p Recordings, err error) {
	d, err := s.recordedDevice(ctx, c, q.Device)
	if err != nil {
		return p, err
	}
	f := store.RecordingFilter{Device: d.Number, Text: q.Text, From: q.From, Until: q.Until}
	if f.After, err = decodeCursor(q.After); err != nil {
		return p, err
	}
	limit, err := pageBounds(q.Limit)
	if err != nil {
		return p, err
	}
	p = Recordings{Device: d.Number, Name: d.Name, Days: recordDays(d.Voice)}
	if p.Usage, err = s.Hub.Store.Recordings.Usage(ctx, d.Number); err != nil {
		return p, err
	}
	p.Recordings, p.Next, err = s.recordingPage(ctx, f, limit)
	return p, err
}

func (s *Service) recordingPage(ctx context.Context, f store.RecordingFilter,
	limit int) (list []store.Recording, next string, err error) {
	if list, err = s.Hub.Store.Recordings.Find(ctx, f, limit+1); err != nil {
		return nil, "", err
	}
	if len(list) > limit {
		list = list[:limit]
		next = encodeCursor(list[limit-1].At, list[limit-1].Turn)
	}
	if list == nil {
		list = []store.Recording{}
	}
	return list, next, nil
}

// recordDays returns for how many days what is said to a device is stored, from its settings.
func recordDays(voice json.RawMessage) int {
	var s struct {
		Record int `json:"record"`
	}
	_ = json.Unmarshal(voice, &s) // unreadable settings count as none
	return s.Record
}

// RemovedRecordings is the response to the deletion of recordings.
type RemovedRecordings struct {
	Removed int64 `json:"removed"`
}

// RemoveRecordings deletes everything that is recorded of a device.
func (s *Service) RemoveRecordings(ctx context.Context, c Caller, in DeviceRef) (r RemovedRecordings, err error) {
	d, err := s.recordedDevice(ctx, c, in.Device)
	if err != nil {
		return r, err
	}
	if r.Removed, err = s.Hub.Store.Recordings.Remove(ctx, d.Number); err != nil {
		return r, err
	}
	s.RecordAdminEvent(ctx, c, EventRecordingsGone, fmt.Sprintf("%s: %d", aboutDevice(d), r.Removed))
	return r, nil
}

// TurnSoundRef identifies a sound of a recorded turn.
type TurnSoundRef struct {
	Turn string `path:"turn"`
	Part string `path:"part"` // question or answer
}

// TurnSound returns a sound of a recorded turn, as Ogg Opus.
func (s *Service) TurnSound(ctx context.Context, c Caller, in TurnSoundRef) ([]byte, error) {
	t, _, err := s.findTurn(ctx, c, in.Turn)
	if err != nil {
		return nil, err
	}
	var sound store.RecordedSound
	if c.mayHear(t.Owner) {
		if sound, err = s.Hub.Store.Recordings.Sound(ctx, t.Turn); err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
	file := map[string][]byte{store.PartQuestion: sound.Question, store.PartAnswer: sound.Answer}[in.Part]
	if len(file) == 0 {
		return nil, problem.New(problem.NotFound, msgNoRecording)
	}
	return file, nil
}

// addRecording adds the recording of a turn to its record, if the caller may hear it.
func (s *Service) addRecording(ctx context.Context, c Caller, d *TurnDetail) error {
	if !c.mayHear(d.Owner) {
		return nil
	}
	r, err := s.Hub.Store.Recordings.ByTurn(ctx, d.Turn)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	d.Recording = &r
	if d.Question == "" && d.Answer == "" {
		d.Question, d.Answer = r.Question, r.Answer
	}
	return nil
}

// recordedTurn is a turn in an archive of recordings.
type recordedTurn struct {
	store.Recording
	QuestionFile string `json:"question_file,omitempty"`
	AnswerFile   string `json:"answer_file,omitempty"`
	Calls        []Call `json:"calls,omitempty"`
}

// recordingsFile is the name of the list in an archive of recordings.
const recordingsFile = "conversations.json"

// ExportRecordings writes what is recorded of a device as a ZIP archive: the sounds, and a list
// with the texts and the calls of tools. It returns the number of turns. The page of q does not
// matter.
func (s *Service) ExportRecordings(ctx context.Context, c Caller, q RecordingQuery,
	w io.Writer) (turns int, err error) {
	d, err := s.recordedDevice(ctx, c, q.Device)
	if err != nil {
		return 0, err
	}
	s.Hub.WaitForCallRecords(ctx)
	z := zip.NewWriter(w)
	list := []recordedTurn{}
	f := store.RecordingFilter{Device: d.Number, Text: q.Text, From: q.From, Until: q.Until}
	for {
		page, next, err := s.recordingPage(ctx, f, recordsMost)
		if err != nil {
			return 0, err
		}
		for _, r := range page {
			t, err := s.exportRecording(ctx, d.Owner, r, z)
			if err != nil {
				return 0, err
			}
			list = append(list, t)
		}
		if next == "" {
			break
		}
		last := page[len(page)-1]
		f.After = store.RecordCursor{At: last.At, ID: last.Turn}
	}
	file, err := z.CreateHeader(&zip.FileHeader{Name: recordingsFile, Method: zip.Deflate, Modified: time.Now()})
	if err != nil {
		return 0, err
	}
	e := json.NewEncoder(file)
	e.SetIndent("", "  ")
	if err := errors.Join(e.Encode(list), z.Close()); err != nil {
		return 0, err
	}
	s.RecordAdminEvent(ctx, c, EventRecordingsRead, fmt.Sprintf("%s: %d", aboutDevice(d), len(list)))
	return len(list), nil
}

// exportRecording writes the sounds of a turn.
func (s *Service) exportRecording(ctx context.Context, owner string, r store.Recording,
	z *zip.Writer) (t recordedTurn, err error) {
	t.Recording = r
	calls, err := s.Hub.Store.Calls.ByTurn(ctx, r.Turn)
	if err != nil {
		return t, err
	}
	if t.Calls, err = s.callsOf(ctx, calls, owner); err != nil {
		return t, err
	}
	sound, err := s.Hub.Store.Recordings.Sound(ctx, r.Turn)
	if errors.Is(err, store.ErrNotFound) { // it was deleted meanwhile
		return t, nil
	} else if err != nil {
		return t, err
	}
	name := r.At.UTC().Format("20060102-150405.000-")
	for _, part := range []struct {
		file *string
		name string
		data []byte
	}{{&t.QuestionFile, store.PartQuestion, sound.Question}, {&t.AnswerFile, store.PartAnswer, sound.Answer}} {
		if len(part.data) == 0 {
			continue
		}
		*part.file = name + part.name + ".ogg"
		// Sound is compressed already.
		file, err := z.CreateHeader(&zip.FileHeader{Name: *part.file, Method: zip.Store, Modified: r.At})
		if err != nil {
			return t, err
		}
		if _, err := file.Write(part.data); err != nil {
			return t, err
		}
	}
	return t, nil
}
