package cli

import (
	"context"
	"strconv"
	"strings"

	"patchbay/internal/api"
	"patchbay/internal/control"
	"patchbay/internal/i18n"
)

type auditVerifyCmd struct {
	Expect      []string `help:"A head that was printed earlier, CHAIN.SEQ.HASH; its chain must still contain it. Repeatable." placeholder:"HEAD"`
	targetFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (auditVerifyCmd) Help() string {
	return `Verifies the hash chain over tool calls and the journal, which shows whether rows were modified or removed. It can run while a server runs. The exit code is 1 if the verification fails.

An attacker who can rewrite the whole database can rewrite the whole chain. Store the printed heads on another machine and pass them with --expect the next time, to detect a replaced chain.

Examples:

    patchbay audit verify
    patchbay audit verify --json
    patchbay audit verify --expect 1.4711.5f2c…`
}

const (
	msgAuditGood      = i18n.Message("Unchanged rows: %d; links checked: %d")
	msgAuditBefore    = i18n.Message("Rows without a link, older than the chain: %d")
	msgAuditExpired   = i18n.Message("Deleted by audit.keep, older than %[2]s: %[1]d")
	msgAuditRemoved   = i18n.Message("Deleted with the account of their owner: %d")
	msgAuditForgotten = i18n.Message("Rows whose arguments were deleted: %d")
	msgAuditHead      = i18n.Message("Head: %s")
	msgAuditWrong     = i18n.Message("Problems: %d")
	msgAuditMore      = i18n.Message("Not listed: %d")

	msgAuditProblem = i18n.Message("PROBLEM")
	msgAuditRow     = i18n.Message("ROW")
	msgAuditLink    = i18n.Message("LINK")
)

// auditWords maps the kinds of problems to texts.
var auditWords = map[string]i18n.Message{
	control.AuditChanged:     "row changed",
	control.AuditMissing:     "row missing, reason unknown",
	control.AuditAdded:       "row not written by Patchbay",
	control.AuditBroken:      "link changed or moved",
	control.AuditGap:         "links missing from here",
	control.AuditHeadMissing: "expected head not in the chain",
	control.AuditClaim:       "recorded as removed, but has an account",
}

// Run verifies the audit trail.
func (c *auditVerifyCmd) Run(ctx context.Context, sh *shell) error {
	return c.connect(ctx, sh, func(at *conn) error {
		s, err := api.VerifyAudit.Call(ctx, at.Client,
			control.AuditQuery{All: true, Expect: strings.Join(c.Expect, ",")})
		if err != nil {
			return err
		}
		if err := sh.result(s, func() { sh.showAuditState(s) }); err != nil {
			return err
		}
		if s.ProblemCount > 0 {
			return errReported
		}
		return nil
	})
}

// showAuditState prints the result.
func (sh *shell) showAuditState(s control.AuditState) {
	sh.say(msgAuditGood, s.Rows, s.Links)
	if s.Unlinked > 0 {
		sh.say(msgAuditBefore, s.Unlinked)
	}
	if s.Expired > 0 {
		sh.say(msgAuditExpired, s.Expired, sh.when(s.Since))
	}
	if s.Removed > 0 {
		sh.say(msgAuditRemoved, s.Removed)
	}
	if s.Forgotten > 0 {
		sh.say(msgAuditForgotten, s.Forgotten)
	}
	for _, h := range s.Heads {
		sh.say(msgAuditHead, h)
	}
	if s.ProblemCount == 0 {
		return
	}
	sh.say(msgAuditWrong, s.ProblemCount)
	var rows [][]string
	for _, p := range s.Problems {
		row, link, at := "-", "-", "-"
		if p.Row != "" {
			row = plain(p.Row)
		}
		if p.Table != "" {
			row = p.Table + " " + row
		}
		if p.Chain != "" {
			link = plain(p.Chain) + "." + strconv.FormatInt(p.Seq, 10)
		}
		if !p.At.IsZero() {
			at = sh.when(p.At)
		}
		rows = append(rows, []string{auditWords[p.Kind].In(sh.lang), row, link, at})
	}
	sh.table([]i18n.Message{msgAuditProblem, msgAuditRow, msgAuditLink, msgAt}, rows)
	if more := s.ProblemCount - int64(len(s.Problems)); more > 0 {
		sh.say(msgAuditMore, more)
	}
}
