package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/netx"
)

// taskID is what the id of a task says, sealed.
type taskID struct {
	Kind     string `json:"task"` // see taskIDKind
	Call     string `json:"c"`    // id of the call in the audit trail
	Instance string `json:"i"`    // unique for each start of a server
	Created  int64  `json:"t"`    // Unix milliseconds
	taskOwner
}

// taskIDKind distinguishes ids from other sealed texts.
const taskIDKind = "1"

// maxTaskIDLength limits ids from outside.
const maxTaskIDLength = 2000

func (s *Server) newTaskID(t *task) string {
	return s.Box.Seal(string(encode(taskID{taskIDKind, t.call.ID, s.Hub.Bus.Instance, t.created.UnixMilli(), t.owner})))
}

// readTaskID opens an id. It returns false for one that is not the owner's, or whose time is over.
func (s *Server) readTaskID(id string, owner taskOwner) (in taskID, ok bool) {
	if len(id) > maxTaskIDLength || !strings.HasPrefix(id, "sealed:") {
		return in, false
	}
	plain, err := s.Box.Open(id)
	if err != nil || json.Unmarshal([]byte(plain), &in) != nil || in.Kind != taskIDKind || in.taskOwner != owner {
		return in, false
	}
	return in, time.Since(in.created()) < s.TaskTTL
}

func (i *taskID) created() time.Time { return time.UnixMilli(i.Created) }

// What is done with a task.
const (
	taskGet    = "get"
	taskUpdate = "update"
	taskCancel = "cancel"
)

// taskRequest is a request about a task, for the instance that has it.
type taskRequest struct {
	Do      string                     `json:"do"`
	ID      string                     `json:"id"`
	Access  hub.Access                 `json:"access"`
	Answers map[string]json.RawMessage `json:"answers,omitempty"`
	From    int                        `json:"from,omitempty"` // of taskGet: the first byte wanted
}

// taskReply is the response. The state of a task may not fit into one.
type taskReply struct {
	Known    bool   `json:"known"`
	Revision int    `json:"revision,omitempty"`
	Size     int    `json:"size,omitempty"` // of the whole state
	Part     []byte `json:"part,omitempty"`
}

// taskPart is the number of bytes of a state in one message, which encodes them in base64.
const taskPart = maxRelayBytes / 2

func taskSubject(instance string) string { return "mcp.tasks." + instance }

// serveTasks answers what other instances ask about tasks of this one.
func (s *Server) serveTasks() (stop func()) {
	if s.Relay == nil {
		return func() {}
	}
	stop, err := s.Relay.Serve(taskSubject(s.Hub.Bus.Instance), func(data []byte) []byte {
		var q taskRequest
		if json.Unmarshal(data, &q) != nil {
			return encode(taskReply{})
		}
		return encode(s.doTask(&q))
	})
	if err != nil {
		s.Logger.Error("tasks cannot be reached from other instances", "error", err)
		return func() {}
	}
	return stop
}

// doTask does what is requested with a task of this instance.
func (s *Server) doTask(q *taskRequest) taskReply {
	t := s.tasks.find(q.ID, ownerOf(q.Access))
	if t == nil {
		return taskReply{}
	}
	switch q.Do {
	case taskUpdate:
		t.answer(q.Access, q.Answers)
	case taskCancel:
		t.stop()
	case taskGet:
		state, revision := t.view()
		from := min(max(q.From, 0), len(state))
		return taskReply{true, revision, len(state), state[from:min(from+taskPart, len(state))]}
	}
	return taskReply{Known: true}
}

var (
	errNoTask = &jsonrpc.Error{Code: jsonrpc.InvalidParams,
		Message: "Task not found: there is none of this id for this key, or its time is over"}
	errTaskAway = &jsonrpc.Error{Code: jsonrpc.InternalError,
		Message: "The instance that runs this task cannot be reached at the moment; ask again"}
	errTaskAnswers = &jsonrpc.Error{Code: jsonrpc.InvalidParams, Message: "inputResponses are too large"}
)

