package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// runningTurnsFolder has a folder for each process, with the turns that it answers and a file that
// it has locked.
const runningTurnsFolder, runningLock = "turns.running", "lock"

// cutRetention is how long the rest of an answer that was cut off is waited for. Bots do not keep
// it longer either.
const cutRetention = 15 * time.Minute

// resumePause is the pause before a bot is looked for again when the database has failed.
const resumePause = 5 * time.Second

// runningTurn is a turn that is being answered, as it will be if the process is killed.
type runningTurn struct {
	Trace    store.Trace `json:"trace"`
	Question string      `json:"question"` // as the history has it
	Lang     i18n.Lang   `json:"lang"`
	UserID   string      `json:"user_id,omitempty"`
	AgentID  string      `json:"agent_id,omitempty"`
	ActsFor  string      `json:"acts_for,omitempty"`
	// Resumes means that the bot may go on with the answer when the server has ended.
	Resumes bool `json:"resumes,omitempty"`

	runningState
}

// turn returns the turn as far as it is kept.
func (was *runningTurn) turn() *talk.Turn {
	tr := was.Trace
	return &talk.Turn{ID: tr.Turn, Bot: tr.Bot, Channel: tr.Channel, Person: tr.Person, Asker: tr.Asker,
		ActsFor:      was.ActsFor,
		Conversation: tr.Conversation, UserID: was.UserID, AgentID: was.AgentID, Lang: was.Lang,
		Parts: []talk.Part{{Text: was.Question}}}
}

// runningState is what has happened in a turn.
type runningState struct {
	Mark      int64     `json:"mark,omitempty"`      // of the last text, see [talk.Cut]
	Untold    string    `json:"untold,omitempty"`    // text that nobody has heard
	Complete  bool      `json:"complete,omitempty"`  // the bot has emitted all of its answer
	Delivered []string  `json:"delivered,omitempty"` // turns whose late answers were told in this one
	CutAt     time.Time `json:"cut_at,omitzero"`     // when it was recorded as cut off
}

// runningChange is what happens in a turn: a line of its file.
type runningChange struct {
	runningState
	Told bool `json:"told,omitempty"` // somebody has heard everything now
}

// apply adds a change.
func (s *runningState) apply(c runningChange) {
	if c.Told {
		s.Untold = ""
	}
	if c.Mark > 0 {
		s.Mark = c.Mark
	}
	s.Untold += c.Untold
	s.Complete = s.Complete || c.Complete
	s.Delivered = append(s.Delivered, c.Delivered...)
	if !c.CutAt.IsZero() {
		s.CutAt = c.CutAt
	}
}

// parseRunning parses the file of a turn: the turn, and then its changes. A change that was being
// written when the process was killed is not one.
func parseRunning(text []byte) (was runningTurn, ok bool) {
	for i, line := range bytes.Split(text, []byte("\n")) {
		var c runningChange
		switch {
		case i == 0:
			if json.Unmarshal(line, &was) != nil || was.Trace.Turn == "" {
				return was, false
			}
		case json.Unmarshal(line, &c) == nil:
			was.apply(c)
		}
	}
	return was, true
}

// runningTurns keeps the turns that are being answered: each in a file of a folder that the process
// has locked. They are not synced, so a power cut can lose them.
type runningTurns struct {
	log     *slog.Logger
	folder  string   // of this process; empty: nothing is kept
	lock    *os.File // keeps other processes from taking the turns for cut ones
	failing atomic.Bool

	mu  sync.Mutex
	cut map[string]runningTurn // turns of processes that have ended, whose answer may still come
}

