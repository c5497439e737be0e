package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"patchbay/internal/hub"
	"patchbay/internal/jsonrpc"
	"patchbay/internal/tool"
)

// Programs that put every tool before their model can do with two instead, whatever is plugged in:
// one that finds tools, and one that calls them. They choose so by ?tools=find in the address, or
// the owner does by a rule of the key. The tools can be called by their own names as well. Names
// and patterns in the place of find choose the tools that such a program sees.

const (
	findTools, callTool = hub.FindToolsName, hub.CallToolName
	// foundTools is how many tools are found unless the model says, and maxFoundTools the most.
	foundTools, maxFoundTools = 5, 20
	// maxFoundDescription limits the description of a found tool, in bytes.
	maxFoundDescription = 600
)

// choice is which of its tools a program sees.
type choice struct {
	finds bool   // two that find and call the others
	all   bool   // all, whatever the rules of the key say
	only  string // stored rules: those that the address names; empty: all
	set   string // the set that the address names; empty: none
}

// chooseTools narrows a caller to the tools that the address names: in tools find, all, or names
// and patterns separated by commas, also together with find, and in set a set of the person's. Most
// requests have no query.
func (c *caller) chooseTools(h *hub.Hub, r *http.Request) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // what was left out may be what narrows
		return err
	}
	names, err := readChoice(query, "tools")
	if err != nil {
		return err
	}
	var only hub.Rules
	for name := range strings.SplitSeq(names, ",") {
		switch name = strings.TrimSpace(name); name {
		case "":
		case "find":
			c.choice.finds = true
		case "all":
			c.choice.all = true
		default:
			only.Allow = append(only.Allow, h.OriginalName(c.access.Person, name))
		}
	}
	if only.Set, err = readChoice(query, "set"); err != nil {
		return err
	}
	if err := only.Validate(); err != nil {
		return err
	}
	if len(only.Allow) > 0 || only.Set != "" {
		only.Dangerous = []string{"*"} // whether they may be called is for the rules of the key to say
		c.choice.only, c.choice.set = only.String(), only.Set
		c.access.Rules = hub.JoinRules(c.access.Rules, c.choice.only)
	}
	return nil
}

// readChoice returns the value of a name in the address; empty if it is not there. An empty value,
// as a script makes of an unset variable, is refused: without it, the program would see all tools.
func readChoice(query url.Values, name string) (string, error) {
	values, given := query[name]
	switch {
	case !given:
		return "", nil
	case len(values) > 1:
		return "", fmt.Errorf("%s is there %d times; give it once", name, len(values))
	case strings.Trim(values[0], ", ") == "":
		return "", fmt.Errorf("%s names nothing; leave it out to see all tools", name)
	}
	return values[0], nil
}

// finds reports whether the caller sees the two tools that find and call all others.
func (x *exchange) finds(v *hub.View) bool {
	return x.access.Channel != channelLearn && (x.choice.finds || v.FindsTools && !x.choice.all)
}

// isFinder reports whether a called tool is one of these two.
func (x *exchange) isFinder(name string) bool {
	if name != findTools && name != callTool {
		return false
	}
	v, e := x.view()
	return e == nil && x.finds(v)
}

// finderTools is the list of tools for programs that search.
const finderTools = `[{"name":"` + findTools + `","title":"Find tools",` +
	`"description":"Finds tools among all that are plugged in: devices, bots, services. Describe what is to be done in a few words, ` +
	`such as “turn on the light in the kitchen”. The result has names, descriptions and the JSON Schemas of arguments, best first. ` +
	`Call what was found with ` + callTool + `.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"query":{"type":"string","description":"What is to be done, in a few words, or a part of a tool's name."},` +
	`"limit":{"type":"integer","minimum":1,"maximum":20,"default":5,"description":"The most tools to return."}},` +
	`"required":["query"]},"annotations":{"readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}},` +
	`{"name":"` + callTool + `","title":"Call a tool",` +
	`"description":"Calls a tool that ` + findTools + ` has found.",` +
	`"inputSchema":{"type":"object","properties":{` +
	`"name":{"type":"string","description":"The name of the tool, as found."},` +
	`"arguments":{"type":"object","description":"Its arguments, by its inputSchema."}},` +
	`"required":["name"]}}]`

// findTools answers a call of find_tools.
func (x *exchange) findTools(args json.RawMessage) ([]byte, *jsonrpc.Error) {
	in := struct {
		Query string `json:"query"`
		Limit int    `json:"limit"`
	}{Limit: foundTools}
	if err := json.Unmarshal(args, &in); err != nil || in.Query == "" || in.Limit < 1 || in.Limit > maxFoundTools {
		return x.result(tool.ErrorResult("Give query, what is to be done, and limit as a number from 1 to " +
			strconv.Itoa(maxFoundTools) + " or not at all.")), nil
	}
	v, e := x.view()
	if e != nil {
		return nil, e
	}
	type found struct {
		Name        string          `json:"name"`
		Title       string          `json:"title,omitempty"`
		Description string          `json:"description"`
		Input       json.RawMessage `json:"inputSchema"`
	}
	list := []found{}
	for _, t := range v.Find(in.Query, in.Limit) {
		list = append(list, found{t.Name, t.Title, shorten(t.Description, maxFoundDescription), t.Input})
	}
	if len(list) == 0 {
		return x.result(tool.Text("No tool fits. " + pluggedIn(len(v.Tools)))), nil
	}
	text, err := json.Marshal(map[string]any{"tools": list})
	if err != nil {
		return x.callError(err)
	}
	return x.result(tool.Text(string(text))), nil
}

// pluggedIn says how many tools there are to choose from.
func pluggedIn(tools int) string {
	switch tools {
	case 0:
		return "No tools are plugged in."
	case 1:
		return "Describe it in other words; 1 tool is plugged in."
	}
	return "Describe it in other words; " + strconv.Itoa(tools) + " tools are plugged in."
}

// readFoundCall returns the tool and the arguments of a call of call_tool.
func readFoundCall(args json.RawMessage) (name string, own json.RawMessage, e *jsonrpc.Error) {
	for in := jsonrpc.Scan(args); in.Next(); {
		switch string(in.Key) {
		case "name":
			name = jsonrpc.Text(in.Value)
		case "arguments":
			own = in.Value
		}
	}
	if name == "" || name == findTools || name == callTool {
		return "", nil, invalid("name is missing: which of the tools that %s has found?", findTools)
	}
	return name, own, nil
}
