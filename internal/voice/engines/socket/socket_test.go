package socket

import (
	"testing"
	"time"
)

// Retry-After is seconds or a date.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{"": 0, "7": 7 * time.Second, "-1": 0, "999999": maxRetryAfter,
		"Tue, 24 Nov 2026 12:00:30 GMT": 30 * time.Second, "Tue, 24 Nov 2026 11:00:00 GMT": 0, "soon": 0} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %s", value, got)
		}
	}
}
