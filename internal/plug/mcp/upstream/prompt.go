package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"patchbay/internal/talk"
	"patchbay/internal/tool"
)

const (
	// promptTools is how many tools a prompt tells of: it goes to a model that has
	// the list besides.
	promptTools = 50
	// promptLine bounds what it tells of each, and maxGoal what a person asks for.
	promptLine = 120
	maxGoal    = 16 << 10
)

// promptUse is the one prompt that an upstream has.
const promptUse = "use"

var (
	sayUse     = talk.Say{Zh: "使用 %s", En: "Use %s"}
	sayUseWhat = talk.Say{Zh: "用 %s 的工具达成一个目标。", En: "Reach a goal with the tools of %s."}
	sayGoal    = talk.Say{Zh: "要达成什么", En: "What is to be reached"}
	sayGoalDo  = talk.Say{
		Zh: "请用 %s 的工具达成这个目标：%s",
		En: "Reach this goal with the tools of %s: %s",
	}
	sayPrefix = talk.Say{
		Zh: "这些工具的名称以 %s 开头。",
		En: "The names of these tools begin with %s.",
	}
	sayHas = talk.Say{
		Zh: "%s 提供：",
		En: "%s offers:",
	}
	sayMore = talk.Say{
		Zh: "还有 %d 个。",
		En: "and %d more.",
	}
	sayHow = talk.Say{
		Zh: "只调用你的工具列表里有的工具。先查看，再改动；做不到的，请说明原因。最后告诉我做了什么。",
		En: "Call only tools that are in your list of tools. Look before you change anything, say why if something cannot be done, and tell me at the end what was done.",
	}
)

// Prompts implements [tool.Promptbook].
func (u *upstream) Prompts(_ context.Context, who tool.Caller) ([]tool.Prompt, error) {
	if len(u.known()) == 0 {
		return nil, nil
	}
	lang := talk.ParseLang(who.Lang, talk.English)
	return []tool.Prompt{{
		Name: promptUse, Title: sayUse.In(lang, u.spec.name()), Description: sayUseWhat.In(lang, u.spec.name()),
		Arguments: []tool.Argument{{Name: "goal", Description: sayGoal.In(lang), Required: true}},
	}}, nil
}

// known are the tools that are offered.
func (u *upstream) known() []tool.Tool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.catalog.tools
}

// Prompt implements [tool.Promptbook].
func (u *upstream) Prompt(_ context.Context, c *tool.Call) (*tool.Written, error) {
	if c.Tool != promptUse {
		return nil, tool.ErrNoSuch
	}
	var args struct{ Goal string }
	if json.Unmarshal(c.Args, &args) != nil || strings.TrimSpace(args.Goal) == "" || len(args.Goal) > maxGoal {
		return nil, tool.Fail(tool.BadArgs, "goal is needed: what is to be reached, in a few sentences", nil)
	}
	lang := talk.ParseLang(c.Caller.Lang, talk.English)
	return &tool.Written{
		Description: sayUse.In(lang, u.spec.name()),
		Messages:    []tool.Message{tool.Says("user", u.advice(lang, strings.TrimSpace(args.Goal)))},
	}, nil
}

// advice is what a model is told to do with the tools.
func (u *upstream) advice(lang talk.Lang, goal string) string {
	var b strings.Builder
	name := u.spec.name()
	b.WriteString(sayGoalDo.In(lang, name, goal) + "\n\n")
	if u.spec.Slug != "" {
		b.WriteString(sayPrefix.In(lang, u.spec.Slug+"_") + " ")
	}
	b.WriteString(sayHas.In(lang, name) + "\n")
	told, more := 0, 0
	for _, t := range u.known() {
		switch {
		case t.Dangerous: // hidden until its owner asks for it by name
		case told == promptTools:
			more++
		default:
			told++
			fmt.Fprintf(&b, "- %s\n", lineOf(&t))
		}
	}
	if more > 0 {
		b.WriteString("- " + sayMore.In(lang, more) + "\n")
	}
	b.WriteString("\n" + sayHow.In(lang))
	return b.String()
}

// lineOf is a tool in one line.
func lineOf(t *tool.Tool) string {
	what := t.Description
	if what == "" {
		what = t.Title
	}
	if what = strings.Join(strings.Fields(what), " "); what == "" {
		return t.Name
	}
	return t.Name + ": " + clip(what, promptLine)
}

// Complete implements [tool.Promptbook]: nobody knows what a person wants.
func (u *upstream) Complete(context.Context, tool.Caller, string, string, string) ([]string, error) {
	return nil, nil
}
