package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"

	"patchbay/internal/account"
	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/netx"
	"patchbay/internal/tool"
)

// A call whose client speaks the extension io.modelcontextprotocol/tasks becomes a task if it does
// not end within Options.TaskAfter: the client gets a handle instead of the result, and fetches the
// result later (github.com/modelcontextprotocol/ext-tasks, specification/draft/tasks.md). The task
// is in the memory of the instance that runs the call. Its id is sealed and names the instance, the
// call and the caller, so that any instance can answer for it (task_ids.go).

// tasksExtension is the name of the extension.
const tasksExtension = "io.modelcontextprotocol/tasks"

const (
	// defaultTaskAfter is how long a client waits for the result itself.
	defaultTaskAfter = 500 * time.Millisecond
	// defaultTaskTTL is how long a task exists, from its creation. A person has to answer its
	// questions within that time. fetchedTTL is how long one that has ended stays after its
	// end has been told, in case that was lost on the way.
	defaultTaskTTL = time.Hour
	fetchedTTL     = 5 * time.Minute
	// maxTasks limits the tasks of this instance, and maxTasksPerKey those of one key, ended ones
	// included. At the limit, calls are answered directly, as for other clients.
	maxTasks, maxTasksPerKey = 4096, 100
	// maxTaskBytes limits the results that are kept, and maxTaskBytesPerKey those of one key.
	maxTaskBytes, maxTaskBytesPerKey = 128 << 20, 32 << 20
	// Clients are told to poll after a quarter of the time that the call has taken so far, within
	// these bounds.
	minPoll, maxPoll = 500 * time.Millisecond, 5 * time.Second
	// maxTaskMessage limits the text about the progress of a task.
	maxTaskMessage = 300
	// againDelay is the delay before a call is repeated whose provider wants that without an answer
	// (2026-07-28 basic/patterns/mrtr).
	againDelay = time.Second
)

// The states of a task.
const (
	taskWorking       = "working"
	taskInputRequired = "input_required"
	taskCompleted     = "completed"
	taskFailed        = "failed"
	taskCancelled     = "cancelled"
)

var (
	errTaskCancelled = errors.New("the client cancelled the task")
	errTaskExpired   = errors.New("the time of the task is over")
)

// taskOwner is who may see a task.
type taskOwner struct {
	Person  string `json:"p"`
	Key     string `json:"k"`
	Channel string `json:"h"`
}

func ownerOf(a hub.Access) taskOwner { return taskOwner{a.Person, a.Key, a.Channel} }

// task is a call that may outlive its request.
type task struct {
	x       *exchange // encodes results; nobody else uses this copy
	owner   taskOwner
	name    string
	call    tool.Call
	size    int // of the result, in bytes; guarded by the table
	cancel  context.CancelCauseFunc
	keyed   context.Context // ends when the key is no longer valid, or is narrowed
	release func()          // ends what depends on the key
	early   chan struct{}   // closed when the call has ended, or asks, before it has become a task

	mu       sync.Mutex
	access   hub.Access // of the last request about it
	created  time.Time
	id       string // empty until the call has become a task
	over     bool   // early is closed
	need     *tool.InputRequired
	status   string
	message  string
	updated  time.Time
	ttl      time.Duration
	expiry   *time.Timer
	revision int // of what a client sees
	round    int
	// asked are the outstanding requests, by the key that the client sees, and names the
	// provider's names of all of this round.
	asked    map[string]tool.Request
	names    map[string]string
	answers  map[string]json.RawMessage // by the provider's names
	answered chan struct{}              // holds 1: all requests are answered
	result   []byte
	failure  *jsonrpc.Error
}

// takesTasks reports whether the client gets a task for a call that takes long.
func (x *exchange) takesTasks() bool { return x.isStateless() && x.abilities.Tasks }

// callAsTask calls a tool and answers with the result, or, if that takes long, with a task. It
// returns false if the call was not begun, because the server is stopping.
func (x *exchange) callAsTask(ctx context.Context, name string, c *tool.Call) ([]byte, *jsonrpc.Error, bool) {
	own := *x
	own.out, own.msg, own.meta = nil, jsonrpc.Message{}, callMeta{}
	t := &task{x: &own, owner: ownerOf(x.access), name: name, call: *c, access: x.access, created: time.Now(),
		status: taskWorking, ttl: x.server.TaskTTL, early: make(chan struct{}), answered: make(chan struct{}, 1)}
	t.call.ID = uuid.Must(uuid.NewV7()).String()
	t.forwardProgress(x)
	var release func()
	t.keyed, release = x.server.withKeyLifetime(context.WithoutCancel(ctx), caller{principal: x.principal})
	var work context.Context
	work, t.cancel = context.WithCancelCause(t.keyed)
	closing := context.AfterFunc(x.server.ctx, func() { t.cancel(errClosed) })
	t.release = func() { t.cancel(nil); closing(); release() }
	hangUp := context.AfterFunc(ctx, func() { t.cancel(errClosed) })
	if !x.server.tasks.start(func() { t.run(work) }) {
		hangUp()
		t.release()
		return nil, nil, false
	}
	timer := time.NewTimer(x.server.TaskAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		if created := x.handOver(t, hangUp); created != nil {
			return created, nil, true
		}
		<-t.early
	case <-t.early:
	}
	hangUp()
	t.release()
	if t.need != nil {
		return x.inputRequired(name, t.need), nil, true
	}
	return t.result, t.failure, true
}

