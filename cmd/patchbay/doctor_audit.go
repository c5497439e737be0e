package main

import (
	"context"
	"time"

	"patchbay/internal/app"
	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

const (
	// auditNewest is how many entries of a hash chain are verified; it takes some hundredths of a
	// second.
	auditNewest = 2000
	// auditPatience is the timeout for that on a slow machine.
	auditPatience = 10 * time.Second
)

const (
	msgCheckAudit  = i18n.Message("audit trail")
	msgAuditNewest = i18n.Message("the newest %d links are right")
	msgAuditBroken = i18n.Message("%d problem(s) in the newest links")
	adviceAudit    = i18n.Message("See which: patchbay audit verify%s")
)

// audit verifies the newest entries of the audit trail.
func (d *doctor) audit(ctx context.Context, b *app.Base) {
	ctx, cancel := context.WithTimeout(ctx, auditPatience)
	defer cancel()
	s, err := b.Store.Audit.Verify(ctx, store.AuditQuery{Newest: auditNewest})
	switch {
	case err != nil:
		d.fail(msgCheckAudit.With(), d.errorText(err), adviceLook)
	case s.ProblemCount > 0:
		d.fail(msgCheckAudit.With(), msgAuditBroken.In(d.sh.lang, s.ProblemCount), adviceAudit, d.retryFlags)
	default:
		d.ok(msgCheckAudit.With(), msgAuditNewest, s.Links)
	}
}
