package gateway

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"slices"
	"strings"

	"patchbay/internal/console/page"
	"patchbay/internal/control"
	"patchbay/internal/tool"
)

// maxCommands bounds how many commands, and how many tools, of a node are listed: it
// publishes what it likes.
const maxCommands = 200

// tried is a command that was carried out, or was not.
type tried struct {
	Command, Params string
	Result          *tool.Result
	Wrong           string
}

// examples are parameters of commands that people know least.
var examples = map[string]string{
	"system.which": `{"bins":["git"]}`, "system.run": `{"command":["uname","-a"]}`, "system.notify": `{"title":"Oven","body":"The cake is done"}`,
	"camera.snap": `{"facing":"front"}`, "location.get": `{}`, "mcp.tools.call.v1": `{"server":"lamp","tool":"set","arguments":{}}`,
	"mcp.tools.call": `{"name":"self.audio_speaker.set_volume","arguments":{"volume":30}}`, "fs.listDir": `{"path":"~"}`,
}

func nodePage(v *page.Visit) { showNode(v, http.StatusOK, tried{}) }

func showNode(v *page.Visit, status int, t tried) {
	n, err := v.House.Control.NodeDetail(v.Context(), v.Caller(), v.PathValue("node"))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Show(status, nodeView(v, &n, t))
}

func nodeLive(v *page.Visit) {
	v.Keep(lookEvery, func(ctx context.Context, send page.Parts) error {
		n, err := v.House.Control.NodeDetail(ctx, v.Caller(), v.PathValue("node"))
		if err != nil {
			return err
		}
		return send("#about", about(v, &n))
	})
}

func rename(v *page.Visit) {
	id := v.PathValue("node")
	if err := v.House.Control.RenameNode(v.Context(), v.Caller(), id, v.FormValue("name")); err != nil {
		v.Fail(err)
		return
	}
	v.To(nodeURL(id))
}

func remove(v *page.Visit) {
	if err := v.House.Control.RemoveNode(v.Context(), v.Caller(), v.PathValue("node")); err != nil {
		v.Fail(err)
		return
	}
	v.To("/gateway")
}

// invoke has a node carry out a command, and shows what came of it where it was asked
// for.
func invoke(v *page.Visit) {
	t := tried{Command: v.FormValue("command"), Params: v.FormValue("params")}
	status := http.StatusOK
	answer, err := v.House.Control.InvokeNode(v.Context(), v.Caller(), v.PathValue("node"), t.Command, t.Params)
	if err != nil {
		if t.Wrong, status = v.Wrong(err); t.Wrong == "" {
			return
		}
	} else {
		t.Result = resultOf(answer)
	}
	if v.Partial() {
		v.Show(status, came(v, t))
		return
	}
	showNode(v, status, t)
}

// some are the first of a list.
func some[T any](list []T) []T { return list[:min(len(list), maxCommands)] }

// byReason sorts the commands that cannot be called: what waits for somebody first.
func byReason(list []control.RefusedCommand) []control.RefusedCommand {
	list = slices.Clone(list)
	order := []string{control.CommandAsked, control.CommandUnsaid, control.CommandDenied}
	slices.SortStableFunc(list, func(a, b control.RefusedCommand) int {
		return slices.Index(order, a.Why) - slices.Index(order, b.Why)
	})
	return some(list)
}

// approval is how far what a node can do is approved.
func approval(v *page.Visit, n *control.Node) string {
	switch n.Approval {
	case control.NodeAsks:
		return v.Say(sayAsks)
	case control.NodeAsksMore:
		return v.Say(sayAsksMore)
	case control.NodeRejected:
		return v.Say(sayRejected)
	}
	return v.Say(sayApproved)
}

func why(v *page.Visit, reason string) string {
	switch reason {
	case control.CommandAsked:
		return v.Say(sayWhyAsked)
	case control.CommandDenied:
		return v.Say(sayWhyDenied)
	}
	return v.Say(sayWhyUnsaid)
}

// params are what was typed for a command.
func (t *tried) params(command string) string {
	if t.Command == command {
		return t.Params
	}
	return ""
}

// described is the id of the example of a command, if there is one.
func described(id, command string) string {
	if examples[command] == "" {
		return ""
	}
	return id + "-example"
}

// resultOf is what a node answered: a result of MCP, a picture of a camera, or any JSON.
func resultOf(answer json.RawMessage) *tool.Result {
	var in struct {
		Payload json.RawMessage `json:"payload"`
	}
	if json.Unmarshal(answer, &in) != nil || len(in.Payload) == 0 {
		return &tool.Result{}
	}
	var p struct {
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
		Format     string          `json:"format"`
		Base64     []byte          `json:"base64"`
	}
	switch err := json.Unmarshal(in.Payload, &p); {
	case err == nil && len(p.Content) > 0 && p.Content[0] == '[':
		return &tool.Result{Content: p.Content, Structured: p.Structured, IsError: p.IsError}
	case err == nil && len(p.Base64) > 0:
		return tool.Picture(mime.TypeByExtension("."+strings.ToLower(p.Format)), p.Base64)
	}
	return &tool.Result{Structured: in.Payload}
}
