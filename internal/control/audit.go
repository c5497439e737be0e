package control

import (
	"context"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/problem"
	"patchbay/internal/store"
)

// Links of a chain that one request checks, unless it asks for all: at most maxAuditProblems, a
// second of one core, and auditUsual by default, a tenth of that.
const maxAuditProblems, auditUsual = 100_000, 10_000

// AuditQuery limits a verification of the audit trail.
type AuditQuery struct {
	Newest int  `query:"newest" json:"-"` // number of links of each chain; 0: 10,000
	All    bool `query:"all" json:"-"`    // check all links, which takes minutes if there are millions
	// Expect are heads that must be in their chains, separated by commas.
	Expect string `query:"expect" json:"-"`
}

// AuditState is the result of a verification.
type AuditState = store.AuditState

// Kinds of problems of the audit trail; see those of store.
const (
	AuditChanged     = store.AuditChanged
	AuditMissing     = store.AuditMissing
	AuditAdded       = store.AuditAdded
	AuditBroken      = store.AuditBroken
	AuditGap         = store.AuditGap
	AuditHeadMissing = store.AuditHeadMissing
	AuditClaim       = store.AuditClaim
)

const msgBadHead = i18n.Message("%q is not a head; one looks like 1.4711.5f2c…, as patchbay audit verify prints it")

// VerifyAudit verifies the newest links of the audit trail, or all.
func (s *Service) VerifyAudit(ctx context.Context, c Caller, in AuditQuery) (AuditState, error) {
	if err := admin(c); err != nil {
		return AuditState{}, err
	}
	if in.Newest < 1 {
		in.Newest = auditUsual
	}
	q := store.AuditQuery{Newest: min(in.Newest, maxAuditProblems)}
	if in.All {
		q.Newest = 0
	}
	if in.Expect != "" {
		for text := range strings.SplitSeq(in.Expect, ",") {
			var h store.AuditHead
			if h.UnmarshalText([]byte(text)) != nil {
				return AuditState{}, problem.New(problem.Invalid, msgBadHead, text)
			}
			q.Expect = append(q.Expect, h)
		}
	}
	return s.Hub.Store.Audit.Verify(ctx, q)
}
