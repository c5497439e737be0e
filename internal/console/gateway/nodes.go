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

// maxCommands is how many commands, and how many tools, of a node are listed: a node may publish
// any number.
const maxCommands = 200

// invocation is the invocation of a command, successful or not.
type invocation struct {
	Command, Params string
	Result          *tool.Result
	Wrong           string
}

// examples maps the less known commands to example parameters.
var examples = map[string]string{
	"system.which": `{"bins":["git"]}`, "system.run": `{"command":["uname","-a"]}`,
	"system.notify": `{"title":"Oven","body":"The cake is done"}`,
	"camera.snap":   `{"facing":"front"}`, "location.get": `{}`,
	"mcp.tools.call.v1": `{"server":"lamp","tool":"set","arguments":{}}`,
	"mcp.tools.call":    `{"name":"self.audio_speaker.set_volume","arguments":{"volume":30}}`,
	"fs.listDir":        `{"path":"~"}`,
}

func nodePage(v *page.Visit) { showNode(v, http.StatusOK, invocation{}) }

func showNode(v *page.Visit, status int, t invocation) {
	n, err := v.Instance.Control.NodeDetail(v.Context(), v.Caller(), v.PathValue("node"))
	if err != nil {
		v.Fail(err)
		return
	}
	v.Render(status, nodeView(v, &n, t))
}

func nodeLive(v *page.Visit) {
	v.LiveRefresh(refreshInterval, func(ctx context.Context, send page.SendPart) error {
		n, err := v.Instance.Control.NodeDetail(ctx, v.Caller(), v.PathValue("node"))
		if err != nil {
			return err
		}
		return send("#about", about(v, &n))
	})
}

func rename(v *page.Visit) {
	id := v.PathValue("node")
	if err := v.Instance.Control.RenameNode(v.Context(), v.Caller(), id, v.FormValue("name")); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect(nodeURL(id))
}

func remove(v *page.Visit) {
	if err := v.Instance.Control.RemoveNode(v.Context(), v.Caller(), v.PathValue("node")); err != nil {
		v.Fail(err)
		return
	}
	v.Redirect("/gateway")
}

// invoke runs a command on a node and shows the result beside its form.
func invoke(v *page.Visit) {
	t := invocation{Command: v.FormValue("command"), Params: v.FormValue("params")}
	status := http.StatusOK
	answer, err := v.Instance.Control.InvokeNode(v.Context(), v.Caller(), v.PathValue("node"), t.Command, t.Params)
	if err != nil {
		if t.Wrong, status = v.Wrong(err); t.Wrong == "" {
			return
		}
	} else {
		t.Result = parseResult(answer)
	}
	if v.IsPartial() {
		v.Render(status, invokeResult(v, t))
		return
	}
	showNode(v, status, t)
}

// firstCommands returns at most maxCommands items of a list.
func firstCommands[T any](list []T) []T { return list[:min(len(list), maxCommands)] }

// byReason sorts the commands that cannot be called; those that wait for approval come first.
func byReason(list []control.RefusedCommand) []control.RefusedCommand {
	list = slices.Clone(list)
	order := []string{control.CommandAsked, control.CommandUnsaid, control.CommandDenied}
	slices.SortStableFunc(list, func(a, b control.RefusedCommand) int {
		return slices.Index(order, a.Why) - slices.Index(order, b.Why)
	})
	return firstCommands(list)
}

// approval describes how much of what a node offers is approved.
func approval(v *page.Visit, n *control.Node) string {
	switch n.Approval {
	case control.NodeAsks:
		return v.Text(msgAsks)
	case control.NodeAsksMore:
		return v.Text(msgAsksMore)
	case control.NodeRejected:
		return v.Text(msgRejected)
	}
	return v.Text(msgApproved)
}

func reasonText(v *page.Visit, reason string) string {
	switch reason {
	case control.CommandAsked:
		return v.Text(msgWhyAsked)
	case control.CommandDenied:
		return v.Text(msgWhyDenied)
	}
	return v.Text(msgWhyUnsaid)
}

// params returns the submitted parameters of a command.
func (t *invocation) params(command string) string {
	if t.Command == command {
		return t.Params
	}
	return ""
}

// descriptionID returns the element ID of a command's example, or an empty string.
func descriptionID(id, command string) string {
	if examples[command] == "" {
		return ""
	}
	return id + "-example"
}

// parseResult converts the response of a node: an MCP result, a camera picture, or any JSON.
func parseResult(answer json.RawMessage) *tool.Result {
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
