package toolbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"patchbay/internal/talk"
)

// maxDeviceArgument limits one argument of a command, in characters. A place or a title has to fit
// on the display of the glasses.
const maxDeviceArgument = 200

// SentToDevice is the result of a command, for the model.
const SentToDevice = `{"ok":true,"info":"sent to the device"}`

// DeviceFunction is a function that stands for a command of the asker's device.
type DeviceFunction struct {
	Name        string // of the command
	Description string
	Parameters  json.RawMessage
	// Event converts the arguments of a call to the event for the asker. The error is for the
	// model.
	Event func(args map[string]any) (talk.Event, error)
}

// DeviceFunctions are the functions that stand for the commands of devices, by which a model gives
// them.
var DeviceFunctions = []DeviceFunction{
	deviceFunction(talk.CommandTakePhoto,
		"Takes a photo with the camera of the person's device and shows it to you in their next message. "+
			"Call it when the answer depends on what the person sees or points at and no picture of it was sent.",
		`{"type":"object","properties":{},"additionalProperties":false}`, noArguments),
	deviceFunction(talk.CommandNavigate,
		"Starts or ends navigation on the person's device. Call it when the person wants to be led somewhere or wants navigation to stop.",
		`{"type":"object","properties":{`+
			`"action":{"type":"string","enum":["open","close"],"description":"open starts navigation, close ends it"},`+
			`"poi_name":{"type":"string","description":"the destination as one would type it into a map, in the person's language; needed for open"},`+
			`"navi_type":{"type":"string","enum":["car","walk","bike"],"description":"how the person travels; car unless they say otherwise"}`+
			`},"required":["action"],"additionalProperties":false}`, navigateArguments),
	deviceFunction(talk.CommandCalendar,
		"Puts an event or a reminder into the person's calendar. Work out the date from the local time that the device reported.",
		`{"type":"object","properties":{`+
			`"action":{"type":"string","enum":["create"]},`+
			`"title":{"type":"string","description":"what it is about, a few words in the person's language"},`+
			`"start_time":{"type":"string","description":"local time as YYYY-MM-DD HH:mm"},`+
			`"end_time":{"type":"string","description":"local time as YYYY-MM-DD HH:mm; one hour after the start if left out"}`+
			`},"required":["action","title","start_time"],"additionalProperties":false}`, calendarArguments),
	deviceFunction(talk.CommandLeave,
		"Ends this conversation on the person's device. Call it only when the person says that they are done or want to leave.",
		`{"type":"object","properties":{},"additionalProperties":false}`, noArguments),
}

// FindDeviceFunction returns the function of a command.
func FindDeviceFunction(name string) (DeviceFunction, bool) {
	for _, d := range DeviceFunctions {
		if d.Name == name {
			return d, true
		}
	}
	return DeviceFunction{}, false
}

func deviceFunction(name, description, parameters string,
	arguments func(map[string]any) (map[string]string, error)) DeviceFunction {
	return DeviceFunction{
		Name: name, Description: description, Parameters: json.RawMessage(parameters),
		Event: func(args map[string]any) (talk.Event, error) {
			checked, err := arguments(args)
			return talk.DoCommand(talk.Command{Name: name, Args: checked}), err
		},
	}
}

func noArguments(map[string]any) (map[string]string, error) { return nil, nil }

func navigateArguments(args map[string]any) (map[string]string, error) {
	action := strings.ToLower(shortText(args["action"]))
	place := shortText(args["poi_name"])
	switch action {
	case "close", "stop", "end", "cancel", "exit":
		return map[string]string{"action": "close"}, nil
	case "open", "start", "begin", "":
	default:
		return nil, fmt.Errorf("action %q is neither open nor close", action)
	}
	if place == "" {
		return nil, errors.New("poi_name is missing")
	}
	return map[string]string{"action": "open", "poi_name": place, "navi_type": naviType(shortText(args["navi_type"]))},
		nil
}

