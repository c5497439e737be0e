package talk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Delivery identifies the request of a turn. It distinguishes a request that the network delivers
// twice from a person who says the same thing twice.
type Delivery struct {
	Content string    `json:"content"`           // digest of the message
	Request string    `json:"request,omitempty"` // see [Turn.Request]
	At      time.Time `json:"at"`
}

// RetryGap is the time within which the same bytes count as the same request, if the requests have
// no traceparent. It is too short for a person to tap twice on purpose.
const RetryGap = 300 * time.Millisecond

// NewDelivery returns the delivery of a turn that arrived at the given time. The digest includes
// the rules of the key, because the answer may depend on them.
func NewDelivery(t *Turn, at time.Time) Delivery {
	h := sha256.New()
	fmt.Fprintf(h, "%d\x00%s%d\x00%s", len(t.KeyRules), t.KeyRules, len(t.Metadata), t.Metadata)
	for _, p := range t.Parts {
		fmt.Fprintf(h, "%d\x00%s", len(p.Text), p.Text)
		if p.Image != nil {
			fmt.Fprintf(h, "%d\x00", len(p.Image.Data))
			h.Write(p.Image.Data)
		}
	}
	return Delivery{Content: hex.EncodeToString(h.Sum(nil)[:16]), Request: t.Request, At: at}
}

// Repeats reports whether d is the same request as an earlier delivery in the same
// conversation, with no other turn between them. Equal content alone is not enough.
func (d Delivery) Repeats(earlier Delivery) bool {
	switch {
	case d.Content != earlier.Content:
		return false
	case d.Request != "" && earlier.Request != "":
		return d.Request == earlier.Request
	}
	return d.At.Sub(earlier.At) < RetryGap
}

// traceparent matches a traceparent header of W3C Trace Context, version 00.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// ParseTraceparent returns a valid traceparent header without spaces around it, or "".
func ParseTraceparent(header string) string {
	header = strings.TrimSpace(header)
	if !traceparent.MatchString(header) || strings.HasPrefix(header[3:], zeroTraceID) {
		return ""
	}
	return header
}

// zeroTraceID is the invalid trace id of W3C Trace Context.
var zeroTraceID = strings.Repeat("0", 32)
