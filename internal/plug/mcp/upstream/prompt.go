package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"patchbay/internal/i18n"
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

// promptUse is the name of the prompt that every upstream with tools has, unless its server has one
// of that name.
const promptUse = "use"

const (
	msgUse     = i18n.Message("Use %s")
	msgUseWhat = i18n.Message("Reach a goal with the tools of %s.")
	msgGoal    = i18n.Message("What is to be reached")
	msgGoalDo  = i18n.Message("Reach this goal with the tools of %s: %s")
	msgPrefix  = i18n.Message("The names of these tools begin with %s.")
	msgHas     = i18n.Message("%s offers:")
	msgMore    = i18n.Message("and %d more.")
	msgHow     = i18n.Message("Call only tools that are in your list of tools. Look before you change anything, say why if something cannot be done, and tell me at the end what was done.")
)

// Prompts implements [tool.PromptProvider].
func (u *upstream) Prompts(_ context.Context, who tool.Caller) ([]tool.Prompt, error) {
	u.mu.Lock()
	k := u.catalog
	u.mu.Unlock()
	if len(k.tools) == 0 || u.hasPrompt(promptUse) {
		return k.prompts, nil
	}
	lang := i18n.ParseLang(who.Lang, i18n.English)
	return append([]tool.Prompt{{
		Name: promptUse, Title: msgUse.In(lang, u.spec.name()), Description: msgUseWhat.In(lang, u.spec.name()),
		Arguments: []tool.Argument{{Name: "goal", Description: msgGoal.In(lang), Required: true}},
	}}, k.prompts...), nil
}

// tools returns the offered tools.
func (u *upstream) tools() []tool.Tool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.catalog.tools
}

// Prompt implements [tool.PromptProvider].
func (u *upstream) Prompt(ctx context.Context, c *tool.Call) (*tool.PromptResult, error) {
	if u.hasPrompt(c.Tool) {
		return u.prompt(ctx, c)
	}
	if c.Tool != promptUse {
		return nil, tool.ErrNotFound
	}
	var args struct{ Goal string }
	if json.Unmarshal(c.Args, &args) != nil || strings.TrimSpace(args.Goal) == "" || len(args.Goal) > maxGoal {
		return nil, tool.Fail(tool.BadArgs, "goal is needed: what is to be reached, in a few sentences", nil)
	}
	lang := i18n.ParseLang(c.Caller.Lang, i18n.English)
	return &tool.PromptResult{
		Description: msgUse.In(lang, u.spec.name()),
		Messages:    []tool.Message{tool.TextMessage("user", u.promptText(lang, strings.TrimSpace(args.Goal)))},
	}, nil
}

// promptText returns the instruction to a model for using the tools.
func (u *upstream) promptText(lang i18n.Lang, goal string) string {
	var b strings.Builder
	name := u.spec.name()
	b.WriteString(msgGoalDo.In(lang, name, goal) + "\n\n")
	if u.spec.Slug != "" {
		b.WriteString(msgPrefix.In(lang, u.spec.Slug+"_") + " ")
	}
	b.WriteString(msgHas.In(lang, name) + "\n")
	told, more := 0, 0
	for _, t := range u.tools() {
		switch {
		case t.Dangerous, t.Held: // hidden unless its owner allows it by name
		case told == maxPromptTools:
			more++
		default:
			told++
			fmt.Fprintf(&b, "- %s\n", lineOf(&t))
		}
	}
	if more > 0 {
		b.WriteString("- " + msgMore.In(lang, more) + "\n")
	}
	b.WriteString("\n" + msgHow.In(lang))
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
