package manual

import (
	"slices"

	"patchbay/internal/i18n"
)

// Group is a part of the table of contents.
type Group struct {
	Title i18n.Message
	Pages []string // names
}

// Titles of the parts.
const (
	msgStart     = i18n.Message("In five minutes")
	msgUse       = i18n.Message("How to")
	msgRun       = i18n.Message("manual\x04Run it")
	msgReference = i18n.Message("Reference")
	msgExplained = i18n.Message("Explanations")
	msgOthers    = i18n.Message("Other pages")
)

// groups is the table of contents.
var groups = []Group{
	{msgStart, []string{"start-glasses", "start-board", "start-openclaw", "start-programs", "start-learn"}},
	{msgUse, []string{"glasses", "binding", "rokid-mcp", "boards", "voice", "bots", "openai", "openclaw", "connector",
		"eyeclaw", "programs", "tools", "tool-servers", "learn", "anki", "console", "people"}},
	{msgRun, []string{"operating", "reach", "security", "scale", "troubleshooting", "upgrade-notes"}},
	{msgReference, []string{"configuration", "commands", "api", "metrics", "errors", "glossary"}},
	{msgExplained, []string{"overview", "how-it-works", "adding-a-plug"}},
}

// Contents returns the parts of the manual with the pages that exist.
func (m *Manual) Contents() []Group {
	var out []Group
	listed := map[string]bool{}
	for _, g := range groups {
		here := Group{Title: g.Title}
		for _, name := range g.Pages {
			if m.pages[name] != nil {
				listed[name] = true
				here.Pages = append(here.Pages, name)
			}
		}
		if len(here.Pages) > 0 {
			out = append(out, here)
		}
	}
	rest := slices.DeleteFunc(m.Names(), func(name string) bool { return listed[name] })
	if len(rest) > 0 {
		out = append(out, Group{msgOthers, rest})
	}
	return out
}
