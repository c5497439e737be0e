package sim

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"patchbay/internal/talk"
)

// Event is one event of an answer.
type Event struct {
	Name     string        // message or done, or another name that the server sent
	Type     string        // answer, tool_call, follow_up or error
	Text     string        // of answer_stream
	Command  *talk.Command // of tool_call
	FollowUp []string
	Err      string        // of an event of type error
	Finish   bool          // is_finish
	At       time.Duration // since the turn was sent
	Data     string        // the JSON as received
}

// Answer is the result of a turn.
type Answer struct {
	// Text is the text that the glasses show: all pieces concatenated.
	Text     string
	Commands []talk.Command
	FollowUp []string
	// Err is the message of an event of type error. The platform has no such type, and glasses do
	// not show it.
	Err      string
	Comments int // comment lines
	Pieces   int // events with text
	// First is the time of the first text or command, and Total that of the end of the stream,
	// since the turn was sent. First is 0 if there was none.
	First, Total time.Duration
	// Finished reports whether the platform was told of the end: by a message with is_finish, and
	// by done.
	Finished bool
	// Violations describe the protocol violations of the stream.
	Violations []string
	Raw        []byte // the stream as received, if requested
}

// maxViolations limits the violations that are kept of an endless bad stream.
const maxViolations = 100

// maxSuggestions is the number of suggestions that the platform shows.
const maxSuggestions = 3

// reader reads and validates one answer.
type reader struct {
	answer    Answer
	begin     time.Time
	onEvent   func(Event)
	messageID string // to be echoed; empty if unknown
	agentID   string
	text      strings.Builder

	parser      parser
	events      int
	finishCount int // messages with is_finish
	doneCount   int
	onDone      func() *time.Timer
	grace       *time.Timer
}

