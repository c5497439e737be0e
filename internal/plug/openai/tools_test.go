package openai

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"patchbay/internal/talk"
	"patchbay/internal/toolbox"
)

func TestArguments(t *testing.T) {
	tests := []struct {
		name, command, arguments string
		want                     string // the arguments as JSON, or "error"
	}{
		{"photo", "take_photo", `{}`, `null`},
		{"photo, nothing", "take_photo", ``, `null`},
		{"photo, spaces", "take_photo", " \n", `null`},
		{"photo, null", "take_photo", `null`, `null`},
		{"photo, invented", "take_photo", `{"quality":"high"}`, `null`},
		{"photo, a list", "take_photo", `[]`, `error`},
		{"photo, broken", "take_photo", `{`, `error`},
		{"photo, twice", "take_photo", `{}{}`, `error`},
		{"photo, encoded nothing", "take_photo", `""`, `null`},
		{"leave", "notify_agent_off", `{}`, `null`},

		{"open", "take_navigation", `{"action":"open","poi_name":"西湖","navi_type":"bike"}`,
			`{"action":"open","navi_type":"2","poi_name":"西湖"}`},
		{"digits", "take_navigation", `{"action":"open","poi_name":"X","navi_type":"1"}`,
			`{"action":"open","navi_type":"1","poi_name":"X"}`},
		{"a number", "take_navigation", `{"action":"open","poi_name":"X","navi_type":1}`,
			`{"action":"open","navi_type":"1","poi_name":"X"}`},
		{"words", "take_navigation", `{"action":"START","poi_name":"X","navi_type":"Walking"}`,
			`{"action":"open","navi_type":"1","poi_name":"X"}`},
		{"Chinese words", "take_navigation", `{"poi_name":"X","navi_type":"骑行"}`,
			`{"action":"open","navi_type":"2","poi_name":"X"}`},
		{"a ship", "take_navigation", `{"action":"open","poi_name":"X","navi_type":"ship"}`,
			`{"action":"open","navi_type":"0","poi_name":"X"}`},
		{"several lines", "take_navigation", `{"action":"open","poi_name":" West\n Lake "}`,
			`{"action":"open","navi_type":"0","poi_name":"West; Lake"}`},
		{"close", "take_navigation", `{"action":"close","poi_name":"X"}`, `{"action":"close"}`},
		{"no place", "take_navigation", `{"action":"open"}`, `error`},
		{"blank place", "take_navigation", `{"action":"open","poi_name":" "}`, `error`},
		{"place of another type", "take_navigation", `{"action":"open","poi_name":["X"]}`, `error`},
		{"other action", "take_navigation", `{"action":"explode","poi_name":"X"}`, `error`},
		{"encoded twice", "take_navigation", `"{\"action\":\"close\"}"`, `{"action":"close"}`},
		{"fenced", "take_navigation", "```json\n{\"action\":\"close\"}\n```", `{"action":"close"}`},
		{"half fenced", "take_navigation", "```json\n{\"action\":\"close\"}", `error`},

		{"calendar", "control_calendar",
			`{"action":"create","title":"Dentist","start_time":"2026-03-24 09:00","end_time":"2026-03-24 09:30"}`,
			`{"action":"create","end_time":"2026-03-24 09:30","start_time":"2026-03-24 09:00","title":"Dentist"}`},
		{"no end", "control_calendar", `{"title":"Dentist","start_time":"2026-03-24T23:30"}`,
			`{"action":"create","end_time":"2026-03-25 00:30","start_time":"2026-03-24 23:30","title":"Dentist"}`},
		{"end before start", "control_calendar",
			`{"title":"D","start_time":"2026-03-24 09:00","end_time":"2026-03-24 08:00"}`,
			`{"action":"create","end_time":"2026-03-24 10:00","start_time":"2026-03-24 09:00","title":"D"}`},
		{"no title", "control_calendar", `{"action":"create","start_time":"2026-03-24 09:00"}`, `error`},
		{"no start", "control_calendar", `{"action":"create","title":"D"}`, `error`},
		{"start in words", "control_calendar", `{"action":"create","title":"D","start_time":"tomorrow"}`, `error`},
		{"delete", "control_calendar", `{"action":"delete","title":"D","start_time":"2026-03-24 09:00"}`, `error`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := "error"
			args, err := parseArguments(tt.arguments)
			if err == nil {
				var e talk.Event
				if e, err = commandTools[tt.command].event(args); err == nil {
					if e.Kind != talk.KindCommand || e.Command.Name != tt.command {
						t.Fatalf("got %+v", e)
					}
					data, _ := json.Marshal(e.Command.Args)
					got = string(data)
				}
			}
			if got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
		})
	}
}

