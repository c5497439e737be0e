package main

import (
	"context"
	"strconv"

	"patchbay/internal/app"
	"patchbay/internal/control"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

type auditVerifyCmd struct {
	Expect    []string `help:"A head that was printed earlier, CHAIN.SEQ.HASH; it has to be in its chain still. May be given several times." placeholder:"HEAD"`
	dataFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (auditVerifyCmd) Help() string {
	return `Checks whether calls and the journal are as they were written: each row has a link in a chain of hashes. It works while a server runs. The exit code is 1 if anything is wrong.

Whoever can rewrite the whole database can rewrite the whole chain. Keep the heads that are printed on another machine, and give them with --expect the next time: then the chain cannot be another one.

Examples:

    patchbay audit verify
    patchbay audit verify --json
    patchbay audit verify --expect 1.4711.5f2c…`
}

var (
	sayAuditGood    = talk.Say{Zh: "与写入时一致的记录：%d；检查过的链节：%d", En: "Rows as they were written: %d; links checked: %d"}
	sayAuditBefore  = talk.Say{Zh: "早于这条链、没有链节的记录：%d", En: "Rows without a link, older than the chain: %d"}
	sayAuditExpired = talk.Say{Zh: "到期删除的记录（audit.keep，早于 %[2]s）：%[1]d",
		En: "Deleted by audit.keep, older than %[2]s: %[1]d"}
	sayAuditRemoved   = talk.Say{Zh: "随账户删除的记录：%d", En: "Deleted with the account of their owner: %d"}
	sayAuditForgotten = talk.Say{Zh: "参数已删除的记录：%d", En: "Rows whose arguments were deleted: %d"}
	sayAuditHead      = talk.Say{Zh: "链头：%s", En: "Head: %s"}
	sayAuditWrong     = talk.Say{Zh: "问题：%d", En: "Problems: %d"}
	sayAuditMore      = talk.Say{Zh: "未列出的还有：%d", En: "Not listed: %d"}

	sayAuditProblem = talk.Say{Zh: "问题", En: "PROBLEM"}
	sayAuditRow     = talk.Say{Zh: "记录", En: "ROW"}
	sayAuditLink    = talk.Say{Zh: "链节", En: "LINK"}
)

// auditWords maps the kinds of problems to texts.
var auditWords = map[string]talk.Say{
	store.AuditChanged:     {Zh: "记录被改动", En: "row changed"},
	store.AuditMissing:     {Zh: "记录不见了，没有说明原因", En: "row missing, nothing says why"},
	store.AuditAdded:       {Zh: "记录不是 Patchbay 写入的", En: "row not written by Patchbay"},
	store.AuditBroken:      {Zh: "链节被改动或移动", En: "link changed or moved"},
	store.AuditGap:         {Zh: "从这里起缺少链节", En: "links missing from here"},
	store.AuditHeadMissing: {Zh: "给出的链头不在链里", En: "expected head not in the chain"},
	store.AuditClaim:       {Zh: "链节说这个人已删除，但账户还在", En: "said to be removed, but has an account"},
}

// Run verifies the audit trail.
func (c *auditVerifyCmd) Run(ctx context.Context, sh *shell) error {
	var q store.AuditQuery
	for _, text := range c.Expect {
		h, err := control.AuditHead(text)
		if err != nil {
			return err
		}
		q.Expect = append(q.Expect, h)
	}
	return c.withData(ctx, sh, func(b *app.Base) error {
		s, err := b.Store.Audit.Verify(ctx, q)
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
func (sh *shell) showAuditState(s store.AuditState) {
	sh.say(sayAuditGood, s.Rows, s.Links)
	if s.Unlinked > 0 {
		sh.say(sayAuditBefore, s.Unlinked)
	}
	if s.Expired > 0 {
		sh.say(sayAuditExpired, s.Expired, sh.when(s.Since))
	}
	if s.Removed > 0 {
		sh.say(sayAuditRemoved, s.Removed)
	}
	if s.Forgotten > 0 {
		sh.say(sayAuditForgotten, s.Forgotten)
	}
	for _, h := range s.Heads {
		sh.say(sayAuditHead, h)
	}
	if s.ProblemCount == 0 {
		return
	}
	sh.say(sayAuditWrong, s.ProblemCount)
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
	sh.table([]talk.Say{sayAuditProblem, sayAuditRow, sayAuditLink, sayAt}, rows)
	if more := s.ProblemCount - int64(len(s.Problems)); more > 0 {
		sh.say(sayAuditMore, more)
	}
}
