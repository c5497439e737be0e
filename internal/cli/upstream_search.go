package cli

import (
	"context"
	"slices"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/mcpregistry"
)

type upstreamSearchCmd struct {
	Words       []string `arg:"" help:"Words in the name, title or description; the first one is in the name."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (upstreamSearchCmd) Help() string {
	return `The registry is the official one of MCP, or that of the setting mcp.registry. It checks that a publisher owns the first part of a server's name, such as io.github.somebody; everything else is what the publisher says.

Examples:

    patchbay upstream search weather
    patchbay upstream add weather --from io.github.somebody/weather`
}

const (
	msgServerName  = i18n.Message("SERVER")
	msgVersionHead = i18n.Message("VERSION")
	msgReachedBy   = i18n.Message("REACHED BY")
	msgAboutHead   = i18n.Message("DESCRIPTION")
	msgNoneFound   = i18n.Message("The registry has no server with these words.")
	msgMoreFound   = i18n.Message("There are more; add a word.")
	msgFoundAdd    = i18n.Message("To add one: patchbay upstream add NAME --from SERVER%s")
	msgObsolete    = i18n.Message("deprecated: %s")
)

// Run searches the registry.
func (c *upstreamSearchCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.SearchRegistry.Call(ctx, at.Client, control.RegistryQuery{Search: strings.Join(c.Words, " ")})
		if err != nil {
			return err
		}
		return sh.result(list, func() {
			if len(list.Servers) == 0 {
				sh.say(msgNoneFound)
				return
			}
			var cells [][]string
			for i := range list.Servers {
				s := &list.Servers[i]
				about := s.Description
				if s.Status == "deprecated" {
					about = msgObsolete.In(sh.lang, about)
				}
				cells = append(cells, []string{s.Name, plain(s.Version), waysOf(s), plain(about)})
			}
			sh.table([]i18n.Message{msgServerName, msgVersionHead, msgReachedBy, msgAboutHead}, cells)
			if list.More {
				sh.say(msgMoreFound)
			}
			sh.say(msgFoundAdd, c.retryFlags())
		})
	})
}

// waysOf returns in which ways a server is reached.
func waysOf(s *mcpregistry.Server) string {
	var ways []string
	for i := range s.Ways {
		w := &s.Ways[i]
		name := w.Kind
		if w.Kind == mcpregistry.Remote {
			name = w.Transport
		}
		if name = plain(name); w.Reason == "" && !slices.Contains(ways, name) {
			ways = append(ways, name)
		}
	}
	if len(ways) == 0 {
		return "–"
	}
	return strings.Join(ways, ", ")
}
