package xiaozhi

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"patchbay/internal/hub"
	"patchbay/internal/plug/xiaozhi/remote"
	"patchbay/internal/plug/xiaozhi/wire"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Names of the built-in tools, which every board has beside its own.
const (
	ToolStatus  = "status"
	ToolShow    = "show"
	ToolEmotion = "emotion"
	ToolAlert   = "alert"
	ToolSay     = "say"
	ToolPlay    = "play"
	ToolStop    = "stop"
	ToolRecord  = "record"
	ToolAudio   = "audio"
	ToolVideo   = "video" // of boards with a camera
	ToolReboot  = "reboot"
)

const (
	// maxShown limits a text to show, in runes: displays have room for some lines, and boards
	// little memory.
	maxShown = 500
	// maxSoundBase64 limits a sound in the arguments, in base64 characters: 2 MiB of file.
	maxSoundBase64 = 2<<20*4/3 + 16
	// maxRecord is the longest recording of one call, and maxRecordWait the longest wait for a
	// conversation, in seconds.
	maxRecord, maxRecordWait = 300, 240
)

// toolArgs are the arguments of all built-in tools.
type toolArgs struct {
	Text    string `json:"text,omitempty"`
	Title   string `json:"title,omitempty"`
	Emotion string `json:"emotion,omitempty"`
	URL     string `json:"url,omitempty"`
	Sound   []byte `json:"sound,omitempty"`
	Later   bool   `json:"later,omitempty"`

	Voice    string    `json:"voice,omitempty"`
	Priority string    `json:"priority,omitempty"`
	Until    time.Time `json:"until,omitzero"`

	At     string       `json:"at,omitempty"`
	Repeat string       `json:"repeat,omitempty"`
	Zone   string       `json:"time_zone,omitempty"`
	ID     int64        `json:"id,omitempty"`
	All    bool         `json:"all,omitempty"`
	Timer  *store.Timer `json:"timer,omitempty"` // only of a push of the kind toolRing

	Seconds int  `json:"seconds,omitempty"`
	Wait    *int `json:"wait,omitempty"`

	Action     string `json:"action,omitempty"`
	SampleRate int    `json:"sample_rate,omitempty"`
	Frame      int    `json:"frame_ms,omitempty"`
}

// laterSchema is the schema of the argument later.
const laterSchema = `"later":{"type":"boolean","default":false,"description":"If the board is asleep, deliver this when it wakes within a day, instead of returning an error"}`

