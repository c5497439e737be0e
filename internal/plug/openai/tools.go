package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"patchbay/internal/talk"
)

const (
	// maxArgument limits one argument of a command, in characters. A place or a title has to fit on
	// the display of the glasses.
	maxArgument = 200
	// maxSuggestions is the number of suggestions that glasses show.
	maxSuggestions = 3
	// maxSuggestionLength limits one suggestion, in characters.
	maxSuggestionLength = 60
)

// toolSuggest is the name of the function with which a model suggests questions.
const toolSuggest = "suggest_questions"

// function is a function that is offered to the model.
type function struct {
	name string
	// schema is the function's element of "tools" in the request.
	schema json.RawMessage
	// event converts the arguments of a call to the event for the asker. It is nil for functions of
	// the toolbox.
	event func(args map[string]any) (talk.Event, error)
	// title is the display name of a function of the toolbox.
	title string
}

// commands returns the built-in functions of a turn: the commands that the device supports, in the
// device's order, and suggestions if the owner enabled them.
func (b *Bot) commands(turn *talk.Turn) []function {
	if !b.settings.tools() || b.withoutTools.Load() {
		return nil
	}
	var out []function
	for _, command := range turn.Commands {
		if t, ok := commandTools[command]; ok {
			out = append(out, t)
		}
	}
	if b.settings.Suggest {
		out = append(out, suggestTool)
	}
	return out
}

// functionKinds reports whether functions contains device commands, suggestions and functions of
// the toolbox.
func functionKinds(functions []function) (device, suggest, toolbox bool) {
	for _, f := range functions {
		switch {
		case f.event == nil:
			toolbox = true
		case f.name == toolSuggest:
			suggest = true
		default:
			device = true
		}
	}
	return device, suggest, toolbox
}

func find(functions []function, name string) (function, bool) {
	for _, f := range functions {
		if f.name == name {
			return f, true
		}
	}
	return function{}, false
}

var commandTools = map[string]function{
	talk.CommandTakePhoto: commandTool(talk.CommandTakePhoto,
		"Takes a photo with the camera of the person's device and shows it to you in their next message. "+
			"Call it when the answer depends on what the person sees or points at and no picture of it was sent.",
		`{"type":"object","properties":{},"additionalProperties":false}`, noArguments),
	talk.CommandNavigate: commandTool(talk.CommandNavigate,
		"Starts or ends navigation on the person's device. Call it when the person wants to be led somewhere or wants navigation to stop.",
		`{"type":"object","properties":{`+
			`"action":{"type":"string","enum":["open","close"],"description":"open starts navigation, close ends it"},`+
			`"poi_name":{"type":"string","description":"the destination as one would type it into a map, in the person's language; needed for open"},`+
			`"navi_type":{"type":"string","enum":["car","walk","bike"],"description":"how the person travels; car unless they say otherwise"}`+
			`},"required":["action"],"additionalProperties":false}`, navigateArguments),
	talk.CommandCalendar: commandTool(talk.CommandCalendar,
		"Puts an event or a reminder into the person's calendar. Work out the date from the local time that the device reported.",
		`{"type":"object","properties":{`+
			`"action":{"type":"string","enum":["create"]},`+
			`"title":{"type":"string","description":"what it is about, a few words in the person's language"},`+
			`"start_time":{"type":"string","description":"local time as YYYY-MM-DD HH:mm"},`+
			`"end_time":{"type":"string","description":"local time as YYYY-MM-DD HH:mm; one hour after the start if left out"}`+
			`},"required":["action","title","start_time"],"additionalProperties":false}`, calendarArguments),
	talk.CommandLeave: commandTool(talk.CommandLeave,
		"Ends this conversation on the person's device. Call it only when the person says that they are done or want to leave.",
		`{"type":"object","properties":{},"additionalProperties":false}`, noArguments),
}

var suggestTool = function{
	name: toolSuggest,
	schema: functionSchema(toolSuggest,
		"Shows short questions that the person may want to ask next. Call it along with your answer, never instead of it.",
		json.RawMessage(`{"type":"object","properties":{"questions":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":3,`+
			`"description":"questions as the person would ask them, in their language, a few words each"}},`+
			`"required":["questions"],"additionalProperties":false}`)),
	event: func(args map[string]any) (talk.Event, error) {
		questions, err := suggestArguments(args)
		return talk.Suggest(questions...), err
	},
}

func commandTool(name, description, parameters string, arguments func(map[string]any) (map[string]string,
	error)) function {
	return function{
		name:   name,
		schema: functionSchema(name, description, json.RawMessage(parameters)),
		event: func(args map[string]any) (talk.Event, error) {
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

func suggestArguments(args map[string]any) ([]string, error) {
	list, ok := args["questions"].([]any)
	if !ok {
		list = []any{args["questions"]}
	}
	var out []string
	for _, q := range list {
		if s, ok := q.(string); ok && len(out) < maxSuggestions {
			if s = oneLine(s, maxSuggestionLength); s != "" {
				out = append(out, s)
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("questions are missing")
	}
	return out, nil
}

// shortText returns an argument as one short line. Models write numbers where text is expected.
// Values of other types become "".
func shortText(v any) string {
	switch v := v.(type) {
	case string:
		return oneLine(v, maxArgument)
	case json.Number:
		return v.String()
	}
	return ""
}
