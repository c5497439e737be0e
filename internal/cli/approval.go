package cli

import (
	"context"
	"slices"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
	"patchbay/internal/pin"
)

type approvalListCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (approvalListCmd) Help() string {
	return `Lists the calls of dangerous tools, and of tools for people, that wait for you. A call waits if the rules of its key say so (patchbay key rules KEY --ask owner). After ten minutes it is refused.

Examples:

    patchbay approval list
    patchbay approval list --json`
}

const (
	msgApprovalCaller = i18n.Message("CALLER")
	msgApprovalArgs   = i18n.Message("ARGUMENTS")
	msgNoApprovals    = i18n.Message("No call waits for an approval.")
	msgApprovalHow    = i18n.Message("To allow one: patchbay approval allow ID%[1]s. To refuse one: patchbay approval deny ID%[1]s")
	msgCallAllowed    = i18n.Message("%s may call %s once.")
	msgCallAlways     = i18n.Message("%s may call %s from now on.")
	msgCallDenied     = i18n.Message("%s may not call %s.")
	msgApprovalShown  = i18n.Message("%s wants to call %s (%s, %s), since %s, with:")
	msgApprovalNone   = i18n.Message("no call that waits has the id %q; patchbay approval list lists them")
	msgApprovalMany   = i18n.Message("several calls that wait have ids that begin with %q; give more of it")
)

// Run lists the calls.
func (c *approvalListCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.Approvals.Call(ctx, at.Client, struct{}{})
		if err != nil {
			return err
		}
		owners, err := approvalOwners(ctx, at, list.Approvals)
		if err != nil {
			return err
		}
		return sh.result(list, func() { sh.approvalTable(list.Approvals, owners, c.retryFlags()) })
	})
}

// maxShownArgs limits the arguments in the table, in characters.
const maxShownArgs = 60

// approvalOwners returns the names of the people whose calls wait, by id; nil unless there are
// several, which only those see who may list people.
func approvalOwners(ctx context.Context, at *conn, list []control.WaitingCall) (map[string]string, error) {
	if !slices.ContainsFunc(list, func(a control.WaitingCall) bool { return a.Person != list[0].Person }) {
		return nil, nil
	}
	people, err := api.People.Call(ctx, at.Client, control.Empty{})
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, p := range people.People {
		names[p.ID] = p.Name
	}
	return names, nil
}

// approvalTable prints calls, with their owners if these are given.
func (sh *shell) approvalTable(list []control.WaitingCall, owners map[string]string, again string) {
	if len(list) == 0 {
		sh.say(msgNoApprovals)
		return
	}
	heads := []i18n.Message{msgID, msgApprovalCaller, msgTool, msgAsked, msgApprovalArgs}
	if owners != nil {
		heads = slices.Insert(heads, 1, msgUser)
	}
	var cells [][]string
	for _, a := range list {
		row := []string{shortID(a.ID, shortRequest), short(plain(a.Caller), maxCalled), plain(a.Tool),
			sh.when(a.Asked), short(plain(a.Args), maxShownArgs)}
		if owners != nil {
			row = slices.Insert(row, 1, owners[a.Person])
		}
		cells = append(cells, row)
	}
	sh.table(heads, cells)
	sh.say(msgApprovalHow, again)
}

type approvalShowCmd struct {
	ID          string `arg:"" name:"id" help:"Id of the call or a prefix of it, as shown by approval list."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (approvalShowCmd) Help() string {
	return `Shows a call that waits, with all of its arguments.

Example:

    patchbay approval show 3f2a91c0`
}

// Run shows the call.
func (c *approvalShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		a, err := findApproval(ctx, at, c.ID)
		if err != nil {
			return err
		}
		return sh.result(a, func() {
			sh.say(msgApprovalShown, a.Caller, a.Tool, a.Title, a.Provider, sh.when(a.Asked))
			sh.printf("%s\n", pin.Visible(a.Args))
		})
	})
}

type approvalAllowCmd struct {
	ID          string `arg:"" name:"id" help:"Id of the call or a prefix of it, as shown by approval list."`
	Always      bool   `help:"Also allow the key to call the tool without asking from now on."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (approvalAllowCmd) Help() string {
	return `Allows one call with the arguments that approval show prints. With --always, the tool is added to the dangerous tools that the key may call (patchbay key rules KEY shows them).

Examples:

    patchbay approval allow 3f2a91c0
    patchbay approval allow 3f2a91c0 --always`
}

// Run allows the call.
func (c *approvalAllowCmd) Run(ctx context.Context, sh *shell) error {
	decision, told := control.DecideOnce, msgCallAllowed
	if c.Always {
		decision, told = control.DecideAlways, msgCallAlways
	}
	return decideApproval(ctx, sh, c.targetFlags, c.ID, decision, told)
}

type approvalDenyCmd struct {
	ID          string `arg:"" name:"id" help:"Id of the call or a prefix of it, as shown by approval list."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (approvalDenyCmd) Help() string {
	return `Refuses a call. The program is told so, and the same call is refused for a minute without asking again.

Example:

    patchbay approval deny 3f2a91c0`
}

// Run refuses the call.
func (c *approvalDenyCmd) Run(ctx context.Context, sh *shell) error {
	return decideApproval(ctx, sh, c.targetFlags, c.ID, control.DecideNo, msgCallDenied)
}

func decideApproval(ctx context.Context, sh *shell, target targetFlags, ref, decision string, told i18n.Message) error {
	return target.connect(ctx, sh, func(at *conn) error {
		found, err := findApproval(ctx, at, ref)
		if err != nil {
			return err
		}
		a, err := api.DecideApproval.Call(ctx, at.Client,
			control.ApprovalDecision{Approval: found.ID, Decision: decision})
		if err != nil {
			return err
		}
		return sh.result(a, func() { sh.say(told, a.Caller, a.Tool) })
	})
}

// findApproval finds a call that waits by a prefix of its id.
func findApproval(ctx context.Context, at *conn, ref string) (control.WaitingCall, error) {
	list, err := api.Approvals.Call(ctx, at.Client, struct{}{})
	if err != nil {
		return control.WaitingCall{}, err
	}
	var found []control.WaitingCall
	for _, a := range list.Approvals {
		if strings.HasPrefix(a.ID, ref) {
			found = append(found, a)
		}
	}
	switch len(found) {
	case 0:
		return control.WaitingCall{}, msgApprovalNone.Errorf(ref)
	case 1:
		return found[0], nil
	}
	return control.WaitingCall{}, msgApprovalMany.Errorf(ref)
}
