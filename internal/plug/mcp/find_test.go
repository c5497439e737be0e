package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// catalogTools are 500 tools: 20 operations on each of 25 kinds of things.
func catalogTools() (tools []tool.Tool) {
	things := []string{"lamp", "thermostat", "camera", "garage gate", "speaker", "vacuum", "calendar event", "reminder",
		"email", "contact", "file", "folder", "note", "issue", "pull request", "repository", "invoice", "customer",
		"order", "shipment", "flight", "hotel", "recipe", "song", "weather alert"}
	does := [][2]string{{"list", "Lists every %s."}, {"get", "Returns the details of one %s."},
		{"create", "Makes a new %s."}, {"update", "Changes properties of a %s."}, {"delete", "Removes a %s for good."},
		{"search", "Searches for a %s by text."}, {"share", "Gives other people access to a %s."},
		{"archive", "Puts a %s away without removing it."}, {"restore", "Brings a removed %s back."},
		{"rename", "Gives a %s another name."}, {"copy", "Duplicates a %s."}, {"move", "Moves a %s to another place."},
		{"watch", "Notifies when a %s changes."}, {"export", "Writes a %s to a file for download."},
		{"import", "Reads a %s from an uploaded file."}, {"comment", "Adds a remark to a %s."},
		{"history", "Tells what happened to a %s before."}, {"turn_on", "Switches a %s on."},
		{"turn_off", "Switches a %s off."}, {"schedule", "Plans a %s for a later time."}}
	for _, thing := range things {
		for _, do := range does {
			tools = append(tools, tool.Tool{Name: strings.ReplaceAll(thing, " ", "_") + "_" + do[0],
				Description: fmt.Sprintf(do[1], thing), Input: json.RawMessage(`{"type":"object","properties":
					{"id":{"type":"string","description":"Its id."}}}`)})
		}
	}
	return tools
}

// tasks are what people ask for, and the tool that does it.
var tasks = map[string]string{
	"switch the lamp on":                      "lamp_turn_on",
	"turn off the speaker":                    "speaker_turn_off",
	"lamp turn on":                            "lamp_turn_on",
	"which cameras are there, list them":      "camera_list",
	"remove an email":                         "email_delete",
	"delete this invoice":                     "invoice_delete",
	"make a new note":                         "note_create",
	"create a calendar event":                 "calendar_event_create",
	"search for a customer":                   "customer_search",
	"find emails by text search":              "email_search",
	"share a folder with people":              "folder_share",
	"rename the file":                         "file_rename",
	"duplicate a recipe":                      "recipe_copy",
	"copy recipe":                             "recipe_copy",
	"move the file to another place":          "file_move",
	"notify me when the pull request changes": "pull_request_watch",
	"download the order as a file, export it": "order_export",
	"import contacts from an uploaded file":   "contact_import",
	"comment on the issue":                    "issue_comment",
	"add a remark to a pull request":          "pull_request_comment",
	"what happened to the shipment before":    "shipment_history",
	"details of a flight":                     "flight_get",
	"change the hotel's properties":           "hotel_update",
	"archive the repository":                  "repository_archive",
	"bring back the removed note":             "note_restore",
	"plan a vacuum for later":                 "vacuum_schedule",
	"schedule a reminder":                     "reminder_schedule",
	"switch the thermostat off":               "thermostat_turn_off",
	"list songs":                              "song_list",
	"weather alerts list":                     "weather_alert_list",
	"garage gate history":                     "garage_gate_history",
	"garage_gate_turn_on":                     "garage_gate_turn_on",
	"makes a new garage gate":                 "garage_gate_create",
	"watch the camera":                        "camera_watch",
}

