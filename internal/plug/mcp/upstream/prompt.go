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
	// maxPromptTools limits the tools that the prompt lists: the model has the full list as
	// well.
	maxPromptTools = 50
	// maxPromptLine limits the description of each tool, and maxGoal the person's goal.
	maxPromptLine = 120
	maxGoal       = 16 << 10
)

// promptUse is the name of an upstream's only prompt.
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

// Prompts implements [tool.PromptProvider].
func (u *upstream) Prompts(_ context.Context, who tool.Caller) ([]tool.Prompt, error) {
	if len(u.tools()) == 0 {
		return nil, nil
	}
	lang := talk.ParseLang(who.Lang, talk.English)
	return []tool.Prompt{{
		Name: promptUse, Title: sayUse.In(lang, u.spec.name()), Description: sayUseWhat.In(lang, u.spec.name()),
		Arguments: []tool.Argument{{Name: "goal", Description: sayGoal.In(lang), Required: true}},
	}}, nil
}

// tools returns the offered tools.
func (u *upstream) tools() []tool.Tool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.catalog.tools
}

// Prompt implements [tool.PromptProvider].
func (u *upstream) Prompt(_ context.Context, c *tool.Call) (*tool.PromptResult, error) {
	if c.Tool != promptUse {
		return nil, tool.ErrNotFound
	}
	var args struct{ Goal string }
	if json.Unmarshal(c.Args, &args) != nil || strings.TrimSpace(args.Goal) == "" || len(args.Goal) > maxGoal {
		return nil, tool.Fail(tool.BadArgs, "goal is needed: what is to be reached, in a few sentences", nil)
	}
	lang := talk.ParseLang(c.Caller.Lang, talk.English)
	return &tool.PromptResult{
		Description: sayUse.In(lang, u.spec.name()),
		Messages:    []tool.Message{tool.TextMessage("user", u.promptText(lang, strings.TrimSpace(args.Goal)))},
	}, nil
}

// promptText returns the instruction to a model for using the tools.
func (u *upstream) promptText(lang talk.Lang, goal string) string {
	var b strings.Builder
	name := u.spec.name()
	b.WriteString(sayGoalDo.In(lang, name, goal) + "\n\n")
	if u.spec.Slug != "" {
		b.WriteString(sayPrefix.In(lang, u.spec.Slug+"_") + " ")
	}
	b.WriteString(sayHas.In(lang, name) + "\n")
	told, more := 0, 0
	for _, t := range u.tools() {
		switch {
		case t.Dangerous: // hidden unless its owner allows it by name
		case told == maxPromptTools:
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

// lineOf describes a tool in one line.
func lineOf(t *tool.Tool) string {
	what := t.Description
	if what == "" {
		what = t.Title
	}
	if what = strings.Join(strings.Fields(what), " "); what == "" {
		return t.Name
	}
	return t.Name + ": " + clip(what, maxPromptLine)
}

// Complete implements [tool.PromptProvider]: there are no completions for a goal.
func (u *upstream) Complete(context.Context, tool.Caller, string, string, string) ([]string, error) {
	return nil, nil
}
