package control

import (
	"context"

	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// maxAuditProblems bounds how many links of a chain are checked for one request, and auditUsual is
// how many are if nothing is said: a second of one core, or a tenth.
const maxAuditProblems, auditUsual = 100_000, 10_000

// AuditQuery says how much of the audit trail is checked.
type AuditQuery struct {
	Newest int    `query:"newest" json:"-"` // so many links of each chain; 0: 10,000
	Expect string `query:"expect" json:"-"` // a head that has to be in its chain
}

var sayBadHead = talk.Say{
	Zh: "%q 不是链头；链头形如 1.4711.5f2c…，由 patchbay audit verify 打印",
	En: "%q is not a head; one looks like 1.4711.5f2c…, as patchbay audit verify prints it",
}

// AuditHead reads a head of the audit trail's chains that somebody has kept.
func AuditHead(text string) (h store.AuditHead, err error) {
	if h.UnmarshalText([]byte(text)) != nil {
		return h, sayBadHead.Wrong(text)
	}
	return h, nil
}

// VerifyAudit checks the newest of the audit trail.
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
			return store.AuditState{}, Fail(Invalid, sayBadHead, in.Expect)
		}
		q.Expect = []store.AuditHead{h}
	}
	return s.Hub.Store.Audit.Verify(ctx, q)
}