// task does something with a task of this or another instance. It returns its state, if that is
// wanted, as a JSON object.
func (s *Server) task(ctx context.Context, q taskRequest) ([]byte, *jsonrpc.Error) {
	id, ok := s.readTaskID(q.ID, ownerOf(q.Access))
	if !ok {
		return nil, errNoTask
	}
	ask := s.askTaskHolder
	if id.Instance == s.Hub.Bus.Instance {
		ask = func(context.Context, string, *taskRequest) (taskReply, error) {
			t := s.tasks.find(q.ID, id.taskOwner)
			if t == nil || q.Do != taskGet {
				return s.doTask(&q), nil
			}
			state, revision := t.view()
			return taskReply{true, revision, len(state), state}, nil
		}
	}
	state, err := readTask(ctx, id.Instance, q, ask)
	switch {
	case err == nil:
		return state, nil
	case errors.Is(err, errTooLargeForBus):
		return nil, errTaskAnswers
	case errors.Is(err, errTaskUnknown):
		return nil, errNoTask // the instance would know it: its time is over
	case ctx.Err() != nil, s.Hub.Bus.IsAlive(id.Instance), s.Hub.Bus.DisconnectedFor() > 0:
		return nil, errTaskAway
	}
	return s.lostTask(ctx, q, &id)
}

var (
	errTaskUnknown    = errors.New("there is no such task")
	errTaskChanges    = errors.New("the task changes all the time")
	errTooLargeForBus = errors.New("too large for the bus")
)

// readTask asks for a task, and for the rest of its state if that comes in parts.
func readTask(ctx context.Context, instance string, q taskRequest,
	ask func(context.Context, string, *taskRequest) (taskReply, error)) ([]byte, error) {
	var state []byte
	revision, size := -1, 0
	for range maxTaskParts {
		q.From = len(state)
		r, err := ask(ctx, instance, &q)
		switch {
		case err != nil:
			return nil, err
		case !r.Known:
			return nil, errTaskUnknown
		case len(state) > 0 && (r.Revision != revision || r.Size != size):
			// It has changed meanwhile. The size alone changes with the age: pollIntervalMs gets a
			// digit more, and what follows it moves.
			state = nil
			continue
		}
		revision, size = r.Revision, r.Size
		if state = append(state, r.Part...); len(state) >= r.Size {
			return state, nil
		}
	}
	return nil, errTaskChanges
}

// maxTaskParts limits the messages for one state. Results have up to 8 MiB.
const maxTaskParts = 100

// askTaskHolder asks the instance that has a task.
func (s *Server) askTaskHolder(ctx context.Context, instance string, q *taskRequest) (r taskReply, err error) {
	if s.Relay == nil {
		return r, errNotForwarded
	}
	data := encode(q)
	if len(data) > maxRelayBytes {
		return r, errTooLargeForBus
	}
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	answer, err := s.Relay.Request(ctx, taskSubject(instance), data)
	pause := netx.Backoff{First: relayRetryDelay}
	for try := 0; try < relayRetries && err != nil && netx.Wait(ctx, pause.Next()) == nil; try++ {
		answer, err = s.Relay.Request(ctx, taskSubject(instance), data)
	}
	if err == nil {
		err = json.Unmarshal(answer, &r)
	}
	return r, err
}

// lostTask returns the state of a task whose server has stopped since. The audit trail may know
// what became of the call; its result is lost.
func (s *Server) lostTask(ctx context.Context, q taskRequest, id *taskID) ([]byte, *jsonrpc.Error) {
	if q.Do != taskGet {
		return nil, nil // there is nothing left to cancel or to answer
	}
	fate, err := s.Hub.Fate(ctx, id.Call)
	if err != nil {
		s.Logger.Warn("the record of a call could not be read", "call", id.Call, "error", err)
		return nil, &jsonrpc.Error{Code: jsonrpc.InternalError,
			Message: "The audit trail cannot be read at the moment; ask again"}
	}
	message := "The server was stopped since, and the result is lost. " + fate
	o := object{[]byte{'{'}}
	appendTask(&o, q.ID, taskFailed, message, id.created(), time.Now(), s.TaskTTL)
	o.raw("error", errorObject(&jsonrpc.Error{Code: jsonrpc.InternalError, Message: message}))
	return append(o.b, '}'), nil
}
