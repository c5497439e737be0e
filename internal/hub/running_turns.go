package hub

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// runningTurnsFolder has a folder for each process, with the turns that it answers and a file that
// it has locked.
const runningTurnsFolder, runningLock = "turns.running", "lock"

// runningTurn is a turn that is being answered, as it will be if the process is killed.
type runningTurn struct {
	Trace    store.Trace `json:"trace"`
	Question string      `json:"question"` // as the history has it
	Lang     i18n.Lang   `json:"lang"`
	UserID   string      `json:"user_id,omitempty"`
	AgentID  string      `json:"agent_id,omitempty"`
}

// runningTurns keeps the turns that are being answered: each in a file of a folder that the process
// has locked. They are not synced, so a power cut can lose them.
type runningTurns struct {
	log     *slog.Logger
	folder  string   // of this process; empty: nothing is kept
	lock    *os.File // keeps other processes from taking the turns for cut ones
	failing atomic.Bool

	mu  sync.Mutex
	cut map[string]runningTurn // turns of killed processes whose answer may still come
}

// openRunningTurns passes the traces of killed processes' turns to save, and removes the turns
// whose traces it takes.
func openRunningTurns(folder string, log *slog.Logger, save func(store.Trace) error) *runningTurns {
	t := &runningTurns{log: log, cut: map[string]runningTurn{}}
	if folder == "" {
		return t
	}
	all := filepath.Join(folder, runningTurnsFolder)
	list, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Error("turns that a killed server did not end cannot be listed", "error", err)
	}
	for _, d := range list {
		if err := t.recover(filepath.Join(all, d.Name()), save); err != nil {
			log.Error("turns that a killed server did not end stay for the next start", "error", err)
		}
	}
	if err := t.open(all); err != nil {
		log.Error("turns leave no trace if the server is killed", "error", err)
	}
	return t
}

// open makes and locks a folder for the turns of this process.
func (t *runningTurns) open(all string) error {
	for range 3 { // another process that starts may take a new folder for one of a killed process
		mine := filepath.Join(all, uuid.NewString())
		if err := os.MkdirAll(mine, 0o700); err != nil {
			return err
		}
		lock, err := lockFile(filepath.Join(mine, runningLock), true)
		switch {
		case lock != nil:
			t.folder, t.lock = mine, lock
			return nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			os.RemoveAll(mine) //nolint:errcheck // nothing is in it
			return err
		}
	}
	return errors.New("other processes took each new folder")
}

