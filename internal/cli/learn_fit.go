package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"patchbay/internal/i18n"
)

type learnFitCmd struct {
	Deck       string `help:"Fit only this deck, which gets weights of its own; default: the settings of all decks, and each deck with settings and at least 1000 reviews of its own." placeholder:"DECK"`
	DryRun     bool   `help:"Dry run: only show what would change."`
	Undo       bool   `help:"Bring back the weights before the last fit."`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnFitCmd) Help() string {
	return `Fits the 21 weights of the memory model to your own reviews, and uses the new weights where they predict these better than those before. Less log-loss and less RMSE are better. Due dates stay as they are. Ctrl-C cancels, and nothing changes.

Examples:

    patchbay learn fit --dry-run
    patchbay learn fit --deck German
    patchbay learn fit --undo`
}

// learnFits is the result of a fit.
type learnFits struct {
	Fits   []learnFit `json:"fits"`
	DryRun bool       `json:"dry_run"`
}

type learnFit struct {
	Deck    string        `json:"deck"`
	Reviews int           `json:"reviews"`
	Learned int           `json:"learned_from"`
	Outcome string        `json:"outcome"`
	Before  *learnMeasure `json:"before"`
	After   *learnMeasure `json:"after"`
	Points  int           `json:"points"`
}

type learnMeasure struct {
	LogLoss float64 `json:"log_loss"`
	RMSE    float64 `json:"rmse"`
}

const (
	msgFitReviews = i18n.Message("REVIEWS")
	msgFitLoss    = i18n.Message("LOG-LOSS")
	msgFitRMSE    = i18n.Message("RMSE")
	msgFitResult  = i18n.Message("RESULT")

	msgFitNew       = i18n.Message("new weights")
	msgFitWouldBe   = i18n.Message("would get new weights")
	msgFitOld       = i18n.Message("the old weights predict as well")
	msgFitTooFew    = i18n.Message("not enough reviews yet")
	msgFitUndone    = i18n.Message("the weights before are back")
	msgFitCanUndo   = i18n.Message("To go back: patchbay learn fit --undo%s")
	msgFitNoneBegun = i18n.Message("There is nothing to fit yet.")
)

// Run fits the memory model.
func (c *learnFitCmd) Run(ctx context.Context, sh *shell) error {
	if c.Undo && c.DryRun {
		return usage(i18n.Message("--undo and --dry-run cannot be used together"))
	}
	return c.open(ctx, sh, func(l learnCaller) error {
		args := map[string]any{}
		if c.Deck != "" {
			args["deck"] = c.Deck
		}
		if c.DryRun {
			args["dry_run"] = true
		}
		if c.Undo {
			args["undo"] = true
		}
		var raw json.RawMessage
		if err := l.call(ctx, "fit_memory", args, &raw); err != nil {
			return err
		}
		var fits learnFits
		if err := json.Unmarshal(raw, &fits); err != nil {
			return err
		}
		return sh.result(raw, func() { c.show(sh, fits) })
	})
}

// show prints what became of a fit.
func (c *learnFitCmd) show(sh *shell, fits learnFits) {
	if len(fits.Fits) == 0 {
		sh.say(msgFitNoneBegun)
		return
	}
	var rows [][]string
	changed := false
	for _, f := range fits.Fits {
		loss, rmse := "-", "-"
		if f.Before != nil && f.After != nil {
			loss = fmt.Sprintf("%.4f → %.4f", f.Before.LogLoss, f.After.LogLoss)
			rmse = fmt.Sprintf("%.4f → %.4f", f.Before.RMSE, f.After.RMSE)
		}
		rows = append(rows, []string{short(f.Deck, deckWidth), strconv.Itoa(f.Learned), loss, rmse,
			fitOutcome(f.Outcome, fits.DryRun).In(sh.lang)})
		changed = changed || f.Outcome == "better" && !fits.DryRun
	}
	sh.table([]i18n.Message{msgLearnDeck, msgFitReviews, msgFitLoss, msgFitRMSE, msgFitResult}, rows)
	if changed {
		sh.say(msgFitCanUndo, c.retryFlags())
	}
}

// fitOutcome describes the outcome of a fit.
func fitOutcome(outcome string, dry bool) i18n.Message {
	switch outcome {
	case "better":
		if dry {
			return msgFitWouldBe
		}
		return msgFitNew
	case "not_better":
		return msgFitOld
	case "undone":
		return msgFitUndone
	}
	return msgFitTooFew
}
