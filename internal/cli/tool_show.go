package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type toolShowCmd struct {
	Tool        string `arg:"" help:"Name of the tool."`
	User        string `help:"Owner of the tool, if several accounts have one with this name." placeholder:"NAME"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolShowCmd) Help() string {
	return `Shows the description of the tool and its input schema (JSON Schema).

Examples:

    patchbay tool show send_message
    patchbay tool show files_read --json`
}

// Run prints the tool.
func (c *toolShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.connectTools(ctx, sh, func(at *conn) error {
		t, err := at.findTool(ctx, c.User, c.Tool)
		if err != nil {
			return err
		}
		if t == nil {
			return i18n.Message("there is no tool %q; patchbay tool list --all lists the tools").Errorf(c.Tool)
		}
		return sh.result(t, func() { sh.showTool(t) })
	})
}

// findTool returns a tool with its schemas; nil if there is none of that name.
func (c *conn) findTool(ctx context.Context, user, name string) (*control.Tool, error) {
	list, err := api.ListTools.Call(ctx, c.Client, control.ToolQuery{User: user, Name: name})
	if err != nil || len(list.Tools) == 0 {
		return nil, err
	}
	if n := len(list.Tools); n > 1 {
		return nil, usage(i18n.Message("%d people have a tool named %s; choose one with --user NAME"), n, name)
	}
	return &list.Tools[0], nil
}

const (
	msgHeadTool     = i18n.Message("%s (%s, from %s)")
	msgToolOriginal = i18n.Message("Its original name is %s; rules and records have that one.")
	msgToolOwner    = i18n.Message("It belongs to %s.")
	msgServerSays   = i18n.Message("Its server says: %s")
	msgReadOnly     = i18n.Message("It is read-only.")
	msgHeadArgs     = i18n.Message("\nArguments")
	msgHeadResult   = i18n.Message("\nResult")
	adviceLetTool   = i18n.Message("To allow it: patchbay tool allow %s")
	adviceSeeRules  = i18n.Message("To list the rules: patchbay tool rules")
)

func (sh *shell) showTool(t *control.Tool) {
	sh.say(msgHeadTool, t.Name, sh.toolState(*t), provider(*t))
	if t.Original != "" {
		sh.say(msgToolOriginal, t.Original)
	}
	if t.OwnerName != "" {
		sh.say(msgToolOwner, t.OwnerName)
	}
	sh.aboutTool(t)
}

// aboutTool prints the description of a tool and its arguments.
func (sh *shell) aboutTool(t *control.Tool) {
	for _, text := range []string{t.Title, t.Description} {
		if text = strings.TrimSpace(plain(text)); text != "" {
			sh.printf("%s\n", text)
		}
	}
	if text := strings.TrimSpace(plain(t.ServerTitle + "\n" + t.ServerDescription)); text != "" {
		sh.say(msgServerSays, text)
	}
	if t.ReadOnly {
		sh.say(msgReadOnly)
	}
	switch t.State {
	case control.ToolDangerous:
		sh.say(adviceLetTool, t.Name)
	case control.ToolDenied:
		sh.say(adviceSeeRules)
	case control.ToolHeld:
		sh.say(adviceHeld)
	}
	sh.schema(msgHeadArgs, t.Input)
	sh.schema(msgHeadResult, t.Output)
}

func (sh *shell) schema(head i18n.Message, schema json.RawMessage) {
	var b bytes.Buffer
	if len(schema) == 0 || json.Indent(&b, schema, "", "  ") != nil {
		return
	}
	sh.say(head)
	sh.printf("%s\n", plain(b.String()))
}
