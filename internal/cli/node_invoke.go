package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"strings"
	"time"

	"patchbay/internal/api"
	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
)

type nodeInvokeCmd struct {
	Params    string        `help:"The parameters as JSON, or @FILE to read them from a file (- from standard input)." placeholder:"JSON"`
	Timeout   time.Duration `help:"Timeout of the command, up to 10m; default: 30s." placeholder:"TIME" default:"30s"`
	Once      string        `help:"Idempotency key: calls with the same key are executed once." placeholder:"KEY"`
	Out       string        `help:"File to which a returned picture, sound or file is written." placeholder:"FILE"`
	nodeFlags `embed:""`
	Command   string   `arg:"" help:"Name of the command, as listed by node describe."`
	Set       []string `arg:"" optional:"" name:"k=v" help:"Parameters as name=value: parsed as JSON if valid, otherwise strings. name=@FILE reads the value from a file."`
}

// Help returns the command's detailed help with examples.
func (nodeInvokeCmd) Help() string {
	return `The result is written to standard output. The exit code is 1 if the node did not execute the command, or if the tool behind it reports an error. With --once, a repeated call returns the result of the first one for some minutes. Ctrl-C stops waiting, but the node may finish the command.

Examples:

    patchbay node invoke Desktop system.which --params '{"bins":["git"]}'
    patchbay node invoke Phone camera.snap facing=front --out photo.jpg
    patchbay node invoke desk mcp.tools.call name=status
    patchbay node invoke Desktop system.notify title=Oven body="The cake is done" --once cake-1
    echo '{"bins":["git"]}' | patchbay node invoke Desktop system.which --params - --json`
}

// Run calls the command.
func (c *nodeInvokeCmd) Run(ctx context.Context, sh *shell) error {
	if c.Timeout <= 0 {
		return usage(i18n.Message("--timeout is %s; it must be a duration such as 2m"),
			c.Timeout)
	}
	params, err := c.params(sh)
	if err != nil {
		return err
	}
	return c.connect(ctx, sh, func(at *conn) error {
		if at.local {
			return i18n.Message("nodes can be called only while a server runs; start one with: patchbay serve%s").
				Errorf(c.dataFlags.retryFlags())
		}
		within, cancel := context.WithTimeout(ctx, c.Timeout+invokeSpare)
		defer cancel()
		answer, err := api.InvokeNode.Call(within, at.Client, api.NodeCall{Node: c.Node, Command: c.Command,
			Params: params, Timeout: c.Timeout.Milliseconds(), Once: c.Once})
		if err != nil {
			return c.explainError(ctx, at, err)
		}
		if sh.json {
			if err := sh.writeJSON(answer, "  "); err != nil {
				return err
			}
		}
		return sh.showInvoked(answer, c.Command, c.Out)
	})
}

// params returns the parameters from the command line; nil means none.
func (c *nodeInvokeCmd) params(sh *shell) (json.RawMessage, error) {
	set, err := sh.pairs(c.Set)
	if err != nil {
		return nil, err
	}
	given := c.Params
	if given == "-" {
		given = "@-"
	}
	if given, err = sh.value(given); err != nil {
		return nil, fmt.Errorf("--params: %w", err)
	}
	text := []byte(strings.TrimSpace(given))
	switch {
	case c.Params != "" && !json.Valid(text):
		return nil, usage(i18n.Message(`--params must be JSON, such as {"bins":["git"]}`))
	case len(set) == 0 && c.Params == "":
		return nil, nil
	case len(set) == 0:
		return text, nil
	}
	params := map[string]json.RawMessage{}
	if c.Params != "" && (json.Unmarshal(text, &params) != nil || params == nil) {
		return nil, usage(i18n.Message("--params must be a JSON object if name=value parameters are given too"))
	}
	for name, value := range set {
		if params[name], err = argument(nil, value); err != nil {
			return nil, err
		}
	}
	return json.Marshal(params)
}

// invokeSpare is how much longer than the node's timeout the server's response is awaited.
const invokeSpare = 15 * time.Second