// forwardProgress forwards the progress and log messages of the call, as long as the client waits
// for it. After that, the last text about the progress is a part of the task.
func (t *task) forwardProgress(x *exchange) {
	x.forwardProgress(&t.call)
	progress, log := t.call.Progress, t.call.Log
	t.call.Progress = func(p tool.Progress) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.id == "" && progress != nil {
			progress(p)
		}
		if text := progressText(p); text != "" && text != t.message {
			t.message, t.updated = text, time.Now()
			t.revision++
		}
	}
	if log != nil {
		t.call.Log = func(l tool.Log) {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.id == "" {
				log(l)
			}
		}
	}
}

func progressText(p tool.Progress) string {
	switch {
	case p.Message != "":
		return shorten(p.Message, maxTaskMessage)
	case p.Total > 0:
		return strconv.FormatFloat(p.Done, 'f', -1, 64) + " of " + strconv.FormatFloat(p.Total, 'f', -1, 64)
	}
	return ""
}

// handOver makes the running call a task and returns the result that says so; nil if the call has
// ended meanwhile, its client is gone, or there are too many tasks.
func (x *exchange) handOver(t *task, hangUp func() bool) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return nil
	}
	t.updated = time.Now()
	id := x.server.newTaskID(t)
	if !x.server.tasks.add(id, t) {
		x.server.metrics.tasks.WithLabelValues("full").Inc()
		return nil
	}
	if !hangUp() {
		x.server.tasks.remove(id)
		return nil
	}
	t.id = id
	t.expiry = time.AfterFunc(time.Until(t.created.Add(t.ttl)), t.expire)
	context.AfterFunc(t.keyed, t.dropIfKeyEnded)
	x.server.metrics.tasks.WithLabelValues("created").Inc()
	o := object{append(make([]byte, 0, 512), `{"resultType":"task"`...)}
	t.appendState(&o, time.Now())
	return x.endResult(o, nil)
}

// run executes the call until it has an end.
func (t *task) run(ctx context.Context) {
	defer t.dropIfKeyEnded()
	for range maxRounds {
		t.mu.Lock()
		access := t.access
		t.mu.Unlock()
		res, err := t.x.server.Hub.Call(ctx, access, t.name, &t.call)
		switch {
		case err != nil:
			t.fail(err)
			return
		case res.InputRequired == nil:
			t.finish(taskCompleted, "", t.x.result(t.x.dropDuplicate(res)), nil)
			return
		case !t.ask(res.InputRequired):
			return
		}
		if !t.awaitAnswers(ctx, res.InputRequired) {
			t.x.abandon(t.name, &t.call, res.InputRequired)
			t.fail(tool.Fail(tool.Cancelled, "The call was cancelled.", context.Cause(ctx)))
			return
		}
	}
	t.fail(tool.Fail(tool.Failed, "The tool kept asking back.", nil))
}

// fail ends the call with an error.
func (t *task) fail(err error) {
	err = t.x.hideDenied(t.name, err)
	result, e := t.x.callError(err)
	switch told := tool.AsError(err); {
	case e == nil:
		t.finish(taskCompleted, "", result, nil)
	case told.Code == tool.Cancelled:
		t.finish(taskCancelled, told.Told, nil, e)
	default:
		t.finish(taskFailed, e.Message, nil, e)
	}
}

// finish ends the call.
func (t *task) finish(status, message string, result []byte, e *jsonrpc.Error) {
	t.mu.Lock()
	if t.id == "" {
		t.result, t.failure, t.over = result, e, true
		close(t.early)
		t.mu.Unlock()
		return
	}
	if !t.x.server.tasks.keep(t.id, len(result)) {
		status, result = taskFailed, nil
		message = "The call has ended, but its result could not be kept: too much waits to be fetched with this key."
		e = &jsonrpc.Error{Code: jsonrpc.InternalError, Message: message}
	}
	t.result, t.failure, t.call = result, e, tool.Call{} // the arguments may be large
	t.enter(status, message)
	t.mu.Unlock()
	t.x.server.metrics.tasks.WithLabelValues(status).Inc()
	t.x.server.announceTask(t.id)
}

// enter changes the state. The caller holds mu.
func (t *task) enter(status, message string) {
	t.status, t.message, t.updated = status, message, time.Now()
	t.revision++
}

func (t *task) isOver() bool {
	return t.status != taskWorking && t.status != taskInputRequired
}

