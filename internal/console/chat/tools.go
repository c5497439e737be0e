package chat

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/console/toolwords"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
	"patchbay/internal/toolbox"
)

// usedTool is a tool that the bot called for an answer.
type usedTool struct {
	id      string
	Name    string // for people
	Tool    string // its identifier
	Running bool
	Failed  bool
	Began   time.Time
	Took    time.Duration
	Args    string // as far as kept
	Result  string // what the bot got of it; only while the page is open
	Cause   string
}

// recordedTools returns the calls in the records.
func recordedTools(v *page.Visit, calls []control.Call) (list []usedTool) {
	for _, c := range calls {
		list = append(list, usedTool{id: c.ID, Name: toolName(v, c.Title, c.Kind, c.Tool), Tool: c.Tool, Began: c.At,
			Took: c.Took, Args: c.Args, Failed: c.Outcome != "done" && c.Outcome != "asked", Cause: c.Cause})
	}
	return list
}

func toolName(v *page.Visit, title, kind, name string) string {
	return cmp.Or(toolwords.Own(v.Lang, kind, title), name)
}

// toolWatch collects what a bot calls while it answers.
type toolWatch struct {
	v       *page.Visit
	bot     store.Bot
	changed chan struct{} // holds one value after a change

	mu    sync.Mutex
	tools []usedTool
}

func newToolWatch(v *page.Visit, b store.Bot) *toolWatch {
	return &toolWatch{v: v, bot: b, changed: make(chan struct{}, 1)}
}

const (
	// maxUsed limits the calls that are shown. A model calls less.
	maxUsed = 200
	// maxArgs limits the arguments of a call that are shown, in bytes, as much as of its result.
	maxArgs = talk.MaxToolResult
)

// use is the UsesTool of a turn.
func (w *toolWatch) use(u talk.ToolUse) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.IndexFunc(w.tools, func(t usedTool) bool { return t.id == u.ID })
	switch {
	case at < 0 && len(w.tools) < maxUsed:
		title, kind := w.v.Instance.Control.ToolTitle(w.v.Caller().Person, u.Name)
		w.tools = append(w.tools, usedTool{id: u.ID, Tool: u.Name,
			Args: toolbox.Truncate(string(u.Args), maxArgs), Running: true, Began: time.Now(),
			Name: toolName(w.v, title, kind, u.Name)})
	case at >= 0 && u.Ended:
		t := &w.tools[at]
		t.Running, t.Failed, t.Result, t.Took = false, u.Failed, u.Result, time.Since(t.Began)
	}
	select {
	case w.changed <- struct{}{}:
	default: // a change is announced already
	}
}

// list returns the calls so far.
func (w *toolWatch) list() []usedTool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.tools)
}
