package openaitest

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// created is the creation time of every answer, in seconds since 1970.
const created = 1_760_000_000

// Reply is the response to one request. The zero Reply is an empty answer.
type Reply struct {
	// Status other than 0 and 200 sends an error: Body if it is set, or an error in OpenAI's form
	// with Message and Code.
	Status        int
	Message, Code string
	// Header is added to the response's own headers.
	Header http.Header
	// Body is sent unchanged instead of an answer, as application/json unless Header has another
	// type.
	Body string
	// Steps are the steps of a streamed answer, in order.
	Steps []Step
	// Finish is the finish_reason. Empty means tool_calls if there are calls, otherwise stop; "-"
	// means that none is sent.
	Finish string
	// NoDone leaves out [DONE] at the end.
	NoDone bool
	// Whole sends the answer unstreamed although a stream was requested.
	Whole bool
	// Hold, if not nil, delays the response, headers included, until a receive from it succeeds.
	Hold <-chan struct{}
	// Reset breaks the connection before anything is sent.
	Reset bool
}

// Step is one step of a streamed answer.
type Step struct {
	text  *string
	calls []Call
	raw   string
	wait  <-chan struct{}
	delay time.Duration
	reset bool
}

// Call is a call of a function, or a fragment of one.
type Call struct {
	Index     int
	ID, Name  string // only in the first fragment
	Arguments string
}

// Text returns a step that sends a piece of the answer.
func Text(text string) Step { return Step{text: &text} }

// Calls returns a step that sends fragments of calls in one event.
func Calls(calls ...Call) Step { return Step{calls: calls} }

// CallInPieces returns a call as OpenAI streams it: the name first, then the arguments in
// fragments.
func CallInPieces(index int, id, name string, arguments ...string) []Step {
	steps := []Step{Calls(Call{Index: index, ID: id, Name: name})}
	for _, a := range arguments {
		steps = append(steps, Calls(Call{Index: index, Arguments: a}))
	}
	return steps
}

// Raw returns a step that sends bytes unchanged.
func Raw(bytes string) Step { return Step{raw: bytes} }

// Wait returns a step that waits until a receive from ch succeeds. A nil channel does not wait.
func Wait(ch <-chan struct{}) Step { return Step{wait: ch} }

// Delay returns a step that waits for d, for demonstrations.
func Delay(d time.Duration) Step { return Step{delay: d} }

// Reset returns a step that breaks the connection.
func Reset() Step { return Step{reset: true} }

// Words returns a text as a stream of words, with a gap before each.
func Words(text string, gap time.Duration) []Step {
	var steps []Step
	for _, word := range strings.SplitAfter(text, " ") {
		if gap > 0 {
			steps = append(steps, Delay(gap))
		}
		steps = append(steps, Text(word))
	}
	return steps
}

// write sends the reply and reports whether all of it was sent.
func (p *Reply) write(w http.ResponseWriter, r *http.Request, c *Chat) bool {
	if p.Hold != nil {
		select {
		case <-p.Hold:
		case <-r.Context().Done():
			return false
		}
	}
	if p.Reset {
		reset(w)
		return true
	}
	for name, values := range p.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	w.Header().Set("X-Request-Id", "req_openaitest")
	switch {
	case p.Body != "":
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(max(p.Status, 200))
		_, err := w.Write([]byte(p.Body))
		return err == nil
	case p.Status != 0 && p.Status != 200:
		p.fail(w)
		return true
	case p.Whole || !c.Stream:
		return p.writeWhole(w, c)
	}
	return p.stream(w, r, c)
}

func (p *Reply) fail(w http.ResponseWriter) {
	e := apiError{Message: p.Message, Type: "invalid_request_error"}
	if p.Status >= 500 {
		e.Type = "server_error"
	}
	if e.Message == "" {
		e.Message = http.StatusText(p.Status)
	}
	if p.Code != "" {
		e.Code = &p.Code
	}
	fail(w, p.Status, e)
}

// finish returns the finish_reason, nil if there is none.
func (p *Reply) finish() *string {
	switch p.Finish {
	case "-":
		return nil
	case "":
		for _, s := range p.Steps {
			if len(s.calls) > 0 {
				return new("tool_calls")
			}
		}
		return new("stop")
	}
	return &p.Finish
}

