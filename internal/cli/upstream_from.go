package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/mcpregistry"
)

const (
	msgFromServer   = i18n.Message("%s %s, published by %s")
	msgFromContact  = i18n.Message("It would contact %s (%s), and send these headers there:")
	msgFromBare     = i18n.Message("It would contact %s (%s).")
	msgFromRun      = i18n.Message("On the machine of the Patchbay server, it would run: %s")
	msgFromEnv      = i18n.Message("The command would get these variables:")
	msgFromClaim    = i18n.Message("That is what its publisher says. The registry checks only that the name %s is the publisher's.")
	msgFromWays     = i18n.Message("Its ways, to choose one with --way:")
	msgFromInputs   = i18n.Message("Its values, to give with --input NAME=VALUE:")
	msgInputNeeded  = i18n.Message("needed")
	msgInputSecret  = i18n.Message("secret, NAME=@FILE reads it from a file")
	msgInputDefault = i18n.Message("otherwise %s")
	msgInputChoices = i18n.Message("one of %s")
	msgFromSure     = i18n.Message("Add it as %s?")
	msgNoWay        = i18n.Message("%s cannot be added: %s")
	msgNoWays       = i18n.Message("its entry has no address and no package")
	msgNoSuchWay    = i18n.Message("there is no way %d; there are %d")
	msgNotAdded     = i18n.Message("nothing was added; answer y, or give --yes")
)

// fromRegistry returns the settings for a server of the registry, after showing what would be
// contacted or run.
func (c *upstreamAddCmd) fromRegistry(ctx context.Context, sh *shell, at *conn) (control.SettingTexts, error) {
	given, err := sh.pairs(c.Input)
	if err != nil {
		return nil, err
	}
	name, version, _ := strings.Cut(c.From, "@")
	server, err := api.ShowRegistry.Call(ctx, at.Client, control.RegistryRef{Name: name, Version: version})
	if err != nil {
		return nil, err
	}
	way, err := c.chooseWay(&server)
	if err != nil {
		return nil, err
	}
	sh.showWay(&server, way)
	set, err := way.Settings(given)
	if err != nil {
		return nil, err
	}
	if !c.Yes && !sh.confirm(ctx, msgFromSure, c.Name) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, msgNotAdded.Errorf()
	}
	others, err := sh.pairs(c.Set)
	if err != nil {
		return nil, err
	}
	maps.Copy(set, others)
	return set, nil
}

// chooseWay returns the way that was asked for, or the first that can be used.
func (c *upstreamAddCmd) chooseWay(server *mcpregistry.Server) (*mcpregistry.Way, error) {
	if c.Way > 0 {
		if c.Way > len(server.Ways) {
			return nil, usage(msgNoSuchWay, c.Way, len(server.Ways))
		}
		way := &server.Ways[c.Way-1]
		if why := way.Problem(); !why.IsZero() {
			return nil, msgNoWay.Errorf(server.Name, why)
		}
		return way, nil
	}
	why := i18n.Text{Message: msgNoWays}
	for i := range server.Ways {
		if why = server.Ways[i].Problem(); why.IsZero() {
			return &server.Ways[i], nil
		}
	}
	return nil, msgNoWay.Errorf(server.Name, why)
}

// claims returns where that is shown which people read before something is added.
func (sh *shell) claims() io.Writer {
	if sh.json {
		return sh.stderr
	}
	return sh.stdout
}

// showWay shows what a way contacts or runs.
func (sh *shell) showWay(server *mcpregistry.Server, way *mcpregistry.Way) {
	tell := func(m i18n.Message, args ...any) { fmt.Fprintln(sh.claims(), m.In(sh.lang, args...)) }
	tell(msgFromServer, server.Name, plain(server.Version), server.Publisher())
	if server.Description != "" {
		fmt.Fprintln(sh.claims(), plain(server.Description))
	}
	list := func(named []mcpregistry.Named, sep string) {
		for i := range named {
			fmt.Fprintln(sh.claims(), "  "+named[i].Told(sep))
		}
	}
	switch {
	case way.Kind != mcpregistry.Remote:
		tell(msgFromRun, plain(way.String()))
		if len(way.Env) > 0 {
			tell(msgFromEnv)
			list(way.Env, "=")
		}
	case len(way.Headers) > 0:
		tell(msgFromContact, plain(way.String()), way.Transport)
		list(way.Headers, ": ")
	default:
		tell(msgFromBare, plain(way.String()), way.Transport)
	}
	tell(msgFromClaim, server.Publisher())
	sh.showOtherWays(server)
	if len(way.Inputs) > 0 {
		tell(msgFromInputs)
	}
	for i := range way.Inputs {
		fmt.Fprintln(sh.claims(), "  "+sh.inputLine(&way.Inputs[i]))
	}
}

// showOtherWays lists the ways, if there are several.
func (sh *shell) showOtherWays(server *mcpregistry.Server) {
	if len(server.Ways) < 2 {
		return
	}
	fmt.Fprintln(sh.claims(), msgFromWays.In(sh.lang))
	for i := range server.Ways {
		w := &server.Ways[i]
		about := plain(w.String())
		if why := w.Problem(); !why.IsZero() {
			about += " (" + plain(why.In(sh.lang)) + ")"
		}
		fmt.Fprintf(sh.claims(), "  %d  %s  %s\n", i+1, plain(w.Kind), about)
	}
}

// inputLine describes a value that is to be given.
func (sh *shell) inputLine(in *mcpregistry.Input) string {
	var about []string
	if in.Description != "" {
		about = append(about, plain(in.Description))
	}
	if in.Required {
		about = append(about, msgInputNeeded.In(sh.lang))
	}
	if in.Secret {
		about = append(about, msgInputSecret.In(sh.lang))
	}
	if in.Default != "" {
		about = append(about, msgInputDefault.In(sh.lang, plain(in.Default)))
	}
	if len(in.Choices) > 0 {
		about = append(about, msgInputChoices.In(sh.lang, plain(strings.Join(in.Choices, ", "))))
	}
	return plain(in.Name) + "  " + strings.Join(about, "; ")
}
