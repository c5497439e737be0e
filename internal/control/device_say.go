package control

import (
	"context"
	"encoding/json"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/tool"
)

// DeviceSay has a device say a text.
type DeviceSay struct {
	Device   string    `path:"device" json:"-"` // number, name or hardware address
	Text     string    `json:"text"`
	Voice    string    `json:"voice,omitempty"`    // of the speech engine; empty: the device's
	Priority string    `json:"priority,omitempty"` // notice or alarm; empty: notice
	Later    *bool     `json:"later,omitempty"`    // wait until the device wakes; nil: yes
	Until    time.Time `json:"until,omitzero"`     // how long it may wait
}

// DeviceSaid is what became of a text.
type DeviceSaid struct {
	Spoken      bool      `json:"spoken"`                // in the conversation, to the end
	Interrupted bool      `json:"interrupted,omitempty"` // somebody stopped it
	Shown       bool      `json:"shown,omitempty"`       // instead of spoken
	Reason      string    `json:"reason,omitempty"`      // why it is shown: limit, of speech for today
	Notified    bool      `json:"notified,omitempty"`    // the device plays it by itself
	Waits       bool      `json:"waits,omitempty"`       // until the device wakes
	Seconds     float64   `json:"seconds,omitempty"`
	Expires     time.Time `json:"expires_at,omitzero"`
}

// DeviceMusic plays music on a device, or controls it.
type DeviceMusic struct {
	Device string `path:"device" json:"-"`  // number, name or hardware address
	Action string `json:"action,omitempty"` // pause, resume or stop; empty: play
	URL    string `json:"url,omitempty"`    // of an Ogg-Opus, WAV or MP3 file or stream
	Title  string `json:"title,omitempty"`  // that the device shows
}

// DeviceMusicState is the music of a device.
type DeviceMusicState struct {
	Playing bool    `json:"playing"` // it plays, or will when nobody speaks
	Paused  bool    `json:"paused"`  // until it is resumed
	Title   string  `json:"title,omitempty"`
	Seconds float64 `json:"seconds"` // that were played
}

// DeviceTimer is a timer or a reminder of a device.
type DeviceTimer struct {
	ID      int64     `json:"id"`
	Text    string    `json:"text,omitempty"`
	Due     time.Time `json:"due_at"`
	Local   string    `json:"local"` // the same, in the time zone of the timer
	Seconds int       `json:"in_seconds"`
	Repeat  string    `json:"repeat,omitempty"` // daily or weekdays
}

// DeviceTimers are the timers of a device, the next one first.
type DeviceTimers struct {
	Timers []DeviceTimer `json:"timers"`
	Now    string        `json:"now"` // local time of the owner
}

// NewDeviceTimer sets a timer. Either Seconds or At is given.
type NewDeviceTimer struct {
	Device  string `path:"device" json:"-"` // number, name or hardware address
	Text    string `json:"text,omitempty"`
	Seconds int    `json:"seconds,omitempty"`
	// At is a local time: 07:00, tomorrow 07:00, or 2026-11-30 07:00.
	At     string `json:"at,omitempty"`
	Repeat string `json:"repeat,omitempty"` // daily or weekdays
	Zone   string `json:"time_zone,omitempty"`
}

// DeviceTimerRef identifies a timer of a device.
type DeviceTimerRef struct {
	DeviceRef
	Timer int64 `path:"timer"`
}

// Cancelled is the number of timers that were cancelled.
type Cancelled struct {
	Cancelled int `json:"cancelled"`
}

// msgTool is the text of a tool's error.
const msgTool = i18n.Message("%s")

// SayDevice has a device say a text.
func (s *Service) SayDevice(ctx context.Context, c Caller, in DeviceSay) (out DeviceSaid, err error) {
	err = s.callFor(ctx, c, in.Device, "say", in, &out)
	return out, err
}

// DeviceMusic plays music on a device, or controls it.
func (s *Service) DeviceMusic(ctx context.Context, c Caller, in DeviceMusic) (out DeviceMusicState, err error) {
	name := "control_music"
	if in.Action == "" {
		name = "play_music"
	}
	err = s.callFor(ctx, c, in.Device, name, in, &out)
	return out, err
}

// DeviceTimers lists the timers of a device.
func (s *Service) DeviceTimers(ctx context.Context, c Caller, in DeviceRef) (out DeviceTimers, err error) {
	err = s.callFor(ctx, c, in.Device, "timer_list", struct{}{}, &out)
	return out, err
}

// SetDeviceTimer sets a timer.
func (s *Service) SetDeviceTimer(ctx context.Context, c Caller, in NewDeviceTimer) (out DeviceTimer, err error) {
	err = s.callFor(ctx, c, in.Device, "timer_set", in, &out)
	return out, err
}

// CancelDeviceTimer cancels a timer.
func (s *Service) CancelDeviceTimer(ctx context.Context, c Caller, in DeviceTimerRef) (out Cancelled, err error) {
	err = s.callFor(ctx, c, in.Device, "timer_cancel", map[string]int64{"id": in.Timer}, &out)
	return out, err
}

// callFor calls one of the tools that every board has, and reads its result.
func (s *Service) callFor(ctx context.Context, c Caller, device, name string, args, out any) error {
	d, err := s.FindDevice(ctx, c, device)
	if err != nil {
		return err
	}
	text, err := json.Marshal(args)
	if err != nil {
		return err
	}
	res, err := s.CallDevice(ctx, c, d, DeviceCall{Tool: name, Args: text, Channel: "cli", Agent: c.Agent})
	if err != nil {
		return toolProblem(err)
	}
	return json.Unmarshal(res.Structured, out)
}

// toolProblem returns the error of an operation for that of a tool.
func toolProblem(err error) error {
	e := tool.AsError(err)
	code := problem.Unavailable
	switch e.Code {
	case tool.BadArgs:
		code = problem.Invalid
	case tool.Denied, tool.Unknown:
		code = problem.Denied
	case tool.Busy:
		code = problem.Conflict
	case tool.TooLarge:
		code = problem.TooLarge
	case tool.TimedOut:
		code = problem.TimedOut
	}
	return problem.New(code, msgTool, e.Told).Because(err)
}