type message struct {
	Role      string     `json:"role"`
	Content   *string    `json:"content"`
	Refusal   *string    `json:"refusal"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	Index    *int   `json:"index,omitempty"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type tokens struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

// writeWhole sends the answer unstreamed.
func (p *Reply) writeWhole(w http.ResponseWriter, c *Chat) bool {
	m := message{Role: "assistant"}
	for _, s := range p.Steps {
		if s.text != nil {
			text := *s.text
			if m.Content != nil {
				text = *m.Content + text
			}
			m.Content = &text
		}
		for _, piece := range s.calls {
			for len(m.ToolCalls) <= piece.Index {
				m.ToolCalls = append(m.ToolCalls, toolCall{Type: "function"})
			}
			t := &m.ToolCalls[piece.Index]
			t.ID += piece.ID
			t.Function.Name += piece.Name
			t.Function.Arguments += piece.Arguments
		}
	}
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(map[string]any{
		"id": "chatcmpl-test", "object": "chat.completion", "created": created, "model": c.Model,
		"choices": []any{map[string]any{"index": 0, "message": m, "logprobs": nil, "finish_reason": p.finish()}},
		"usage":   tokens{10, 5, 15}, "service_tier": "default", "system_fingerprint": "fp_test",
	}) == nil
}

// stream sends the answer as chunks, each flushed.
func (p *Reply) stream(w http.ResponseWriter, r *http.Request, c *Chat) bool {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	out := &stream{w: w, control: http.NewResponseController(w), chat: c}
	role := map[string]any{"role": "assistant", "content": "", "refusal": nil}
	if !out.piece(role, nil) {
		return false
	}
	for _, s := range p.Steps {
		if !out.step(r, s) {
			return s.reset
		}
	}
	if finish := p.finish(); finish != nil && !out.piece(map[string]any{}, finish) {
		return false
	}
	if c.StreamOptions != nil && c.StreamOptions.IncludeUsage && !out.send(out.chunk([]any{}, tokens{10, 5, 15})) {
		return false
	}
	return p.NoDone || out.raw("data: [DONE]\n\n")
}

type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	chat    *Chat
}

func (o *stream) raw(text string) bool {
	_, err := o.w.Write([]byte(text))
	return err == nil && o.control.Flush() == nil
}

func (o *stream) send(chunk map[string]any) bool {
	data, err := json.Marshal(chunk)
	return err == nil && o.raw(fmt.Sprintf("data: %s\n\n", data))
}

func (o *stream) chunk(choices []any, usage any) map[string]any {
	chunk := map[string]any{
		"id": "chatcmpl-test", "object": "chat.completion.chunk", "created": created, "model": o.chat.Model,
		"service_tier": "default", "system_fingerprint": "fp_test", "choices": choices,
	}
	if o.chat.StreamOptions != nil && o.chat.StreamOptions.IncludeUsage {
		chunk["usage"] = usage
	}
	return chunk
}

func (o *stream) piece(delta map[string]any, finish *string) bool {
	return o.send(o.chunk([]any{map[string]any{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": finish}},
		nil))
}

// step executes one step. It returns false if the reply ends there.
func (o *stream) step(r *http.Request, s Step) bool {
	switch {
	case s.text != nil:
		return o.piece(map[string]any{"content": *s.text}, nil)
	case len(s.calls) > 0:
		return o.piece(map[string]any{"tool_calls": pieces(s.calls)}, nil)
	case s.raw != "":
		return o.raw(s.raw)
	case s.reset:
		reset(o.w)
		return false
	case s.wait == nil && s.delay <= 0:
		return true
	}
	var passed <-chan time.Time
	if s.delay > 0 {
		timer := time.NewTimer(s.delay)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-s.wait:
	case <-passed:
	case <-r.Context().Done():
		return false
	}
	return true
}

func pieces(calls []Call) []toolCall {
	var out []toolCall
	for _, c := range calls {
		t := toolCall{Index: new(c.Index), ID: c.ID}
		if c.ID != "" || c.Name != "" {
			t.Type = "function"
		}
		t.Function.Name, t.Function.Arguments = c.Name, c.Arguments
		out = append(out, t)
	}
	return out
}

// reset breaks the connection such that the client gets an error instead of an end.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}