// ask shows the client what the provider needs. It returns false if the call is no task yet: then
// the client gets the questions as the result of its request, and repeats the call.
func (t *task) ask(n *tool.InputRequired) bool {
	t.mu.Lock()
	if t.id == "" {
		t.need, t.over = n, true
		close(t.early)
		t.mu.Unlock()
		return false
	}
	t.round++
	t.asked, t.names, t.answers = map[string]tool.Request{}, map[string]string{}, map[string]json.RawMessage{}
	for name, r := range n.Requests {
		key := strconv.Itoa(t.round) + "." + name // unique over the lifetime of the task
		t.asked[key], t.names[key] = r, name
	}
	if len(n.Requests) == 0 {
		t.mu.Unlock()
		return true
	}
	t.enter(taskInputRequired, "")
	t.mu.Unlock()
	t.x.server.announceTask(t.id)
	return true
}

// awaitAnswers waits until the client has answered, and prepares the next round. It returns false
// if the task ends before.
func (t *task) awaitAnswers(ctx context.Context, n *tool.InputRequired) bool {
	if len(n.Requests) == 0 {
		if netx.Wait(ctx, againDelay) != nil {
			return false
		}
	} else {
		select {
		case <-t.answered:
		case <-ctx.Done():
			return false
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.call.State, t.call.Answers, t.call.Refusals = n.State, t.answers, nil
	return true
}

// answer takes answers of the client. What was not asked, or is answered already, is ignored.
func (t *task) answer(access hub.Access, answers map[string]json.RawMessage) {
	if t.takeAnswers(access, answers) {
		t.x.server.announceTask(t.id)
	}
}

// takeAnswers reports whether the state has changed.
func (t *task) takeAnswers(access hub.Access, answers map[string]json.RawMessage) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.status != taskInputRequired {
		return false
	}
	t.access = access
	for key, answer := range answers {
		if _, ok := t.asked[key]; ok && isObject(answer) {
			t.answers[t.names[key]] = answer
			delete(t.asked, key)
			t.revision++
			changed = true
		}
	}
	if len(t.asked) == 0 {
		t.enter(taskWorking, "")
		t.answered <- struct{}{} // once a round
	}
	return changed
}

// stop cancels the call, if it runs.
func (t *task) stop() { t.cancel(errTaskCancelled) }

// expire forgets the task.
func (t *task) expire() {
	if t.x.server.tasks.remove(t.id) {
		t.x.server.metrics.tasks.WithLabelValues("expired").Inc()
	}
	t.cancel(errTaskExpired)
	t.release()
}

// dropIfKeyEnded forgets the result of a call whose key is no longer valid, or was narrowed. That a
// running call was cancelled is kept.
func (t *task) dropIfKeyEnded() {
	if !errors.Is(context.Cause(t.keyed), account.ErrEnded) {
		return
	}
	t.mu.Lock()
	drop := t.id != "" && (t.status == taskCompleted || t.status == taskFailed) && t.expiry.Stop()
	t.mu.Unlock()
	if drop {
		t.x.server.tasks.remove(t.id)
		t.release()
	}
}

// view returns the members of the task as its owner sees it, as a JSON object, and its revision.
func (t *task) view() ([]byte, int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isOver() && t.expiry.Stop() {
		now := time.Now()
		if left := t.created.Add(t.ttl).Sub(now); left > fetchedTTL {
			t.ttl = now.Sub(t.created) + fetchedTTL
		}
		t.expiry.Reset(t.created.Add(t.ttl).Sub(now))
	}
	o := object{append(make([]byte, 0, len(t.result)+512), '{')}
	t.appendState(&o, time.Now())
	switch t.status {
	case taskInputRequired:
		o.raw("inputRequests", encodeRequests(t.asked))
	case taskCompleted:
		o.raw("result", t.result)
	case taskFailed:
		o.raw("error", errorObject(t.failure))
	}
	return append(o.b, '}'), t.revision
}

// appendState appends the members of every task. The caller holds mu.
func (t *task) appendState(o *object, now time.Time) {
	appendTask(o, t.id, t.status, t.message, t.created, t.updated, t.ttl)
	poll := min(max(now.Sub(t.created)/4, minPoll), maxPoll)
	o.raw("pollIntervalMs", strconv.AppendInt(nil, poll.Milliseconds(), 10))
}

func errorObject(e *jsonrpc.Error) []byte {
	o := object{[]byte{'{'}}
	o.raw("code", strconv.AppendInt(nil, int64(e.Code), 10))
	o.text("message", e.Message)
	o.raw("data", e.Data)
	return append(o.b, '}')
}

func appendTask(o *object, id, status, message string, created, updated time.Time, ttl time.Duration) {
	o.text("taskId", id)
	o.text("status", status)
	if message != "" {
		o.text("statusMessage", message)
	}
	o.text("createdAt", created.UTC().Format(taskTime))
	o.text("lastUpdatedAt", updated.UTC().Format(taskTime))
	o.raw("ttlMs", strconv.AppendInt(nil, ttl.Milliseconds(), 10))
}

// taskTime is ISO 8601 with milliseconds.
const taskTime = "2006-01-02T15:04:05.000Z07:00"
