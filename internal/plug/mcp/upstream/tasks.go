package upstream

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/jsonrpc"
	"patchbay/internal/netx"
	"patchbay/internal/tool"
)

// A server of 2026-07-28 may answer a call with a task, whose result is fetched later
// (github.com/modelcontextprotocol/ext-tasks, specification/draft/tasks.md). The call goes on here
// until the task has an end: it is for the endpoints to have their own clients wait, or not.

// tasksExtension is the name of the extension.
const tasksExtension = "io.modelcontextprotocol/tasks"

const (
	// defaultPoll is the interval between two looks at a task whose server names none. Others are
	// kept between minPoll and maxPoll.
	defaultPoll, minPoll, maxPoll = time.Second, 100 * time.Millisecond, 10 * time.Second
	// maxPollFailures is how many looks in a row may fail.
	maxPollFailures = 5
	// taskGrace is how long a call that nobody waits for any more may take to become a task.
	taskGrace = time.Second
	// taskPrefix marks the state of a call whose task waits for answers.
	taskPrefix = "task."
)

// serverTask is a task of a server.
type serverTask struct {
	ID       string                  `json:"taskId"`
	Status   string                  `json:"status"`
	Message  string                  `json:"statusMessage"`
	Poll     float64                 `json:"pollIntervalMs"`
	Requests map[string]tool.Request `json:"inputRequests"`
	Result   json.RawMessage         `json:"result"`
	Error    *rpcError               `json:"error"`
}

// taskState is what a caller brings back with its answers.
type taskState struct {
	ID       string   `json:"id"`
	Answered []string `json:"answered"` // keys of requests, which the server may still list for a moment
}

var (
	errTaskTooLong = errors.New("the task took too long")
	errLostTask    = errors.New("the task cannot be reached any more")
)

// readTask returns the task that a server answers a call with, or nil.
func readTask(raw json.RawMessage) (*serverTask, error) {
	if !isObject(raw) || jsonrpc.Text(jsonrpc.Member(raw, "resultType")) != "task" {
		return nil, nil
	}
	return parseTask(raw)
}

func parseTask(raw json.RawMessage) (*serverTask, error) {
	t := &serverTask{}
	if !utf8.Valid(raw) || json.Unmarshal(raw, t) != nil || t.ID == "" {
		return nil, errMalformed
	}
	for _, q := range t.Requests {
		if q.Method == "" {
			return nil, errMalformed
		}
	}
	return t, nil
}

func (t *serverTask) interval() time.Duration {
	if t.Poll <= 0 {
		return defaultPoll
	}
	return time.Duration(min(max(t.Poll, float64(minPoll.Milliseconds())), float64(maxPoll.Milliseconds()))) *
		time.Millisecond
}

// offersTasks reports whether the server has tasks.
func (s *session) offersTasks() bool { return s.modern && s.has.Extensions[tasksExtension] != nil }

// taskRequest makes a request about a task.
func (s *session) taskRequest(ctx context.Context, method, id string, c *tool.Call,
	more map[string]any) (json.RawMessage, error) {
	params := s.params(s.abilities(c.Capabilities))
	params["taskId"] = id
	maps.Copy(params, more)
	p := s.newPending()
	m, err := request(p.id, method, params)
	if err != nil {
		s.removePending(p)
		return nil, err
	}
	m.name, m.limit = id, maxResult+envelopeBytes
	return s.roundTrip(ctx, p, m)
}

// cancelTask tells the server that nobody waits for a task any more.
func (s *session) cancelTask(id string) {
	s.start(func() {
		ctx, cancel := context.WithTimeout(s.ctx, notifyTimeout)
		defer cancel()
		_, _ = s.taskRequest(ctx, "tasks/cancel", id, &tool.Call{}, nil) // it expires otherwise
	})
}

// abandonTask ends a call whose task may be on its way: without its id, it could not be cancelled.
func (f *inFlight) abandonTask(why error) {
	timer := time.NewTimer(taskGrace)
	defer timer.Stop()
	select {
	case a := <-f.p.answer:
		if t, _ := readTask(a.result); t != nil {
			f.s.cancelTask(t.ID)
		}
	case <-timer.C:
	case <-f.s.done:
	}
	f.drop(why)
}

