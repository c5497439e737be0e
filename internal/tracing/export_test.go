package tracing

import (
	"net/http"
	"testing"
	"time"
)

// The delay before a retry is what the collector asks for, within limits.
func TestRetryDelay(t *testing.T) {
	now := time.Date(2026, 11, 26, 9, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "7": 7 * time.Second, "99999999999": maxRetryAfter, "100000000000000000000": 0,
		"Thu, 26 Nov 2026 09:00:30 GMT": 30 * time.Second, "Thu, 26 Nov 2026 08:00:00 GMT": 0,
		"Thu, 26 Nov 2099 09:00:00 GMT": maxRetryAfter,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %s", value, got)
		}
	}
	for _, tt := range []struct {
		err   error
		wait  time.Duration
		again bool
	}{
		{errTest{}, time.Second, true},
		{&statusCode{code: 429}, time.Second, true},
		{&statusCode{code: 503, retry: time.Minute}, time.Minute, true},
		{&statusCode{code: 504, retry: time.Millisecond}, time.Second, true},
		{&statusCode{code: 413, retry: time.Minute}, 0, false},
	} {
		if wait, again := retryDelay(tt.err, time.Second); wait != tt.wait || again != tt.again {
			t.Errorf("%v: %s, %t", tt.err, wait, again)
		}
	}
}

type errTest struct{}

func (errTest) Error() string { return "test" }

// FuzzResponse reads what collectors answer.
func FuzzResponse(f *testing.F) {
	f.Add([]byte("\x0a\x08\x08\x02\x12\x04full"))
	f.Add([]byte("\x12\x0eno such tenant"))
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, body []byte) {
		if n, why := rejected(body); n < 0 || len([]rune(oneLine(why))) > maxWhy {
			t.Errorf("%d, %q", n, why)
		}
		oneLine(refusal(body))
	})
}
