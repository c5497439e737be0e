package dashscope

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/engines/socket"
)

// startTime limits the wait for task-started.
const startTime = 3 * time.Second

// Actions and events (Model Studio, CosyVoice and Paraformer WebSocket API; dashscope-sdk-python,
// protocol/websocket.py).
const (
	runTask      = "run-task"
	continueTask = "continue-task"
	finishTask   = "finish-task"

	taskStarted     = "task-started"
	resultGenerated = "result-generated"
	taskFinished    = "task-finished"
	taskFailed      = "task-failed"
)

// command is a message to the service.
type command struct {
	Header  commandHeader `json:"header"`
	Payload any           `json:"payload"`
}

type commandHeader struct {
	Action    string `json:"action"`
	TaskID    string `json:"task_id"`
	Streaming string `json:"streaming"`
}

// definition is the payload of run-task.
type definition struct {
	Group      string   `json:"task_group"`
	Task       string   `json:"task"`
	Function   string   `json:"function"`
	Model      string   `json:"model"`
	Parameters any      `json:"parameters"`
	Input      struct{} `json:"input"`
}

// input is the payload of the other commands.
type input struct {
	Input struct {
		Text string `json:"text,omitempty"`
	} `json:"input"`
}

// task is a task on a connection: an utterance or a speech.
type task struct {
	id  string
	key string // is not quoted
}

// newTask returns a task with a new id, 32 hexadecimal digits.
func newTask(key string) *task {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return &task{hex.EncodeToString(id[:]), key}
}

func (t *task) command(action string, payload any) socket.Message {
	return socket.JSON(command{commandHeader{action, t.id, "duplex"}, payload})
}

// start runs the task and waits until it has started.
func (t *task) start(ctx context.Context, c *socket.Conn, d *definition) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime,
		engine.Errorf(engine.Timeout, "the service did not start the task in time"))
	defer cancel()
	if err := c.Write(ctx, t.command(runTask, d)); err != nil {
		return err
	}
	m, err := c.Next(ctx)
	if err != nil {
		return err
	}
	e, err := t.event(m)
	if err == nil && e.Header.Event != taskStarted {
		err = engine.Errorf(engine.Broken, "the service began a task with another event than task-started")
	}
	return err
}

// event is a message of the service.
type event struct {
	Header struct {
		TaskID  string `json:"task_id"`
		Event   string `json:"event"`
		Code    string `json:"error_code"`
		Message string `json:"error_message"`
	} `json:"header"`
	Payload struct {
		Output struct {
			// Of recognisers; Gummy calls it transcription.
			Sentence      *sentence `json:"sentence"`
			Transcription *sentence `json:"transcription"`
			// Of speakers.
			Type         string `json:"type"`
			OriginalText string `json:"original_text"`
		} `json:"output"`
		// Usage is what the task is billed for so far (Model Studio, Paraformer and CosyVoice
		// server-side events, usage).
		Usage struct {
			Seconds    int `json:"duration"`
			Characters int `json:"characters"`
		} `json:"usage"`
	} `json:"payload"`
}

// event parses a text message for the task. Its content is not quoted in errors, except for what
// the service says of a failure.
func (t *task) event(m socket.Message) (*event, error) {
	var e event
	switch {
	case m.Binary || json.Unmarshal(m.Data, &e) != nil || e.Header.Event == "":
		return nil, engine.Errorf(engine.Broken, "a message of the service is not the JSON that it should be")
	case e.Header.Event == taskFailed:
		return nil, failure(e.Header.Code, e.Header.Message, t.key)
	case e.Header.TaskID != t.id:
		return nil, engine.Errorf(engine.Broken, "the service sent a message of another task")
	}
	return &e, nil
}

// failure returns the error of a task.
func failure(code, message, key string) *engine.Error {
	return engine.Errorf(classOf(code), "%s", engine.Quote([]byte(code+": "+message), key))
}

// classes are those of error codes, by their beginnings; the first one counts (Model Studio, Error
// codes).
var classes = []struct {
	prefix string
	class  engine.Class
}{
	{"InvalidApiKey", engine.Auth}, {"AccessDenied", engine.Auth}, {"Unauthorized", engine.Auth},
	{"Model.AccessDenied", engine.Auth}, {"Workspace.AccessDenied", engine.Auth}, {"App.AccessDenied", engine.Auth},
	{"Throttling", engine.Quota}, {"LimitRequests", engine.Quota}, {"Arrearage", engine.Quota},
	{"AllocationQuota", engine.Quota}, {"PrepaidBillOverdue", engine.Quota}, {"PostpaidBillOverdue", engine.Quota},
	{"CommodityNotPurchased", engine.Quota},
	{"ServiceUnavailable", engine.Busy}, {"ModelServingError", engine.Busy}, {"ModelUnavailable", engine.Busy},
	{"RequestTimeOut", engine.Timeout}, {"ResponseTimeout", engine.Timeout}, {"InternalError.Timeout", engine.Timeout},
	{"InternalError", engine.Broken}, {"SystemError", engine.Broken}, {"MismatchedModel", engine.Broken},
}

// classOf returns the class of an error code. What is not known is something that the service does
// not accept: InvalidParameter, ModelNotFound, DataInspectionFailed, CLIENT_ERROR and others.
func classOf(code string) engine.Class {
	for _, c := range classes {
		if strings.HasPrefix(code, c.prefix) {
			return c.class
		}
	}
	return engine.Input
}