// awaitTask waits for the end of a task, and passes its result to read; or until its server asks
// for something that has not been answered yet. When ctx ends, the task is cancelled.
func (u *upstream) awaitTask(ctx context.Context, s *session, c *tool.Call, t *serverTask, answered []string,
	read func(*session, json.RawMessage) error) (*tool.InputRequired, error) {
	told, reports, failures := "", 0.0, 0
	for {
		if t.Message != "" && t.Message != told && c.Progress != nil {
			told = t.Message
			c.Progress(tool.Progress{Done: reports, Message: told})
			reports++ // progress must increase
		}
		switch t.Status {
		case "completed":
			return nil, read(s, t.Result)
		case "failed":
			if t.Error == nil {
				return nil, errMalformed
			}
			return nil, t.Error
		case "cancelled":
			return nil, tool.Fail(tool.Failed, u.spec.name()+" has cancelled the call.", nil)
		case "input_required":
			need, err := u.askForTask(c, t, answered)
			if err != nil {
				s.cancelTask(t.ID)
			}
			if err != nil || need != nil {
				return need, err
			}
		case "working":
		default:
			return nil, errMalformed
		}
		if netx.Wait(ctx, t.interval()) != nil {
			s.cancelTask(t.ID)
			return nil, errTaskTooLong
		}
		next, now, err := u.lookAtTask(ctx, c, t.ID)
		if now != nil {
			s = now // the server may have restarted: tasks outlive connections
		}
		_, refused := errors.AsType[*rpcError](err)
		switch failures++; {
		case err == nil:
			t, failures = next, 0
		case refused, errors.Is(err, errMalformed), errors.Is(err, errTooLarge):
			return nil, err
		case ctx.Err() == nil && failures >= maxPollFailures:
			// Not wrapped: that a look was not sent does not mean that the call was not.
			return nil, &connectionLostError{fmt.Errorf("%w: %v", errLostTask, err)} //nolint:errorlint // see above
		}
	}
}

// lookAtTask reads a task, over the present session.
func (u *upstream) lookAtTask(ctx context.Context, c *tool.Call, id string) (*serverTask, *session, error) {
	s, _, err := u.awaitSession(ctx)
	if err != nil {
		return nil, nil, err
	}
	raw, err := s.taskRequest(ctx, "tasks/get", id, c, nil)
	if err != nil {
		return nil, s, err
	}
	t, err := parseTask(raw)
	return t, s, err
}

// askForTask returns what the server needs from the caller, or nil if all of it is answered
// already.
func (u *upstream) askForTask(c *tool.Call, t *serverTask, answered []string) (*tool.InputRequired, error) {
	open := map[string]tool.Request{}
	for key, q := range t.Requests {
		if slices.Contains(answered, key) {
			continue
		}
		if !c.Capabilities.CanAnswer(q.Method, q.Params) {
			return nil, tool.Fail(tool.Failed, "The tool needs to ask back ("+clip(q.Method, 100)+
				"), which this client cannot do.", nil)
		}
		open[key] = q
	}
	if len(open) == 0 {
		return nil, nil
	}
	state, err := encode(taskState{t.ID, answered})
	if err != nil {
		return nil, err
	}
	return &tool.InputRequired{Requests: open, Refusable: true,
		State: taskPrefix + base64.RawURLEncoding.EncodeToString(state)}, nil
}

func isTaskState(state string) bool { return strings.HasPrefix(state, taskPrefix) }

// resumeTask passes the answers of the caller to the task, and waits for it again.
func (u *upstream) resumeTask(ctx context.Context, c *tool.Call,
	read func(*session, json.RawMessage) error) (*tool.InputRequired, error) {
	var state taskState
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(c.State, taskPrefix))
	if err != nil || json.Unmarshal(raw, &state) != nil || state.ID == "" {
		return nil, tool.Fail(tool.BadArgs, "The state is not one of this call.", nil)
	}
	s, _, err := u.awaitSession(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case c.Abandoned:
		s.cancelTask(state.ID)
		return nil, tool.Fail(tool.Cancelled, "The call was cancelled.", nil)
	case len(c.Refusals) > 0: // the protocol has no answer that refuses
		s.cancelTask(state.ID)
		return nil, tool.Fail(tool.Failed, "The tool asked back, and the client could not answer.", nil)
	}
	limited, cancel := context.WithTimeout(ctx, u.spec.Settings.timeout())
	defer cancel()
	if len(c.Answers) > 0 {
		if _, err := s.taskRequest(limited, "tasks/update", state.ID, c,
			map[string]any{"inputResponses": c.Answers}); err != nil {
			return nil, err
		}
		state.Answered = slices.AppendSeq(state.Answered, maps.Keys(c.Answers))
	}
	t, now, err := u.lookAtTask(limited, c, state.ID)
	if err != nil {
		return nil, err
	}
	need, err := u.awaitTask(limited, now, c, t, state.Answered, read)
	return need, u.taskError(ctx, err)
}

// taskError returns why there is no result of a task.
func (u *upstream) taskError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errTaskTooLong):
		return tool.Fail(tool.TimedOut,
			u.spec.name()+" did not finish in time, and was told to stop. It is not known whether it has.", nil)
	}
	return err
}
