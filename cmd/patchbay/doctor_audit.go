package main

import (
	"context"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

const (
	// auditNewest is how many entries of a hash chain are verified; it takes some hundredths of a
	// second.
	auditNewest = 2000
	// auditPatience is the timeout for that on a slow machine.
	auditPatience = 10 * time.Second
)

var (
	sayCheckAudit  = talk.Say{Zh: "调用记录", En: "audit trail"}
	sayAuditNewest = talk.Say{Zh: "最新的 %d 个链节无误", En: "the newest %d links are right"}
	sayAuditBroken = talk.Say{Zh: "最新的链节里有 %d 处问题", En: "%d problem(s) in the newest links"}
	adviceAudit    = talk.Say{Zh: "查看是哪些：patchbay audit verify%s", En: "See which: patchbay audit verify%s"}
)

// audit verifies the newest entries of the audit trail.
func (d *doctor) audit(ctx context.Context, b *app.Base) {
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	s, err := b.Store.Audit.Verify(ctx, store.AuditQuery{Newest: auditNewest})
	switch {
	case err != nil:
		d.fail(sayCheckAudit, d.errorText(err), adviceLook)
	case s.ProblemCount > 0:
		d.fail(sayCheckAudit, sayAuditBroken.In(d.sh.lang, s.ProblemCount), adviceAudit, d.retryFlags)
	default:
		d.ok(sayCheckAudit, sayAuditNewest, s.Links)
	}
}
