package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/talk"
)

type toolShowCmd struct {
	Tool        string `arg:"" help:"Name of the tool."`
	User        string `help:"Whose tool, if several people have one of that name." placeholder:"NAME"`
	dataFlags   `embed:""`
	serverFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolShowCmd) Help() string {
	return `It shows what the tool does and, as a JSON Schema, what arguments it takes.

Examples:

    patchbay tool show send_message
    patchbay tool show files_read --json`
}

// Run prints the tool.
func (c *toolShowCmd) Run(ctx context.Context, sh *shell) error {
	r, err := findToolServer(ctx, sh, c.dataFlags, c.serverFlags)
	if err != nil {
		return err
	}
	t, err := r.tool(ctx, c.User, c.Tool)
	if err != nil {
		return err
	}
	if t == nil {
		return talk.Say{Zh: "没有工具 %q；patchbay tool list --all 会列出现有的",
			En: "there is no tool %q; patchbay tool list --all shows those there are"}.Wrong(c.Tool)
	}
	return sh.result(t, func() { sh.showTool(t) })
}

// tool returns a tool with its schemas; nil if there is none of that name.
func (r *remote) tool(ctx context.Context, user, name string) (*api.Tool, error) {
	list, err := r.tools(ctx, user, name)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	if len(list) > 1 {
		return nil, usage(talk.Say{Zh: "有 %d 个人的工具叫 %s；请用 --user 名称 说明是谁的",
			En: "%d people have a tool named %s; say whose with --user NAME"}, len(list), name)
	}
	return &list[0], nil
}

var (
	sayHeadTool    = talk.Say{Zh: "%s（%s，来自 %s）", En: "%s (%s, from %s)"}
	sayToolOwner   = talk.Say{Zh: "属于 %s。", En: "It belongs to %s."}
	sayReadOnly    = talk.Say{Zh: "只读取，不改变任何东西。", En: "It only reads; it changes nothing."}
	sayHeadArgs    = talk.Say{Zh: "\n参数", En: "\nArguments"}
	sayHeadResult  = talk.Say{Zh: "\n结果", En: "\nResult"}
	adviceLetTool  = talk.Say{Zh: "要放行它：patchbay tool allow %s", En: "To allow it: patchbay tool allow %s"}
	adviceSeeRules = talk.Say{Zh: "查看规则：patchbay tool rules", En: "The rules are shown by: patchbay tool rules"}
)

func (sh *shell) showTool(t *api.Tool) {
	sh.say(sayHeadTool, t.Name, sh.toolState(*t), provider(*t))
	if t.OwnerName != "" {
		sh.say(sayToolOwner, t.OwnerName)
	}
	sh.aboutTool(t)
}

// aboutTool prints the description of a tool and its arguments.
func (sh *shell) aboutTool(t *api.Tool) {
	for _, text := range []string{t.Title, t.Description} {
		if text = strings.TrimSpace(plain(text)); text != "" {
			sh.printf("%s\n", text)
		}
	}
	if t.ReadOnly {
		sh.say(sayReadOnly)
	}
	switch t.State {
	case api.ToolDangerous:
		sh.say(adviceLetTool, t.Name)
	case api.ToolDenied:
		sh.say(adviceSeeRules)
	}
	sh.schema(sayHeadArgs, t.Input)
	sh.schema(sayHeadResult, t.Output)
}

func (sh *shell) schema(head talk.Say, schema json.RawMessage) {
	var b bytes.Buffer
	if len(schema) == 0 || json.Indent(&b, schema, "", "  ") != nil {
		return
	}
	sh.say(head)
	sh.printf("%s\n", plain(b.String()))
}
