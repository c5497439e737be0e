package ankiconnect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/learn"
	"patchbay/internal/problem"
)

// Limits of actions in one request.
const (
	maxMulti = 1000 // actions, all levels together
	maxNests = 3    // levels of multi
	// maxAnswer limits the answers of all actions together, in bytes: they are held in memory. For
	// the last maxSmall of it no action begins: those that change something have no longer answers,
	// so that none is done and its answer refused.
	maxAnswer = 64 << 20
	maxSmall  = 1 << 20
)

// request is the action that a client asks for (plugin/web.py, request_schema).
type request struct {
	Action  string
	Version int // 4 if it is missing
	Params  json.RawMessage
	Key     string
}

// parseRequest reads a request. Its errors are for the client.
func parseRequest(body []byte) (*request, error) {
	var in struct {
		Action  *string         `json:"action"`
		Version json.RawMessage `json:"version"`
		Params  json.RawMessage `json:"params"`
		Key     *string         `json:"key"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, fmt.Errorf("the request is no JSON object with action, version, params and key: %w", err)
	}
	out := &request{Version: 4, Params: in.Params}
	if in.Action == nil || *in.Action == "" {
		return nil, errors.New("'action' is a required property")
	}
	if len(in.Version) > 0 && string(in.Version) != "null" {
		if err := json.Unmarshal(in.Version, &out.Version); err != nil {
			return nil, errors.New("'version' is an integer")
		}
	}
	if p := bytes.TrimSpace(in.Params); len(p) == 0 || string(p) == "null" {
		out.Params = json.RawMessage("{}")
	} else if p[0] != '{' {
		return nil, errors.New("'params' is an object")
	}
	out.Action = *in.Action
	if in.Key != nil {
		out.Key = *in.Key
	}
	return out, nil
}

// answer encodes a result: bare for clients of version 4 and before (plugin/web.py,
// format_success_reply).
func (q *request) answer(result any) []byte {
	if q.Version > 4 {
		result = map[string]any{"result": result, "error": nil}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(result); err != nil {
		return errorAnswer("the result cannot be encoded")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// exchange is a request that is being answered.
type exchange struct {
	server   *Server
	from     *http.Request
	visitor  *visitor // who makes it
	work     *work    // of all parts of the request
	refused  string   // why this part is not answered; empty: it is
	caller   control.Caller
	profile  string // name of the person
	points   *learn.Service
	counted  *control.Learning // counts each call
	learning *control.Learning // for what is done within an action, which was counted
	request  string            // id of the request, for errors
	person   string            // of the caller, once an action was allowed
	keyless  bool              // whether a key need not be sent, see [WithKey]
}

// clientError is an error whose text is for the client as it stands.
type clientError string

func (e clientError) Error() string { return string(e) }

func refusal(format string, args ...any) error { return clientError(fmt.Sprintf(format, args...)) }

// run does an action and returns its answer.
func (x *exchange) run(ctx context.Context, q *request, nests int) []byte {
	if q.Action == actionMulti {
		out, err := x.multi(ctx, q, nests)
		if err != nil {
			x.server.count(q.Action, "error")
			return errorAnswer(err.Error())
		}
		x.server.count(q.Action, "ok")
		return q.answer(out)
	}
	result, err := x.do(ctx, q)
	var answer []byte
	if err == nil {
		answer = q.answer(result)
		err = x.room(len(answer))
		x.work.size += len(answer)
	}
	if err != nil {
		x.server.count(q.Action, "error")
		return errorAnswer(x.text(ctx, q, err))
	}
	x.server.count(q.Action, "ok")
	return answer
}

// room returns an error if so many bytes more are too many for the answer.
func (x *exchange) room(n int) error {
	if x.work.size+n > maxAnswer {
		return refusal("the answer of a request has %d MiB at most; ask for less at once", maxAnswer>>20)
	}
	return nil
}

// need returns an error if the caller may not do what a tool of Learn does.
func (x *exchange) need(tool string) error {
	_, err := x.learning.Allow(x.caller, tool)
	return err
}

func (x *exchange) do(ctx context.Context, q *request) (any, error) {
	if q.Action == actionPermission { // within multi
		return permission(true, !x.keyless), nil
	}
	a := actions[q.Action]
	if a == nil {
		return nil, clientError(textUnsupported)
	}
	if a.refused != "" {
		return nil, clientError(a.refused)
	}
	if err := x.room(maxSmall); err != nil {
		return nil, err
	}
	var err error
	if x.person, err = x.counted.Allow(x.caller, a.tools...); err != nil {
		return nil, err
	}
	return a.do(x, ctx, q.Params)
}

// multi does several actions and returns their answers. Each has a version of its own, and may have
// a key of its own; otherwise it has that of the request (plugin/__init__.py, multi and handler).
func (x *exchange) multi(ctx context.Context, q *request, nests int) ([]json.RawMessage, error) {
	var in struct {
		Actions []json.RawMessage `json:"actions"`
	}
	if err := decode(q.Params, &in); err != nil {
		return nil, err
	}
	if len(in.Actions) > maxMulti || nests >= maxNests {
		return nil, refusal("a request has %d actions and %d levels at most", maxMulti, maxNests)
	}
	out := make([]json.RawMessage, len(in.Actions))
	for i, text := range in.Actions {
		x.work.actions++
		part, err := parseRequest(text)
		switch {
		case x.work.actions > maxMulti:
			out[i] = errorAnswer(refusal("a request has %d actions at most", maxMulti).Error())
		case err != nil:
			out[i] = errorAnswer(err.Error())
		default:
			out[i] = x.runPart(ctx, part, nests+1)
		}
	}
	return out, nil
}

// runPart does an action of multi with its key.
func (x *exchange) runPart(ctx context.Context, part *request, nests int) []byte {
	in, refused := x.with(part)
	if refused != "" {
		return errorAnswer(refused)
	}
	if in != x {
		ctx = in.visitor.ctx
	}
	return in.run(ctx, part, nests)
}

// outcomes are those of an action that does many things one by one. What was done stays, so it
// counts: if one cannot be done, the answer says so at its place, and is an error only if nothing
// was done. Otherwise a client would try all again.
type outcomes struct {
	done   int
	failed error // why nothing more can be done
}

// ends takes the outcome of one and reports whether no more are done: something is wrong that is no
// fault of that one.
func (o *outcomes) ends(x *exchange, ctx context.Context, action string, err error) bool {
	if err == nil {
		o.done++
		return false
	}
	_, own := errors.AsType[clientError](err)
	if known := control.AsError(control.LearnError(err)); own || known != nil && known.Code != problem.Unavailable {
		return false
	}
	o.failed = err
	if o.done > 0 {
		x.text(ctx, &request{Action: action}, err) // logs it
	}
	return true
}

// err returns the error of the action.
func (o *outcomes) err() error {
	if o.done > 0 {
		return nil
	}
	return o.failed
}

// text returns the text of an error for the client, and logs what is none of theirs.
func (x *exchange) text(ctx context.Context, q *request, err error) string {
	if own, ok := errors.AsType[clientError](err); ok {
		return own.Error()
	}
	err = control.LearnError(err)
	if known := control.AsError(err); known != nil {
		return i18n.Localize(known, x.caller.Lang)
	}
	if _, ok := errors.AsType[*problem.Error](err); !ok && ctx.Err() == nil {
		x.server.Logger.ErrorContext(ctx, "an action of a program for Anki failed", "channel", Channel,
			"action", q.Action, "error", err)
	}
	return "something is wrong on our side; the log of request " + x.request + " tells what"
}

// decode reads parameters. Those that are not known are ignored: clients of several versions send
// them.
func decode(params json.RawMessage, into any) error {
	err := json.Unmarshal(params, into)
	if bad, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return refusal("the parameter %s is no %s", bad.Field[strings.LastIndex(bad.Field, ".")+1:], bad.Type)
	}
	if err != nil {
		return refusal("the parameters cannot be read: %v", err)
	}
	return nil
}
