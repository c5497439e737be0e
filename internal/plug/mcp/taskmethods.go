package mcp

import (
	"context"
	"encoding/json"

	"patchbay/internal/jsonrpc"
)

// errNeedsTasks is the error for clients that do not speak the extension.
var errNeedsTasks = &jsonrpc.Error{Code: codeMissingCapability, Message: "Missing required client capability",
	Data: json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`)}

// offersTasks reports whether a channel has tasks.
func offersTasks(channel string) bool { return channel == channelMCP }

// declaresTasks reports whether a client's capabilities have the extension.
func declaresTasks(capabilities json.RawMessage) bool {
	return isObject(jsonrpc.Member(jsonrpc.Member(capabilities, "extensions"), tasksExtension))
}

// getTask answers tasks/get.
func (x *exchange) getTask(ctx context.Context) ([]byte, *jsonrpc.Error) {
	state, e := x.doTask(ctx, taskRequest{Do: taskGet})
	if e != nil {
		return nil, e
	}
	o := x.beginResult(len(state)+64, false)
	o.b = jsonrpc.AppendMembers(o.b, state)
	return x.endResult(o, nil), nil
}

// updateTask answers tasks/update.
func (x *exchange) updateTask(ctx context.Context) ([]byte, *jsonrpc.Error) {
	q := taskRequest{Do: taskUpdate}
	if raw := x.param("inputResponses"); !isObject(raw) || json.Unmarshal(raw, &q.Answers) != nil {
		return nil, invalid("inputResponses must be an object")
	}
	return x.acknowledgeTask(ctx, q)
}

// cancelTask answers tasks/cancel.
func (x *exchange) cancelTask(ctx context.Context) ([]byte, *jsonrpc.Error) {
	return x.acknowledgeTask(ctx, taskRequest{Do: taskCancel})
}

func (x *exchange) acknowledgeTask(ctx context.Context, q taskRequest) ([]byte, *jsonrpc.Error) {
	if _, e := x.doTask(ctx, q); e != nil {
		return nil, e
	}
	return x.endResult(x.beginResult(64, false), nil), nil
}

func (x *exchange) doTask(ctx context.Context, q taskRequest) ([]byte, *jsonrpc.Error) {
	if !offersTasks(x.access.Channel) {
		return nil, &jsonrpc.Error{Code: jsonrpc.MethodNotFound, Message: "Method not found: " + x.msg.Method}
	}
	if !x.abilities.Tasks {
		return nil, errNeedsTasks
	}
	q.ID, q.Access = x.text("taskId"), x.access
	return x.server.task(ctx, q)
}

// ownTasks returns which of the ids are of tasks of the caller, whose states it may hear of.
func (x *exchange) ownTasks(ids []string) (own []string) {
	for _, id := range ids[:min(len(ids), maxTasksPerKey)] {
		if _, ok := x.server.readTaskID(id, ownerOf(x.access)); ok {
			own = append(own, id)
		}
	}
	return own
}

// watchTasks has a listener tell the states of tasks, the present ones first: a task may have ended
// before its client began to listen.
func (x *exchange) watchTasks(l *listener, ids []string) {
	if len(ids) == 0 {
		return
	}
	l.tasks = map[string]bool{}
	for _, id := range ids {
		l.tasks[id] = true
	}
	l.taskState = func(ctx context.Context, id string) []byte {
		state, e := x.server.task(ctx, taskRequest{Do: taskGet, ID: id, Access: x.access})
		if e != nil {
			return nil // the client finds out when it asks
		}
		return state
	}
	l.wakeUp()
}

// markTask records that the state of a task has changed.
func (ls *listeners) markTask(id string) {
	for l := range ls.list() {
		l.mu.Lock()
		if _, ok := l.tasks[id]; ok {
			l.tasks[id] = true
			l.wakeUp()
		}
		l.mu.Unlock()
	}
}

// taskNotifications returns the states of tasks that are due.
func (l *listener) taskNotifications(ctx context.Context, meta []byte) (out [][]byte) {
	var due []string
	l.mu.Lock()
	for id, changed := range l.tasks {
		if changed {
			l.tasks[id] = false
			due = append(due, id)
		}
	}
	l.mu.Unlock()
	for _, id := range due {
		if state := l.taskState(ctx, id); state != nil {
			out = append(out, jsonrpc.AppendRequest(nil, nil, "notifications/tasks", jsonrpc.With(state, "_meta",
				meta)))
		}
	}
	return out
}

// announceTask tells the listeners of a task, on all instances, that its state has changed.
func (s *Server) announceTask(id string) {
	s.listeners.markTask(id)
	if s.Relay == nil {
		return
	}
	if err := s.Relay.Broadcast(encode(relayMessage{Task: id})); err != nil {
		s.Logger.Warn("other instances were not told of the state of a task", "error", err)
	}
}