// naviType returns the platform's digit for a means of travel: 0 car, 1 walk, 2 bike
// (sengmitnick/eyeclaw at 9fa98ce, docs/ROKID_LINGZHU_SSE_API.md, Tool Object). Unknown means
// become the platform's first, the car: directions by car are better than none.
func naviType(how string) string {
	switch strings.ToLower(how) {
	case "1", "walk", "walking", "foot", "on foot", "pedestrian", "步行", "走路":
		return "1"
	case "2", "bike", "bicycle", "biking", "cycling", "ride", "riding", "骑行", "骑车", "自行车":
		return "2"
	}
	return "0"
}

func calendarArguments(args map[string]any) (map[string]string, error) {
	if action := strings.ToLower(shortText(args["action"])); action != "" && action != "create" && action != "add" {
		return nil, fmt.Errorf("action %q is not create", action)
	}
	title := shortText(args["title"])
	if title == "" {
		return nil, errors.New("title is missing")
	}
	start, ok := wallClock(shortText(args["start_time"]))
	if !ok {
		return nil, errors.New("start_time is not a time")
	}
	end, ok := wallClock(shortText(args["end_time"]))
	if !ok || !end.After(start) {
		end = start.Add(time.Hour)
	}
	return map[string]string{
		"action": "create", "title": title,
		"start_time": start.Format(calendarLayout), "end_time": end.Format(calendarLayout),
	}, nil
}

// calendarLayout is "YYYY-MM-DD HH:mm", as in davexxx1214/openclaw-lingzhu-skill at 3ec283a,
// skill/extension/src/lingzhu-tools.ts. The platform does not document the format.
const calendarLayout = "2006-01-02 15:04"

// clockLayouts are the forms in which models write a time, with T replaced by a space and slashes
// by dashes. Go accepts a fraction of a second after 05 by itself.
var clockLayouts = []string{
	"2006-1-2 15:04", "2006-1-2 15:04:05",
	"2006-1-2 15:04Z07:00", "2006-1-2 15:04:05Z07:00", "2006-1-2 15:04:05Z0700",
	"2006-1-2 15:04 Z07:00", "2006-1-2 15:04:05 Z07:00",
	"2006年1月2日 15:04", "2006年1月2日 15:04:05", "2006年1月2日15:04",
	"2006-1-2",
}

// wallClock parses a local time. A zone is accepted and ignored: the device reports its local time
// without a zone, so a model that writes one has invented it. A date alone means its first minute.
func wallClock(text string) (time.Time, bool) {
	text = strings.ReplaceAll(text, "/", "-")
	if i := strings.IndexAny(text, "Tt"); i > 0 {
		text = text[:i] + " " + text[i+1:]
	}
	for _, layout := range clockLayouts {
		if t, err := time.Parse(layout, text); err == nil {
			return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC), true
		}
	}
	return time.Time{}, false
}

// shortText returns an argument as one short line. Models write numbers where text is expected.
// Values of other types become "".
func shortText(v any) string {
	switch v := v.(type) {
	case string:
		return OneLine(v, maxDeviceArgument)
	case json.Number:
		return v.String()
	}
	return ""
}

// OneLine returns a text as one line of at most limit characters. Line breaks become "; ", double
// quotes become single ones, and invisible characters are dropped: control and format characters
// can hide text or change its direction.
func OneLine(text string, limit int) string {
	var out strings.Builder
	n, gap := 0, ""
	for _, r := range text {
		switch {
		case r == '\n' || r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029' || r == '\v' || r == '\f':
			gap = "; "
			continue
		case unicode.IsSpace(r):
			if gap == "" {
				gap = " "
			}
			continue
		case !unicode.IsPrint(r) || r == unicode.ReplacementChar:
			continue
		case r == '"':
			r = '\''
		}
		if n > 0 {
			n += len(gap)
		}
		if n >= limit {
			break
		}
		if n > 0 {
			out.WriteString(gap)
		}
		gap = ""
		out.WriteRune(r)
		n++
	}
	return out.String()
}
