package cli

import (
	"context"
	"fmt"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type discoverCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (discoverCmd) Help() string {
	return `Looks for model servers such as Ollama, OpenClaw gateways and Wyoming servers on the server's machine, and for those that are announced in its network. For each, it prints the command that plugs it in. Names are what they claim of themselves.

Examples:

    patchbay discover
    patchbay discover --json`
}

const (
	msgDiscoverNone    = i18n.Message("Nothing was found: no model server, OpenClaw gateway or Wyoming server runs on the server's machine or is announced in its network.")
	msgDiscoverUsed    = i18n.Message("plugged in")
	msgDiscoverModels  = i18n.Message("%d models")
	msgDiscoverListens = i18n.Message("understands speech")
	msgDiscoverSpeaks  = i18n.Message("speaks")
	msgDiscoverNet     = i18n.Message("in the network")
	msgDiscoverToken   = i18n.Message("TOKEN-FILE")
)

// Run looks around.
func (c *discoverCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.Discover.Call(ctx, at.Client, control.Empty{})
		if err != nil {
			return err
		}
		return sh.result(list, func() {
			if len(list.Found) == 0 {
				sh.say(msgDiscoverNone)
			}
			for _, d := range list.Found {
				about := strings.Join(append([]string{d.Name, d.Address}, aboutFound(sh.lang, d)...), "  ")
				fmt.Fprintln(sh.stdout, about)
				if !d.Used {
					fmt.Fprintln(sh.stdout, "    "+plugCommand(sh.lang, d)+c.retryFlags())
				}
			}
		})
	})
}

// aboutFound says more of what was found.
func aboutFound(l i18n.Lang, d control.Discovery) (out []string) {
	if d.Kind == control.FoundModel {
		out = append(out, msgDiscoverModels.In(l, len(d.Models)))
	}
	for _, x := range []struct {
		is   bool
		text i18n.Message
	}{{d.Listens, msgDiscoverListens}, {d.Speaks, msgDiscoverSpeaks}, {d.Network, msgDiscoverNet},
		{d.Used, msgDiscoverUsed}} {
		if x.is {
			out = append(out, x.text.In(l))
		}
	}
	return out
}

// plugCommand returns the command that plugs in what was found.
func plugCommand(l i18n.Lang, d control.Discovery) string {
	switch d.Kind {
	case control.FoundWyoming:
		return "patchbay voice setup --wyoming " + quoteWord(d.Address)
	case control.FoundOpenClaw:
		return "patchbay bot add --name claw --kind openclaw --set url=" + quoteWord(d.Address) +
			" --set token=@" + msgDiscoverToken.In(l)
	}
	model := d.ChatModel()
	if model == "" {
		model = "NAME"
	}
	return "patchbay bot add --role companion --kind openai --set base_url=" + quoteWord(d.Address) + " --set model=" +
		quoteWord(model)
}
