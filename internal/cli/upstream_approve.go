package cli

import (
	"context"
	"slices"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
)

type upstreamApproveCmd struct {
	upstreamFlags `embed:""`
	Tools         []string `arg:"" optional:"" name:"tool" help:"Tools by their names at the server, or instructions; all changes if left out."`
}

// Help returns the command's detailed help with examples.
func (upstreamApproveCmd) Help() string {
	return `Approves the changes that patchbay upstream diff shows at this moment. The tools are offered in their new form at once.

Examples:

    patchbay upstream approve files
    patchbay upstream approve files read_file write_file`
}

// Run approves the changes.
func (c *upstreamApproveCmd) Run(ctx context.Context, sh *shell) error {
	return c.find(ctx, sh, func(at *conn, u control.Upstream) error {
		d, err := api.DiffUpstream.Call(ctx, at.Client, control.UpstreamRef{Upstream: u.Number})
		if err != nil {
			return err
		}
		in := control.PinApproval{Upstream: u.Number}
		for _, ch := range d.Changes {
			if name := control.PinName(ch.Kind, ch.Name); len(c.Tools) == 0 || slices.Contains(c.Tools, name) {
				in.Changes = append(in.Changes, control.ApprovedPin{Kind: ch.Kind, Name: ch.Name,
					Fingerprint: ch.Fingerprint})
			}
		}
		for _, name := range c.Tools {
			if !slices.ContainsFunc(in.Changes, func(a control.ApprovedPin) bool {
				return control.PinName(a.Kind, a.Name) == name
			}) {
				return msgPinUnknown.Errorf(name, u.Slug)
			}
		}
		done, err := api.ApproveUpstream.Call(ctx, at.Client, in)
		if err != nil {
			return err
		}
		return sh.result(done, func() {
			sh.say(msgPinsApproved, plain(strings.Join(done.Approved, ", ")))
			if len(done.Changes) > 0 {
				sh.say(msgPinsLeft, len(done.Changes))
			}
		})
	})
}