// recover passes the traces in the folder of a killed process to save. It does nothing if the
// process lives.
func (t *runningTurns) recover(folder string, save func(store.Trace) error) error {
	lock, err := lockFile(filepath.Join(folder, runningLock), true)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Close()
	files, err := turnFiles(folder)
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var was runningTurn
		if json.Unmarshal(text, &was) != nil || was.Trace.Turn == "" {
			t.log.Warn("a turn that a killed server did not end cannot be read", "file", file)
		} else if err := save(was.Trace); err != nil {
			return err
		} else {
			t.cut[was.Trace.Turn] = was
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if len(files) > 0 {
		t.log.Warn("a server was killed while it answered; the turns are in the records as lost", "turns", len(files))
	}
	return os.RemoveAll(folder)
}

// turnFiles returns the turns of a folder.
func turnFiles(folder string) (files []string, err error) {
	list, err := os.ReadDir(folder)
	for _, f := range list {
		if strings.HasSuffix(f.Name(), ".json") {
			files = append(files, filepath.Join(folder, f.Name()))
		}
	}
	return files, err
}

// begin keeps a turn until end.
func (t *runningTurns) begin(now runningTurn) {
	if t.folder == "" {
		return
	}
	text, err := json.Marshal(now)
	if err == nil {
		err = os.WriteFile(t.file(now.Trace.Turn), text, 0o600)
	}
	if was := t.failing.Swap(err != nil); err != nil && !was {
		t.log.Error("turns leave no trace if the server is killed", "error", err)
	}
}

// end forgets a turn whose end is stored.
func (t *runningTurns) end(turn string) {
	if t.folder != "" {
		os.Remove(t.file(turn)) //nolint:errcheck // if it stays, its end is stored and holds
	}
}

func (t *runningTurns) file(turn string) string {
	return filepath.Join(t.folder, filepath.Base(turn)+".json")
}

// close removes the folder. What has not ended stays for the next start.
func (t *runningTurns) close() {
	if t.folder == "" {
		return
	}
	if left, err := turnFiles(t.folder); err == nil && len(left) == 0 {
		os.RemoveAll(t.folder) //nolint:errcheck // the next start does it
	}
	t.lock.Close()
}

// causeKilled is the cause in the trace of a turn that was cut off.
const causeKilled = "The server was killed during the answer."

// beginRunning keeps what the trace of the turn is if the process is killed.
func (r *run) beginRunning() {
	r.mu.Lock()
	now := runningTurn{Trace: r.silentTrace(outcomeFailed, talk.Lost, causeKilled), Question: r.question(),
		Lang: r.turn.Lang, UserID: r.turn.UserID, AgentID: r.turn.AgentID}
	r.mu.Unlock()
	r.hub.runningTurns.begin(now)
}

// ResumeCut returns a turn that was cut off because the server was killed, if its bot goes on with
// the answer, and what stores the answer, to be told at the asker's next turn. Finish is called
// once, with the part of the answer that came after the cut; it is nil if there is no such turn.
// The turns are known until this process stops.
func (h *Hub) ResumeCut(bot int64, turn string) (asked *talk.Turn, finish func(answer string, err error)) {
	t := h.runningTurns
	t.mu.Lock()
	defer t.mu.Unlock()
	was, ok := t.cut[turn]
	tr := was.Trace
	if !ok || tr.Bot != bot || tr.Person == "" {
		return nil, nil
	}
	delete(t.cut, turn)
	asked = &talk.Turn{ID: tr.Turn, Bot: tr.Bot, Channel: tr.Channel, Person: tr.Person, Asker: tr.Asker,
		Conversation: tr.Conversation, UserID: was.UserID,
		AgentID: was.AgentID, Lang: was.Lang, Parts: []talk.Part{{Text: was.Question}}}
	return asked, func(answer string, err error) { h.finishCut(was, asked, answer, err) }
}

// finishCut stores the rest of an answer that was cut off.
func (h *Hub) finishCut(was runningTurn, asked *talk.Turn, answer string, err error) {
	tr := was.Trace
	end := &turnEnd{Late: &lateEnd{Turn: tr.Turn, After: h.Now().Sub(tr.At)}}
	if err != nil || answer == "" {
		h.Logger.Info("the rest of an answer that was cut off did not come", "turn", tr.Turn, "bot", tr.Bot,
			"cause", err)
	} else {
		if tr.Question != "" { // its content is kept
			end.Late.Answer = answer
		}
		end.Exchange = &store.Exchange{Turn: tr.Turn, Bot: tr.Bot, Person: tr.Person, Conversation: tr.Conversation,
			At: tr.At, Question: was.Question, Answer: answer, Undelivered: true}
	}
	if h.turnJournal.save(end) != nil || end.Exchange == nil { // a failure has been logged
		return
	}
	h.records.notify()
	if bot, err := h.Store.Bots.ByNumber(h.ctx, tr.Bot); err == nil {
		h.pushLate(bot, Late{asked, answer})
	}
}

// saveCut stores the trace of a turn that was cut off, unless its end waits to be stored.
func (e *turnJournal) saveCut(tr store.Trace) error {
	waiting, err := filepath.Glob(filepath.Join(e.folder, "*-"+filepath.Base(tr.Turn)+".json"))
	if err != nil || len(waiting) > 0 {
		return nil // the end holds
	}
	return e.save(&turnEnd{Trace: &tr})
}
