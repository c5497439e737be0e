// Package dashscopetest is a stand-in for the tasks of Alibaba Cloud Model Studio (Paraformer,
// Gummy and CosyVoice WebSocket API). What it hears and says is scripted, and it can fail in many
// ways. It notes whatever the real service would not understand.
package dashscopetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/voice/engines/socket/sockettest"
)

// Key is the key that the service accepts.
const Key = "sk-very-secret-0123456789"

// Path is where the service is.
const Path = "/api-ws/v1/inference"

// Faults of the protocol, beside those of sockettest.
const (
	WrongID   sockettest.Fault = "wrong task id"
	Throttled sockettest.Fault = "task-failed: Throttling"
	Internal  sockettest.Fault = "task-failed: InternalError"
	NoModel   sockettest.Fault = "task-failed: ModelNotFound"
	Early     sockettest.Fault = "sound before task-started"
	EmptyText sockettest.Fault = "empty text"
	LongText  sockettest.Fault = "64 KiB text" // more than a transcript may have, less than a message
	DoubleEnd sockettest.Fault = "double end"
	NoSound   sockettest.Fault = "no sound"
	Endless   sockettest.Fault = "endless sound"
)

// Stages of a task, for the faults of sockettest.
const (
	Start  = "start"  // instead of task-started, of the first task of a connection
	Again  = "again"  // the same of the others
	First  = "first"  // after the first sound
	Middle = "middle" // after the third message with sound
	Last   = "last"   // instead of the last result
)

// Partial is a text that the service sends while it gets sound.
type Partial struct {
	Text string
	End  bool // of a sentence
}

// Options are the script.
type Options struct {
	sockettest.Options
	// Partials are sent one after the other, after each message with sound.
	Partials []Partial
	// Transcript returns the last sentence of samples at 16 kHz; nil: an empty text.
	Transcript func(samples []int16) string
	// Sound returns how a sentence is spoken, at 16 kHz; nil: 60 ms of silence for each character.
	Sound func(text string) []int16
	// Delays before task-started, and before the first result.
	StartDelay, Delay time.Duration
}

// Task is what the service got during a task that has finished.
type Task struct {
	Definition json.RawMessage // payload of run-task
	Messages   []string        // text messages, without the id of the task
	Samples    []int16
	Sizes      []int // of the messages with sound, in bytes
}

// Server is a service. It is safe for concurrent use.
type Server struct {
	*sockettest.Server
	opt Options

	mu    sync.Mutex
	ids   map[string]bool
	tasks []Task
}

// New starts a service that ends with the test.
func New(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{opt: o, ids: map[string]bool{}}
	if s.opt.Sound == nil {
		s.opt.Sound = func(text string) []int16 { return make([]int16, 960*len([]rune(text))) }
	}
	s.Server = sockettest.New(t, o.Options, s.check, func(c *sockettest.Conn) {
		for task := (&conn{Conn: c, s: s}); task.serve(); task.stage = Again {
		}
	})
	s.URL += Path
	return s
}

// check checks the request that opens a connection.
func (s *Server) check(r *http.Request) (http.Header, int) {
	switch {
	case r.URL.Path != Path:
		return nil, http.StatusNotFound
	case r.Header.Get("Authorization") != "Bearer "+Key:
		return nil, http.StatusUnauthorized
	}
	return nil, 0
}

// Tasks returns the tasks that have finished.
func (s *Server) Tasks() []Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tasks)
}

// conn is a connection, with its current task.
type conn struct {
	*sockettest.Conn
	s        *Server
	stage    string // at which the next task begins; empty: Start
	id       string
	kind     string // asr or tts
	gummy    bool
	opus     bool
	got      Task
	sentence int
	unspoken string
	billed   int // characters
	frames   int
}

var taskID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// command is a message of the client.
type command struct {
	Header struct {
		Action    string `json:"action"`
		TaskID    string `json:"task_id"`
		Streaming string `json:"streaming"`
	} `json:"header"`
	Payload json.RawMessage `json:"payload"`
}

// definition is the payload of run-task.
type definition struct {
	Group      string          `json:"task_group"`
	Task       string          `json:"task"`
	Function   string          `json:"function"`
	Model      string          `json:"model"`
	Input      json.RawMessage `json:"input"`
	Parameters struct {
		Format string `json:"format"`
		Rate   int    `json:"sample_rate"`
		Voice  string `json:"voice"`
	} `json:"parameters"`
}