// newReader returns a reader for the answer to a body. When done arrives, it calls onDone, which
// starts a timer.
func newReader(body []byte, each func(Event), onDone func() *time.Timer) *reader {
	r := &reader{begin: time.Now(), onEvent: each, onDone: onDone}
	var ids struct {
		MessageID any `json:"message_id"`
		AgentID   any `json:"agent_id"`
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	if d.Decode(&ids) == nil {
		r.messageID, r.agentID = scalar(ids.MessageID), scalar(ids.AgentID)
	}
	return r
}

// scalar returns a string, or a number as a string.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

func (r *reader) stop() {
	if r.grace != nil {
		r.grace.Stop()
	}
}

func (r *reader) violation(format string, args ...any) {
	if len(r.answer.Violations) < maxViolations {
		r.answer.Violations = append(r.answer.Violations, fmt.Sprintf(format, args...))
	}
}

// eventViolation records a violation by the current event.
func (r *reader) eventViolation(format string, args ...any) {
	r.violation("event %d: %s", r.events, fmt.Sprintf(format, args...))
}

func (r *reader) checkContentType(header string) {
	if media, _, err := mime.ParseMediaType(header); err != nil || media != "text/event-stream" {
		r.violation("Content-Type is %q", header)
	}
}

// read reads the stream to its end, for which it returns no error.
func (r *reader) read(body io.Reader, keep bool) error {
	buf := make([]byte, 4<<10)
	for total := 0; ; {
		n, err := body.Read(buf)
		if keep {
			r.answer.Raw = append(r.answer.Raw, buf[:n]...)
		}
		if total += n; total > maxStream {
			r.violation("the stream is longer than %d MiB", maxStream>>20)
			return nil
		}
		if err := r.parser.feed(buf[:n], r.event); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// checkStream validates the stream as a whole.
func (r *reader) checkStream() {
	r.answer.Total = time.Since(r.begin)
	r.answer.Text = r.text.String()
	r.answer.Comments = r.parser.comments
	r.answer.Finished = r.finishCount > 0 && r.doneCount > 0
	if r.parser.isUnfinished() {
		r.violation("the stream ends within an event")
	}
	if r.finishCount != 1 {
		r.violation("%d messages with is_finish:true", r.finishCount)
	}
	if r.doneCount != 1 {
		r.violation("%d done events", r.doneCount)
	}
}

// event validates one event and adds it to the answer.
func (r *reader) event(f frame) {
	r.events++
	e := Event{Name: f.name, Data: string(f.data), At: time.Since(r.begin)}
	if r.doneCount > 0 {
		r.eventViolation("%s after done", f.name)
	}
	switch {
	case !utf8.Valid(f.data):
		r.eventViolation("not UTF-8")
	case f.data == nil:
		r.eventViolation("no data")
	}
	var d object
	if f.data != nil {
		if err := json.Unmarshal(f.data, &d.fields); err != nil || d.fields == nil {
			r.eventViolation("not a JSON object: %.40q", f.data)
		}
	}
	switch f.name {
	case "message":
		if d.fields != nil {
			r.message(&d, &e)
		}
	case "done":
		r.doneCount++
		if r.doneCount == 1 {
			r.grace = r.onDone()
		}
		if d.fields != nil {
			r.done(&d, &e)
		}
	default:
		r.eventViolation("the platform knows no event %q", f.name)
		if r.answer.Err == "" {
			r.answer.Err = d.text("message")
		}
		e.Err = d.text("message")
	}
	for _, complaint := range d.problems {
		r.eventViolation("%s", complaint)
	}
	if r.onEvent != nil {
		r.onEvent(e)
	}
}

// message validates a part of the answer.
func (r *reader) message(d *object, e *Event) {
	if r.finishCount > 0 {
		r.eventViolation("a message after the last one")
	}
	r.checkCommon(d, e)
	if e.Finish {
		r.finishCount++
	}
	switch e.Type {
	case "answer":
		e.Text = d.required("answer_stream")
		if e.Text != "" {
			r.answer.Pieces++
			r.text.WriteString(e.Text)
			r.noteFirst(e)
		}
	case "tool_call":
		e.Command = d.command()
		if e.Command != nil {
			r.answer.Commands = append(r.answer.Commands, *e.Command)
			r.noteFirst(e)
		}
	case "follow_up":
		e.FollowUp = d.suggestions()
		r.answer.FollowUp = append(r.answer.FollowUp, e.FollowUp...)
	}
}

func (r *reader) noteFirst(e *Event) {
	if r.answer.First == 0 {
		r.answer.First = e.At
	}
}

// done validates the end. It must not have a text, because glasses show such a text a second time
// (sengmitnick/eyeclaw at 9fa98ce, docs/BUGFIX_DUPLICATE_ERROR_MESSAGE.md).
func (r *reader) done(d *object, e *Event) {
	r.checkCommon(d, e)
	if !e.Finish {
		r.eventViolation("done without is_finish:true")
	}
	if d.text("answer_stream") != "" {
		r.eventViolation("done has an answer_stream")
	}
}

var types = []string{"answer", "tool_call", "follow_up", "error"}

// checkCommon validates the fields of all events. Errors need no ids, since there may be none to
// echo.
func (r *reader) checkCommon(d *object, e *Event) {
	if role := d.required("role"); role != "agent" {
		r.eventViolation("role is %q", role)
	}
	if e.Type = d.required("type"); !slices.Contains(types, e.Type) {
		r.eventViolation("the platform knows no type %q", e.Type)
	}
	if e.Type == "error" {
		e.Err = d.required("message")
		r.answer.Err = e.Err
	}
	r.checkEcho(d, e, "message_id", r.messageID)
	r.checkEcho(d, e, "agent_id", r.agentID)
	e.Finish = d.flag("is_finish")
}

func (r *reader) checkEcho(d *object, e *Event, name, want string) {
	if _, ok := d.fields[name]; !ok && e.Type == "error" || want == "" {
		return
	}
	if got := d.required(name); got != want {
		r.eventViolation("%s is %q and not %q", name, got, want)
	}
}

// object is the data of an event, with the problems of the fields that were read.
type object struct {
	fields   map[string]json.RawMessage
	problems []string
}

func (d *object) addProblem(format string, args ...any) {
	d.problems = append(d.problems, fmt.Sprintf(format, args...))
}

// required returns a string field that must be present.
func (d *object) required(name string) string {
	if _, ok := d.fields[name]; !ok {
		d.addProblem("no %s", name)
	}
	return d.text(name)
}

func (d *object) text(name string) string {
	raw, ok := d.fields[name]
	if !ok {
		return ""
	}
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		d.addProblem("%s is no text: %.40s", name, raw)
		return ""
	}
	return *s
}

func (d *object) flag(name string) bool {
	var v *bool
	if json.Unmarshal(d.fields[name], &v) != nil || v == nil {
		d.addProblem("%s is neither true nor false", name)
		return false
	}
	return *v
}

func (d *object) suggestions() []string {
	var list []string
	if json.Unmarshal(d.fields["follow_up"], &list) != nil || len(list) == 0 || slices.Contains(list, "") {
		d.addProblem("follow_up is no list of questions: %.40s", d.fields["follow_up"])
		return nil
	}
	if len(list) > maxSuggestions {
		d.addProblem("%d suggestions", len(list))
	}
	return list
}

// arguments are the fields of a tool_call by command, with their allowed values, or nil for any
// value (sengmitnick/eyeclaw at 9fa98ce, docs/ROKID_LINGZHU_SSE_API.md, Tool Object).
var arguments = map[string]map[string][]string{
	talk.CommandTakePhoto: {},
	talk.CommandNavigate:  {"action": {"open", "close"}, "poi_name": nil, "navi_type": {"0", "1", "2"}},
	talk.CommandCalendar:  {"action": {"create"}, "title": nil, "start_time": nil, "end_time": nil},
	talk.CommandLeave:     {},
}

// command reads tool_call. It accepts handling_required and is_recall, which are not documented but
// sent by some bridges (davexxx1214/openclaw-lingzhu-skill at 3ec283a,
// skill/extension/src/transform.ts).
func (d *object) command() *talk.Command {
	var call object
	if json.Unmarshal(d.fields["tool_call"], &call.fields) != nil || call.fields == nil {
		d.addProblem("tool_call is no object: %.40s", d.fields["tool_call"])
		return nil
	}
	c := &talk.Command{Name: call.required("command")}
	known, ok := arguments[c.Name]
	if !ok {
		d.addProblem("the platform knows no command %q", c.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(call.fields)) {
		value := ""
		switch name {
		case "command":
			continue
		case "handling_required", "is_recall":
			value = fmt.Sprint(call.flag(name))
		default:
			value = call.text(name)
			values, has := known[name]
			if ok && (!has || values != nil && !slices.Contains(values, value)) {
				d.addProblem("%s with %s %q", c.Name, name, value)
			}
		}
		if c.Args == nil {
			c.Args = make(map[string]string)
		}
		c.Args[name] = value
	}
	d.problems = append(d.problems, call.problems...)
	return c
}
