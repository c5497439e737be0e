package cli

import (
	"context"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type pairCodesCmd struct {
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (pairCodesCmd) Help() string {
	return `Lists the setup codes that pair invite has made and that are still valid, with who made them, by which key, and the node that has used them. The codes themselves are secret and are not shown again.

Examples:

    patchbay pair codes
    patchbay pair codes --json`
}

const (
	msgNoSetupCodes  = i18n.Message("No setup code is valid now.")
	msgSetupBy       = i18n.Message("MADE BY")
	msgSetupKey      = i18n.Message("KEY")
	msgSetupUntil    = i18n.Message("VALID UNTIL")
	msgSetupNode     = i18n.Message("USED BY")
	msgSetupUnused   = i18n.Message("not used yet")
	msgSetupCancel   = i18n.Message("To cancel one that was not used: patchbay pair cancel ID%s")
	msgSetupCanceled = i18n.Message("The setup code %s is cancelled: no node can use it.")
)

// Run lists the setup codes.
func (c *pairCodesCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		list, err := api.SetupCodes.Call(ctx, at.Client, control.Empty{})
		if err != nil {
			return err
		}
		return sh.result(list, func() { sh.setupCodesTable(list.Codes, c.retryFlags()) })
	})
}

func (sh *shell) setupCodesTable(list []control.SetupCode, again string) {
	if len(list) == 0 {
		sh.say(msgNoSetupCodes)
		return
	}
	var cells [][]string
	for _, code := range list {
		key, node := "–", msgSetupUnused.In(sh.lang)
		if code.Key != "" {
			key = called(code.KeyName, code.Key)
		}
		if code.Used() {
			node = called(code.NodeName, code.Node)
		}
		cells = append(cells, []string{shortID(code.ID, shortRequest), plain(code.Person), key,
			code.Expires.Local().Format("15:04"), node})
	}
	sh.table([]i18n.Message{msgID, msgSetupBy, msgSetupKey, msgSetupUntil, msgSetupNode}, cells)
	sh.say(msgSetupCancel, again)
}

type pairCancelCmd struct {
	Code        string `arg:"" help:"Id of the setup code or a prefix of it, as pair codes shows it."`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (pairCancelCmd) Help() string {
	return `Cancels a setup code that no node has used yet. From then on it is refused by all instances, and so is the address from which it could be fetched.

Examples:

    patchbay pair cancel 3f2a91c0
    patchbay pair cancel 3f2a91c0 --server https://board.example.org --key $KEY`
}

// Run cancels the setup code.
func (c *pairCancelCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		code, err := api.CancelSetupCode.Call(ctx, at.Client, control.SetupCodeRef{Code: c.Code})
		if err != nil {
			return err
		}
		return sh.result(code, func() { sh.say(msgSetupCanceled, shortID(code.ID, shortRequest)) })
	})
}