// builtinTools are the tools that every board has beside its own. All boards share the slice.
var builtinTools = func() []tool.Tool {
	yes := true
	text := fmt.Sprintf(`{"type":"string","minLength":1,"maxLength":%d}`, maxShown)
	faces, _ := json.Marshal(wire.Emotions) // strings
	object := func(required, properties string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{` + properties + `},"required":[` + required +
			`],"additionalProperties":false}`)
	}
	return append([]tool.Tool{
		{
			Name: ToolStatus, Title: "Connection status",
			Description: "Returns whether the board is awake, what it is doing, and audio statistics: packets, gaps, jitter, losses.",
			Input:       object("", ""), Hints: tool.ReadOnlyHints(),
		}, {
			Name: ToolShow, Title: "Show a text", Description: "Shows a text on the board's display.",
			Input: object(`"text"`, `"text":`+text+`,`+laterSchema),
		}, {
			Name: ToolEmotion, Title: "Show an emotion", Description: "Changes the emotion on the board's display.",
			Input: object(`"emotion"`, `"emotion":{"type":"string","enum":`+string(faces)+`},`+laterSchema),
		}, {
			Name: ToolAlert, Title: "Alert", Description: "Shows a title and a text on the board, and plays a notification sound.",
			Input: object(`"title","text"`, `"title":{"type":"string","minLength":1,"maxLength":60},"text":`+text+
				`,"emotion":{"type":"string","enum":`+string(faces)+`},`+laterSchema),
		}, {
			Name: ToolSay, Title: "Say",
			Description: "Speaks a text through the board: during a conversation after the current sentence, otherwise at once if the firmware can start by itself, or when somebody wakes the board. The result tells whether the text was spoken, is waiting, or was only shown.",
			Input: object(`"text"`, fmt.Sprintf(`"text":{"type":"string","minLength":1,"maxLength":%d},`, maxSaid)+
				`"voice":{"type":"string","maxLength":100,"description":"Name of one of the speech engine's voices"},`+
				`"priority":{"type":"string","enum":["notice","alarm","idle"],"default":"notice","description":"An alarm interrupts what is being said"},`+
				`"later":{"type":"boolean","default":true,"description":"If the board cannot be heard now, say it when somebody wakes it, instead of returning an error"},`+
				`"until":{"type":"string","format":"date-time","description":"How long it may wait, a day at most"}`),
		}, {
			Name: ToolPlay, Title: "Play a sound",
			Description: "Plays a sound on the board: the address of an Ogg-Opus, WAV or MP3 file, or such a file in base64. It returns when the board has played it.",
			Input: object("",
				`"url":{"type":"string","format":"uri"},"sound":{"type":"string","contentEncoding":"base64","maxLength":`+fmt.Sprint(maxSoundBase64)+`},"text":`+text+`,`+laterSchema),
		}, {
			Name: ToolStop, Title: "Stop playback", Description: "Stops what the board plays.", Input: object("", ""),
			Hints: tool.Hints{Idempotent: &yes},
		}, {
			Name: ToolRecord, Title: "Record",
			Description: "Records what the board hears while somebody talks to it, as Ogg-Opus. It waits for a conversation if there is none.",
			Input: object("",
				fmt.Sprintf(`"seconds":{"type":"integer","minimum":1,"maximum":%d,"default":10},"wait":{"type":"integer","minimum":0,"maximum":%d,"default":60,"description":"Seconds to wait for a conversation"}`, maxRecord, maxRecordWait)),
			Audience: "user",
		}, {
			Name: ToolAudio, Title: "Audio commands",
			Description: "Starts a recording of what the board hears (start), ends it and returns it (stop), or changes how sound is sent to the board from the next conversation on (set).",
			Input: object(`"action"`,
				`"action":{"type":"string","enum":["start","stop","set"]},"sample_rate":{"type":"integer","enum":[8000,12000,16000,24000,48000]},"frame_ms":{"type":"integer","enum":[20,40,60]}`),
			Audience: "user",
		}, {
			Name: ToolReboot, Title: "Restart the board", Description: "Restarts the board.",
			Input:     object("", laterSchema),
			Dangerous: true, Audience: "user",
		},
	}, append(timerTools(object), musicTools(object)...)...)
}()

// EndsWithContext implements [hub.Cancellable].
func (*Board) EndsWithContext() {}

// Call implements [tool.Provider]. It carries out built-in tools here, and passes other calls to
// the board.
func (b *Board) Call(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	switch call.Tool {
	case hub.MessageInitialize:
		return b.initialize(ctx, call.Args)
	case hub.MessageNotify:
		return b.sendNotification(call.Args)
	case ToolVideo:
		return b.video(ctx, call)
	}
	if !slices.ContainsFunc(builtinTools, func(t tool.Tool) bool { return t.Name == call.Tool }) {
		return b.callBoard(ctx, call)
	}
	a := toolArgs{Later: call.Tool == ToolSay}
	if len(call.Args) > 0 {
		if err := json.Unmarshal(call.Args, &a); err != nil {
			return nil, tool.Fail(tool.BadArgs, "The arguments cannot be read: "+err.Error(), nil)
		}
	}
	switch call.Tool {
	case ToolStatus:
		return tool.JSON(b.Status(ctx)), nil
	case ToolStop:
		return b.stopPlayback(), nil
	case ToolPlayMusic:
		res, err := b.playMusic(ctx, a)
		b.boards.metrics.recordPush(call.Tool, err)
		return res, err
	case ToolControlMusic:
		return b.controlMusic(a)
	case ToolTimerSet, ToolTimerList, ToolTimerCancel:
		return b.timerTool(ctx, call, a)
	case ToolRecord:
		return b.record(ctx, call.Caller, a)
	case ToolAudio:
		return b.audio(ctx, call.Caller, a)
	}
	return b.push(ctx, call, a)
}

// callBoard calls one of the board's own tools.
func (b *Board) callBoard(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	l := b.connection()
	if l == nil {
		return nil, b.offlineError("")
	}
	began := time.Now()
	defer func() { b.boards.metrics.calls.Observe(time.Since(began).Seconds()) }()
	if remote.TakesPhoto(call.Tool) {
		return b.photograph(ctx, l, call)
	}
	res, err := l.remote.Call(ctx, call)
	if no, ok := errors.AsType[*tool.Error](err); ok && no.Code == tool.Unknown {
		b.relistTools(l)
	}
	return res, err
}

// staysConnected reports whether the board normally stays connected without a conversation, as it
// does on MQTT. If it is not connected, that is a fault or passes soon. Requires mu.
func (b *Board) staysConnected() bool {
	return cmp.Or(b.via, b.device.Transport, b.boards.Transport) == store.TransportMQTT
}

// offlineError returns the error for an unreachable board, with advice.
func (b *Board) offlineError(more string) *tool.Error {
	b.mu.Lock()
	defer b.mu.Unlock()
	why := "The board is asleep. "
	if b.staysConnected() {
		why = "The board is not connected at the moment; nothing was done. It may be back in some seconds: call again then. If it is not, is it turned on, and on the network?"
	} else {
		why += "On WebSocket it can be reached only while somebody talks to it; wake it, or let it use MQTT (device set transport=mqtt)."
	}
	return tool.Fail(tool.Offline, strings.TrimSpace(why+" "+more), nil)
}