// serve serves a task, and reports whether the connection goes on.
func (c *conn) serve() bool {
	binary, data, ok := c.Read()
	if !ok {
		return false
	}
	cmd := c.command(binary, data)
	if cmd.Header.Action != "run-task" || !taskID.MatchString(cmd.Header.TaskID) {
		c.s.Violation("no run-task with an id first: " + string(data))
		return false
	}
	c.begin(cmd)
	c.Wait(c.s.opt.StartDelay)
	if !c.At(cmp.Or(c.stage, Start)) {
		return false
	}
	switch {
	case c.is(WrongID):
		c.id = strings.Repeat("0", 32)
	case c.is(Throttled, Internal, NoModel):
		return c.fail()
	case c.is(Early):
		c.Binary(make([]byte, 100))
	}
	c.send("task-started", map[string]any{})
	for {
		binary, data, ok := c.Read()
		if !ok {
			return false
		}
		if binary {
			if !c.sound(data) {
				return false
			}
			continue
		}
		if goesOn, ended := c.more(c.command(binary, data)); ended || !goesOn {
			return goesOn
		}
	}
}

// more handles a further command, and reports whether the connection goes on and the task ended.
func (c *conn) more(cmd command) (goesOn, ended bool) {
	switch action := cmd.Header.Action; {
	case cmd.Header.TaskID != c.id && !c.is(WrongID):
		c.s.Violation("a message of another task")
		return false, true
	case action == "finish-task":
		return c.finish(), true
	case action != "continue-task" || c.kind != "tts":
		c.s.Violation("not what may follow: " + action)
		return false, true
	}
	return c.text(cmd.Payload), false
}

func (c *conn) is(faults ...sockettest.Fault) bool { return slices.Contains(faults, c.s.opt.Fault) }

func (c *conn) command(binary bool, data []byte) (cmd command) {
	if binary || json.Unmarshal(data, &cmd) != nil || cmd.Header.Streaming != "duplex" || len(cmd.Payload) == 0 {
		c.s.Violation("not a command: " + string(data))
	}
	c.got.Messages = append(c.got.Messages, strings.ReplaceAll(string(data), cmd.Header.TaskID, "ID"))
	return cmd
}

// begin notes and checks a new task.
func (c *conn) begin(cmd command) {
	*c = conn{Conn: c.Conn, s: c.s, stage: c.stage, id: cmd.Header.TaskID, got: c.got}
	c.got = Task{Definition: cmd.Payload, Messages: c.got.Messages[len(c.got.Messages)-1:]}
	c.s.mu.Lock()
	used := c.s.ids[c.id]
	c.s.ids[c.id] = true
	c.s.mu.Unlock()
	var d definition
	err := json.Unmarshal(cmd.Payload, &d)
	function := map[string]string{"asr": "recognition", "tts": "SpeechSynthesizer"}[d.Task]
	switch p := d.Parameters; {
	case err != nil, d.Group != "audio", function == "", d.Function != function, d.Model == "", string(d.Input) != "{}":
		c.s.Violation("not a task: " + string(cmd.Payload))
	case used:
		c.s.Violation("the id of a task was used before")
	case d.Task == "asr" && (p.Format != "pcm" || p.Rate != 16000),
		d.Task == "tts" && (p.Voice == "" || p.Format != "pcm" && p.Format != "opus" || p.Rate != speakRate):
		c.s.Violation("not the parameters of a task: " + string(cmd.Payload))
	}
	c.kind, c.gummy, c.opus = d.Task, strings.HasPrefix(d.Model, "gummy"), d.Parameters.Format == "opus"
}

// fail ends a task with an error, and the connection.
func (c *conn) fail() bool {
	code := map[sockettest.Fault]string{Throttled: "Throttling.RateQuota", Internal: "InternalError.Algo",
		NoModel: "ModelNotFound"}[c.s.opt.Fault]
	c.event(map[string]any{"task_id": c.id, "event": "task-failed", "error_code": code,
		"error_message": "it failed with " + Key, "attributes": map[string]any{}}, map[string]any{})
	return false
}

// finish sends the last results.
func (c *conn) finish() bool {
	c.Wait(c.s.opt.Delay)
	if c.kind == "tts" && !c.speak(true) || !c.At(Last) {
		return false
	}
	if c.kind == "asr" {
		text := ""
		if c.s.opt.Transcript != nil {
			text = c.s.opt.Transcript(c.got.Samples)
		}
		if c.is(EmptyText) {
			text = ""
		}
		if c.is(LongText) {
			text = strings.Repeat("x", 64<<10)
		}
		if text != "" {
			c.partial(Partial{text, true})
		}
		if text != "" && c.is(DoubleEnd) {
			c.sentence--
			c.partial(Partial{text, true})
		}
	}
	c.s.mu.Lock()
	c.s.tasks = append(c.s.tasks, c.got)
	c.s.mu.Unlock()
	c.send("task-finished", map[string]any{"output": map[string]any{}, "usage": nil})
	if c.is(DoubleEnd) {
		c.send("task-finished", map[string]any{})
	}
	return true
}

// send sends an event of the task.
func (c *conn) send(name string, payload any) {
	c.event(map[string]any{"task_id": c.id, "event": name, "attributes": map[string]any{}}, payload)
}

func (c *conn) event(header, payload any) {
	text, err := json.Marshal(map[string]any{"header": header, "payload": payload})
	if err != nil {
		panic(fmt.Sprint(err))
	}
	c.Text(text)
}
