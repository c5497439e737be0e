package control

import (
	"context"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
)

// Links of a chain that one request checks: at most maxAuditProblems, a second of one core, and
// auditUsual by default, a tenth of that.
const maxAuditProblems, auditUsual = 100_000, 10_000

// AuditQuery limits a verification of the audit trail.
type AuditQuery struct {
	Newest int    `query:"newest" json:"-"` // number of links of each chain; 0: 10,000
	Expect string `query:"expect" json:"-"` // a head that must be in its chain
}

const msgBadHead = i18n.Message("%q is not a head; one looks like 1.4711.5f2c…, as patchbay audit verify prints it")

// AuditHead parses a head of one of the audit trail's chains.
func AuditHead(text string) (h store.AuditHead, err error) {
	if h.UnmarshalText([]byte(text)) != nil {
		return h, msgBadHead.Errorf(text)
	}
	return h, nil
}

// VerifyAudit verifies the newest links of the audit trail.
func (s *Service) VerifyAudit(ctx context.Context, c Caller, in AuditQuery) (store.AuditState, error) {
	if err := admin(c); err != nil {
		return store.AuditState{}, err
	}
	if in.Newest < 1 {
		in.Newest = auditUsual
	}
	q := store.AuditQuery{Newest: min(in.Newest, maxAuditProblems)}
	if in.Expect != "" {
		h, err := AuditHead(in.Expect)
		if err != nil {
			return store.AuditState{}, Fail(Invalid, msgBadHead, in.Expect)
		}
		q.Expect = []store.AuditHead{h}
	}
	return s.Hub.Store.Audit.Verify(ctx, q)
}
