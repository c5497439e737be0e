package talk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Delivery is how a turn arrived. It tells a request that the network delivers twice from
// a person who says the same thing twice.
type Delivery struct {
	Content string    `json:"content"`           // digest of what was said
	Request string    `json:"request,omitempty"` // see [Turn.Request]
	At      time.Time `json:"at"`
}

// RetryGap is how soon after a request the same bytes are taken for the same request, if
// nothing names it: nobody taps twice in that time and means both.
const RetryGap = 300 * time.Millisecond

// Delivered describes a turn that arrived at a time. Rules that bound it are a part of
// what was said: under others, the answer may be another.
func Delivered(t *Turn, at time.Time) Delivery {
	h := sha256.New()
	fmt.Fprintf(h, "%d\x00%s%d\x00%s", len(t.Bound), t.Bound, len(t.Metadata), t.Metadata)
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
// conversation, with no other turn between them. Equal words alone are no reason.
func (d Delivery) Repeats(earlier Delivery) bool {
	switch {
	case d.Content != earlier.Content:
		return false
	case d.Request != "" && earlier.Request != "":
		return d.Request == earlier.Request
	}
	return d.At.Sub(earlier.At) < RetryGap
}

// traceparent is what the W3C's Trace Context calls so, version 00.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// RequestOf is the name of a request by its traceparent header; "" if it has no valid one.
func RequestOf(header string) string {
	header = strings.TrimSpace(header)
	if !traceparent.MatchString(header) || strings.HasPrefix(header[3:], noTrace) {
		return ""
	}
	return header
}

// noTrace is the trace id that names nothing.
var noTrace = strings.Repeat("0", 32)
