package cli

import (
	"context"
	"strings"
	"unicode"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type toolListCmd struct {
	User        string `help:"Account whose tools are listed; default: all accounts." placeholder:"NAME"`
	All         bool   `help:"Also list tools that are denied, or dangerous and not allowed."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (toolListCmd) Help() string {
	return `Lists the tools of bots and connected upstreams. They are known only while a server runs.

Examples:

    patchbay tool list
    patchbay tool list --user ada --all
    patchbay tool list --json
    patchbay tool list --server https://board.example.org --key $KEY`
}

const (
	msgTool        = i18n.Message("TOOL")
	msgWhat        = i18n.Message("WHAT IT DOES")
	msgFrom        = i18n.Message("FROM")
	msgNoTools     = i18n.Message("There are no tools that may be used. To add a tool server: patchbay upstream add --help")
	msgHiddenTools = i18n.Message("Denied, or dangerous and not allowed: %d more; --all lists them.")
	msgAllowed     = i18n.Message("allowed")
	msgDenied      = i18n.Message("denied")
	msgForPeople   = i18n.Message("for people")
	msgDangerous   = i18n.Message("dangerous")
)

// Run lists the tools.
func (c *toolListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connectTools(ctx, sh, func(at *conn) error {
		all, err := api.ListTools.Call(ctx, at.Client, control.ToolQuery{User: c.User})
		if err != nil {
			return err
		}
		shown := []control.Tool{}
		for _, t := range all.Tools {
			if c.All || t.State == control.ToolAllowed {
				shown = append(shown, t)
			}
		}
		return sh.result(shown, func() {
			if len(shown) > 0 {
				sh.toolTable(shown)
			} else {
				sh.say(msgNoTools)
			}
			if hidden := len(all.Tools) - len(shown); hidden > 0 {
				sh.say(msgHiddenTools, hidden)
			}
		})
	})
}

// connectTools is connect for the tools of what is connected, which only a server knows.
func (f targetFlags) connectTools(ctx context.Context, sh *shell, use func(*conn) error) error {
	return f.connect(ctx, sh, func(at *conn) error {
		if at.local {
			return i18n.Message("tools are known only while a server runs; start one with: patchbay serve%s").
				Errorf(f.retryFlags())
		}
		return use(at)
	})
}

// whatWidth is how many columns of a description are shown.
const whatWidth = 60

func (sh *shell) toolTable(tools []control.Tool) {
	var rows [][]string
	for _, t := range tools {
		what := t.Title
		if what == "" {
			what = t.Description
		}
		rows = append(rows, []string{t.Name, sh.toolState(t), t.OwnerName, provider(t), short(what, whatWidth)})
	}
	sh.table([]i18n.Message{msgTool, msgState, msgOwner, msgFrom, msgWhat}, rows)
}

// provider returns the displayed name of a tool's provider.
func provider(t control.Tool) string {
	if t.ProviderName != "" {
		return plain(t.ProviderName)
	}
	return t.Provider
}

func (sh *shell) toolState(t control.Tool) string {
	switch {
	case t.State == control.ToolAllowed && t.For == "user":
		return msgForPeople.In(sh.lang)
	case t.State == control.ToolAllowed:
		return msgAllowed.In(sh.lang)
	case t.State == control.ToolDenied:
		return msgDenied.In(sh.lang)
	case t.State == control.ToolDangerous:
		return msgDangerous.In(sh.lang)
	case t.State == control.ToolHeld:
		return msgHeld.In(sh.lang)
	}
	return t.State
}

// short returns the beginning of the first line of a text from outside.
func short(text string, most int) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(plain(text)), "\n")
	more := strings.TrimSpace(rest) != ""
	switch {
	case columns(line) <= most && !more:
		return line
	case columns(line) <= most-2:
		return line + " …"
	}
	var b strings.Builder
	n := 1 // the ellipsis
	for _, r := range line {
		if n += columns(string(r)); n > most {
			break
		}
		b.WriteRune(r)
	}
	return strings.TrimRight(b.String(), " ") + "…"
}

// plain removes terminal control characters from a text from outside.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}