func TestArgumentsThatAreTooLong(t *testing.T) {
	if _, err := parseArguments(`{"x":"` + strings.Repeat("y", toolbox.MaxArguments) + `"}`); err == nil {
		t.Error("accepted")
	}
	args, err := parseArguments(`{"action":"open","poi_name":"` + strings.Repeat("长", maxArgument*2) + `"}`)
	if err != nil {
		t.Fatal(err)
	}
	e, err := commandTools[talk.CommandNavigate].event(args)
	if n := utf8.RuneCountInString(e.Command.Args["poi_name"]); err != nil || n != maxArgument {
		t.Errorf("a name of %d characters, %v", n, err)
	}
	// Streamed arguments are truncated where they cannot be valid any more.
	var c callAssembler
	for range 100 {
		_ = c.add(fragment{index: new(0), name: "take_photo", arguments: []byte(strings.Repeat("y", 1000))})
	}
	if made := c.take(); len(made) != 1 || len(made[0].arguments) != toolbox.MaxArguments+1 {
		t.Errorf("kept %d calls, the first with %d bytes", len(made), len(made[0].arguments))
	}
}

func TestTheSchemasAreGood(t *testing.T) {
	for name, tool := range commandTools {
		var s struct {
			Type     string
			Function struct {
				Name, Description string
				Parameters        struct {
					Type                 string
					Properties           map[string]struct{ Type string }
					Required             []string
					AdditionalProperties *bool
				}
			}
		}
		if err := json.Unmarshal(tool.schema, &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f := s.Function
		if s.Type != "function" || f.Name != name || f.Description == "" || f.Parameters.Type != "object" ||
			f.Parameters.AdditionalProperties == nil {
			t.Errorf("%s: %s", name, tool.schema)
		}
		for _, r := range f.Parameters.Required {
			if f.Parameters.Properties[r].Type == "" {
				t.Errorf("%s requires %s, which it does not have", name, r)
			}
		}
	}
	for _, c := range allCommands {
		if _, ok := commandTools[c]; !ok {
			t.Errorf("no tool for %s", c)
		}
	}
}

// FuzzArguments gives every tool arbitrary arguments. The output must be short, on one line, in the
// right form, and unchanged when it is read again.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `"{}"`, "```json\n{}\n```", `{"action":"open","poi_name":"西湖","navi_type":1}`,
		`{"action":"create","title":"a\nb","start_time":"2026-03-24T09:00:00Z","end_time":"2026-03-24"}`,
		`{"questions":["a","b"]}`,
		`{"questions":"a"}`, `{"action":`, `{"title":1e999}`,
	} {
		f.Add(seed)
	}
	clock := regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d$`)
	f.Fuzz(func(t *testing.T, text string) {
		args, err := parseArguments(text)
		if err != nil {
			return
		}
		for _, tool := range append([]function{suggestTool}, toolList()...) {
			e, err := tool.event(args)
			if err != nil {
				continue
			}
			if len(e.Suggest) > maxSuggestions {
				t.Fatalf("%q", e.Suggest)
			}
			short := slices.Clone(e.Suggest)
			if e.Command != nil {
				for name, value := range e.Command.Args {
					short = append(short, value)
					if strings.HasSuffix(name, "_time") && !clock.MatchString(value) {
						t.Fatalf("%s is %q", name, value)
					}
				}
				again := map[string]any{}
				for name, value := range e.Command.Args {
					again[name] = value
				}
				e2, err := tool.event(again)
				a, _ := json.Marshal(e)
				b, _ := json.Marshal(e2)
				if err != nil || string(a) != string(b) {
					t.Fatalf("%s became %s, %v", a, b, err)
				}
			}
			for _, s := range short {
				if utf8.RuneCountInString(s) > maxArgument || strings.ContainsAny(s, "\r\n\"\x00\u2028") ||
					!utf8.ValidString(s) {
					t.Fatalf("%s lets %q through", tool.name, s)
				}
			}
		}
	})
}

func toolList() []function {
	var out []function
	for _, c := range allCommands {
		out = append(out, commandTools[c])
	}
	return out
}