// explainError explains why a node was not called, and what to do about it.
func (c *nodeInvokeCmd) explainError(ctx context.Context, at *conn, err error) error {
	e, ok := errors.AsType[*api.ServerError](err)
	if !ok {
		return err
	}
	var d struct {
		Code   string `json:"code"`
		Reason string `json:"reason"`
	}
	if len(e.Details) == 0 || json.Unmarshal(e.Details, &d) != nil {
		return err
	}
	told := strings.TrimSuffix(plain(e.Error()), ".")
	switch {
	case d.Reason == wire.NotAllowlisted:
		return i18n.Message("%s; the server's settings nodes.allow and nodes.deny control which commands can be called").
			Errorf(told)
	case d.Reason == wire.NotDeclared:
		return i18n.Message("%s; its commands are listed by: patchbay node describe %s%s").Errorf(told, quoteWord(c.Node),
			c.retryFlags())
	case d.Reason != wire.NothingDeclared && d.Code != wire.DetailPairChanged && d.Code != wire.DetailNotConnected:
		return err
	}
	n, lookErr := at.node(ctx, c.Node)
	switch {
	case lookErr != nil:
		return err
	case n.PendingRequest != "":
		return i18n.Message("the commands of %s must be approved first: patchbay pair approve %s%s").
			Errorf(n.called(),
				shortID(n.PendingRequest, shortRequest), c.retryFlags())
	case n.Approval == wire.Unapproved:
		return i18n.Message("the commands of %s were rejected; it requests them again when it next connects").
			Errorf(n.called())
	case !*n.Connected && n.seen().IsZero():
		return i18n.Message("%s is not connected").Errorf(n.called())
	case !*n.Connected:
		return i18n.Message("%s is not connected; last seen at %s").Errorf(n.called(),
			n.seen().Local().Format("2006-01-02 15:04:05"))
	}
	return err
}

// invokeResult is a server's response to a call of a node's command.
type invokeResult struct {
	Payload json.RawMessage `json:"payload"`
}

// payload is the part of a result that cannot simply be printed: the content of an MCP result, or a
// camera picture.
type payload struct {
	Content    json.RawMessage `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`

	Format string `json:"format"`
	Base64 []byte `json:"base64"`
}

const msgNodeDone = i18n.Message("Done; the result is empty.")

// showInvoked prints the result of a call, and saves what cannot be printed to the file out, if
// given.
func (sh *shell) showInvoked(answer json.RawMessage, command, out string) error {
	var in invokeResult
	if err := json.Unmarshal(answer, &in); err != nil {
		return i18n.Message("the server returned no result; is it a different version?").Errorf()
	}
	blocks, p := readPayload(in.Payload)
	switch {
	case sh.json:
	case blocks != nil:
		sh.showContent(blocks, p.Structured, out == "")
	case len(in.Payload) == 0:
		sh.say(msgNodeDone)
	default:
		var b bytes.Buffer
		if json.Indent(&b, in.Payload, "", "  ") == nil {
			sh.text(b.String())
		}
	}
	if out != "" {
		if err := sh.save(blocks, out); err != nil {
			return err
		}
	}
	if p.IsError {
		return i18n.Message("%s reported a failure").Errorf(command)
	}
	return nil
}

// readPayload finds texts and pictures in a result. If blocks is empty, the result is just JSON.
func readPayload(text json.RawMessage) (blocks []content, p payload) {
	if json.Unmarshal(text, &p) != nil { // it may have members of these names with other types
		return nil, payload{}
	}
	if len(p.Base64) > 0 {
		kind := mime.TypeByExtension("." + p.Format)
		if kind == "" {
			kind = "application/octet-stream"
		}
		return []content{{Type: "file", MIME: kind, Data: p.Base64}}, p
	}
	if len(p.Content) > 0 && p.Content[0] == '[' && json.Unmarshal(p.Content, &blocks) == nil &&
		(len(blocks) > 0 || len(p.Structured) > 0) {
		return blocks, p
	}
	return nil, p
}