// openRunningTurns passes what ended processes have left of their turns to save, and keeps those
// whose answer may still come.
func openRunningTurns(folder string, log *slog.Logger, save func(runningTurn) error) *runningTurns {
	t := &runningTurns{log: log, cut: map[string]runningTurn{}}
	if folder == "" {
		return t
	}
	all := filepath.Join(folder, runningTurnsFolder)
	list, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Error("turns that a killed server did not end cannot be listed", "error", err)
	}
	if err := t.open(all); err != nil {
		log.Error("turns leave no trace if the server is killed", "error", err)
	}
	for _, d := range list {
		if err := t.recover(filepath.Join(all, d.Name()), save); err != nil {
			log.Error("turns that a killed server did not end stay for the next start", "error", err)
		}
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

// recover passes the turns in the folder of a process that has ended to save, and takes those whose
// answer may still come. It does nothing if the process lives.
func (t *runningTurns) recover(folder string, save func(runningTurn) error) error {
	lock, err := lockFile(filepath.Join(folder, runningLock), true)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Close()
	files, err := turnFiles(folder)
	if err != nil {
		return err
	}
	killed := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		was, ok := parseRunning(text)
		if !ok {
			t.log.Warn("a turn that a killed server did not end cannot be read", "file", file)
		} else if err := save(was); err != nil {
			return err
		}
		if was.CutAt.IsZero() {
			killed++
			was.CutAt = time.Now()
		}
		if ok && was.Resumes && !was.Complete && was.Trace.Person != "" && time.Since(was.CutAt) < cutRetention {
			t.cut[was.Trace.Turn] = was
			t.begin(was)
		}
		if err := os.Remove(file); err != nil {
			return err
		}
	}
	if killed > 0 {
		t.log.Warn("a server was killed while it answered; the turns are in the records as lost", "turns", killed)
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

// change keeps what happens in a turn. It does nothing if the turn is not kept.
func (t *runningTurns) change(turn string, c runningChange) {
	if t.folder == "" {
		return
	}
	f, err := os.OpenFile(t.file(turn), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return // it is not certain yet, or has ended
	}
	defer f.Close()
	text, err := json.Marshal(c)
	if err == nil {
		_, err = f.Write(append([]byte("\n"), text...))
	}
	if err != nil && !t.failing.Swap(true) {
		t.log.Error("what happens in turns is lost if the server is killed", "error", err)
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
	k, _ := r.hub.Registry.Kind(r.bot.Kind) //nolint:errcheck // the turn fails
	r.mu.Lock()
	now := runningTurn{Trace: r.silentTrace(outcomeFailed, talk.Lost, causeKilled), Question: r.question(),
		Lang: r.turn.Lang, UserID: r.turn.UserID, AgentID: r.turn.AgentID, ActsFor: r.turn.ActsFor,
		Resumes: k.Resumes}
	r.mu.Unlock()
	r.hub.runningTurns.begin(now)
}

// keep keeps what has happened in the turn.
func (r *run) keep(c runningChange) { r.hub.runningTurns.change(r.turn.ID, c) }

// endRunning forgets the turn, unless it was cut off because the server stops: its bot may go on.
func (r *run) endRunning() {
	k, _ := r.hub.Registry.Kind(r.bot.Kind) //nolint:errcheck // the turn has failed
	if r.failure != nil && k.Resumes && errors.Is(context.Cause(r.hub.ctx), ErrStopping) {
		r.keep(runningChange{runningState: runningState{CutAt: time.Now()}})
		return
	}
	r.hub.runningTurns.end(r.turn.ID)
}

// cutRef identifies a turn that was cut off.
type cutRef struct {
	Bot  int64  `json:"bot"`
	Turn string `json:"turn"`
}

// takeCut returns a turn that was cut off, once.
func (t *runningTurns) takeCut(ref cutRef) (was runningTurn, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if was, ok = t.cut[ref.Turn]; !ok || was.Trace.Bot != ref.Bot {
		return was, false
	}
	delete(t.cut, ref.Turn)
	return was, true
}

// findCut returns a turn that was cut off from this instance or, as its bot may have connected
// elsewhere since, from another one.
func (h *Hub) findCut(ref cutRef) (was runningTurn, ok bool) {
	if was, ok = h.runningTurns.takeCut(ref); ok {
		return was, true
	}
	reports, _ := h.activeTurns.queryPeers(h.ctx, inquiry{Cut: &ref}, reportTimeout)
	for _, r := range reports {
		if r.Cut != nil {
			h.runningTurns.begin(*r.Cut)
			return *r.Cut, true
		}
	}
	return was, false
}

// ResumeCut returns a turn that was cut off because the server ended, if its bot may go on with the
// answer; else nil. It returns each turn once, on one instance. It waits for other instances, a
// second at most.
func (h *Hub) ResumeCut(bot int64, turn string) *talk.Cut {
	was, ok := h.findCut(cutRef{bot, turn})
	if !ok {
		return nil
	}
	return &talk.Cut{
		Turn: was.turn(),
		Mark: was.Mark,
		Keep: func(text string, mark int64) {
			c := runningChange{runningState: runningState{Mark: mark, Untold: text}}
			was.apply(c)
			h.runningTurns.change(turn, c)
		},
		End: func(err error) { h.finishCut(was, err) },
	}
}

// ResumeCuts has the bots that find out by themselves how their answers went on do so, until ctx
// ends.
func (h *Hub) ResumeCuts(ctx context.Context) error {
	t := h.runningTurns
	t.mu.Lock()
	list := slices.Collect(maps.Values(t.cut))
	t.mu.Unlock()
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() {
		if netx.Wait(ctx, cutRetention) == nil {
			h.dropCuts()
		}
	})
	for _, was := range list {
		work.Go(func() {
			waiting, cancel := context.WithTimeout(ctx, cutRetention)
			by, err := h.resumer(waiting, was.Trace)
			for err != nil && netx.Wait(waiting, resumePause) == nil {
				by, err = h.resumer(waiting, was.Trace)
			}
			cancel()
			if by != nil {
				if c := h.ResumeCut(was.Trace.Bot, was.Trace.Turn); c != nil {
					by.Resume(ctx, c)
				}
			}
		})
	}
	return nil
}

// dropCuts forgets the answers whose rest has not come.
func (h *Hub) dropCuts() {
	t := h.runningTurns
	t.mu.Lock()
	left := slices.Collect(maps.Values(t.cut))
	clear(t.cut)
	t.mu.Unlock()
	for _, was := range left {
		h.finishCut(was, errNoRest)
	}
}

var errNoRest = errors.New("its bot has not gone on with it")

// resumer returns the bot of a turn if it finds out by itself how the answer went on, or nil. An
// error is one of the database.
func (h *Hub) resumer(ctx context.Context, tr store.Trace) (talk.Resumer, error) {
	bot, err := h.Store.Bots.ByNumber(ctx, tr.Bot)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if k, err := h.Registry.Kind(bot.Kind); err != nil || k.Inbound {
		return nil, nil //nolint:nilerr // such a bot cannot be built
	}
	var c Common
	if err := h.Registry.Settings(bot, &c); err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	at, err := h.target(ctx, bot, c, nil)
	if s, here := at.(*slot); err == nil && here {
		by, _ := s.bot.(talk.Resumer)
		return by, nil
	}
	return nil, nil //nolint:nilerr // it is elsewhere, or cannot be asked
}

// finishCut stores the rest of an answer that was cut off.
func (h *Hub) finishCut(was runningTurn, err error) {
	tr := was.Trace
	if err != nil || was.Untold == "" {
		h.Logger.Info("the rest of an answer that was cut off did not come", "turn", tr.Turn, "bot", tr.Bot,
			"cause", err)
		was.Untold = ""
	}
	end := was.lateEnd(h.Now())
	h.addRest(end)
	if h.turnJournal.save(end) != nil { // it has been logged
		return
	}
	h.runningTurns.end(tr.Turn)
	if end.Exchange == nil {
		return
	}
	h.records.notify()
	if bot, err := h.Store.Bots.ByNumber(h.ctx, tr.Bot); err == nil {
		turn := was.turn()
		turn.ID = end.Exchange.Turn
		h.pushLate(bot, Late{turn, was.Untold})
	}
}

// restSuffix follows the id of a turn in that of the exchange with the rest of its answer.
const restSuffix = "-rest"

// addRest keeps what is stored of an answer that was cut off: the rest is told by an exchange of
// its own, and follows it in the record.
func (h *Hub) addRest(end *turnEnd) {
	x := end.Exchange
	if x == nil {
		return
	}
	ctx, cancel := context.WithTimeout(h.ctx, saveTimeout)
	defer cancel()
	if tr, err := h.Store.Traces.ByTurn(ctx, x.Turn); err == nil && end.Late.Answer != "" {
		end.Late.Answer = tr.Answer + end.Late.Answer
	}
	if _, err := h.Store.Conversations.ByTurn(ctx, x.Turn); err == nil {
		x.Turn += restSuffix
		x.Question = ""
	}
}

// lateEnd returns the end of a turn that was cut off, with what is told at the next turn.
func (was *runningTurn) lateEnd(now time.Time) *turnEnd {
	tr := was.Trace
	end := &turnEnd{Late: &lateEnd{Turn: tr.Turn, After: now.Sub(tr.At)}}
	if was.Untold == "" {
		return end
	}
	if tr.Question != "" { // its content is kept
		end.Late.Answer = was.Untold
	}
	end.Exchange = &store.Exchange{Turn: tr.Turn, Bot: tr.Bot, Person: tr.Person, Conversation: tr.Conversation,
		At: tr.At, Question: was.Question, Answer: was.Untold, Undelivered: true, ActsFor: was.ActsFor}
	return end
}

// saveCut stores the trace of a turn that was cut off, unless its end waits to be stored, and an
// answer that was complete and that nobody has heard.
func (e *turnJournal) saveCut(was runningTurn) error {
	if !was.CutAt.IsZero() {
		return nil // it is stored
	}
	waiting, err := filepath.Glob(filepath.Join(e.folder, "*-"+filepath.Base(was.Trace.Turn)+".json"))
	if err != nil || len(waiting) > 0 {
		return nil // the end holds
	}
	if err := e.save(&turnEnd{Trace: &was.Trace, Delivered: was.Delivered}); err != nil {
		return err
	}
	if was.Complete && was.Untold != "" && was.Trace.Person != "" {
		return e.save(was.lateEnd(time.Now()))
	}
	return nil
}