// Of 500 tools, the one for a task is among the few that are found, and the list that a program has
// before its model stays short.
func TestFindTools(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.register(t, hub.ProviderRef{ID: "catalog", Kind: "test"}, providerFunc(
		func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			return tool.Text(c.Tool + " " + string(c.Args)), nil
		}), catalogTools()...)
	for name, transport := range map[string]sdk.Transport{
		"streamable": &sdk.StreamableClientTransport{Endpoint: r.url + "/mcp?tools=find", HTTPClient: withKey(r.key)},
		"SSE":        &sdk.SSEClientTransport{Endpoint: r.url + "/mcp/sse?tools=find", HTTPClient: withKey(r.key)},
	} {
		t.Run(name, func(t *testing.T) {
			session, err := sdk.NewClient(&sdk.Implementation{Name: "finder"}, nil).Connect(t.Context(), transport, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			list, err := session.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(list.Tools)
			if err != nil || len(list.Tools) != 2 || len(text) > 5<<10 {
				t.Errorf("%d tools of %d bytes: %v", len(list.Tools), len(text), err)
			}
			call := func(name string, args map[string]any) string {
				t.Helper()
				res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
				if err != nil {
					t.Fatal(err)
				}
				return res.Content[0].(*sdk.TextContent).Text
			}
			missed := 0
			for task, want := range tasks {
				var found struct {
					Tools []struct{ Name string }
				}
				if err := json.Unmarshal([]byte(call(findTools, map[string]any{"query": task})), &found); err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(found.Tools, func(x struct{ Name string }) bool {
					return strings.HasSuffix(x.Name, want)
				}) {
					missed++
					t.Logf("%s: %v, not %s", task, found.Tools, want)
				}
			}
			if missed > 0 {
				t.Errorf("of %d tasks, %d do not find their tool", len(tasks), missed)
			}
			if got := call(callTool, map[string]any{"name": "lamp_turn_on", "arguments": map[string]any{"id": "7"}}); got !=
				`lamp_turn_on {"id":"7"}` {
				t.Errorf("the tool gets %s", got)
			}
			if got := call(findTools, map[string]any{"query": "qqqq"}); !strings.Contains(got, "500 tools") {
				t.Errorf("nothing fits: %s", got)
			}
			for name, args := range map[string]map[string]any{findTools: {"query": "x", "limit": 99},
				callTool: {"name": callTool}} {
				res, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
				if err == nil && !res.IsError {
					t.Errorf("%s takes %v", name, args)
				}
			}
		})
	}
}

// An address can name a set of tools, which narrows what the key may use; one that does not exist
// is refused.
func TestToolSetInTheAddress(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.register(t, hub.ProviderRef{ID: "a", Kind: "k", Slug: "lamp", Owner: r.Person.ID}, providerFunc(
		func(context.Context, *tool.Call) (*tool.Result, error) { return tool.Text("done"), nil }),
		tool.Tool{Name: "on"}, tool.Tool{Name: "off"}, tool.Tool{Name: "reset", Dangerous: true})
	if err := r.Store.ToolSets.Save(t.Context(), store.ToolSet{Owner: r.Person.ID, Name: "home",
		Tools: []string{"lamp_on", "lamp_reset"}, Created: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if err := r.Hub.RefreshTools(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := func(query, key string) (names string, err error) {
		session, err := sdk.NewClient(&sdk.Implementation{Name: "c"}, nil).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: r.url + "/mcp" + query, HTTPClient: withKey(key),
				MaxRetries: -1}, nil)
		if err != nil {
			return "", err
		}
		defer session.Close()
		tools, err := session.ListTools(t.Context(), nil)
		if err != nil {
			return "", err
		}
		for _, x := range tools.Tools {
			names += x.Name + " "
		}
		return strings.TrimSpace(names), nil
	}
	daring := r.addKey(t, "daring", `{"dangerous":["*"]}`)
	for _, c := range []struct{ query, key, want string }{
		{"", r.key, "lamp_off lamp_on"},
		{"?set=home", r.key, "lamp_on"},
		{"?set=home", daring, "lamp_on lamp_reset"},
		{"?tools=lamp_reset", daring, "lamp_reset"},
		{"?tools=lamp_reset", r.key, ""},
		{"?set=home&tools=*_off", daring, ""},
	} {
		if got, err := list(c.query, c.key); err != nil || got != c.want {
			t.Errorf("%s: %q, want %q: %v", c.query, got, c.want, err)
		}
	}
	// A value that is missing, or is there twice, does not widen what the program sees.
	for _, query := range []string{"?set=garden", "?set=Home!", "?set=", "?set=home&set=home", "?set=home&set=",
		"?tools=", "?tools=,", "?tools=find&tools=lamp_on", "?set=home;x"} {
		if got, err := list(query, r.key); err == nil {
			t.Errorf("%s: %s", query, got)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/mcp"+query,
			strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := withKey(r.key).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(text),
			"the address has") {
			t.Errorf("%s: %s %s %v", query, resp.Status, text, err)
		}
	}
}

func TestPluggedIn(t *testing.T) {
	for tools, want := range map[int]string{0: "No tools are plugged in.",
		1: "Describe it in other words; 1 tool is plugged in.",
		2: "Describe it in other words; 2 tools are plugged in."} {
		if got := pluggedIn(tools); got != want {
			t.Errorf("%d tools: %q", tools, got)
		}
	}
}
