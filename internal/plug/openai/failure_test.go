package openai

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/netx"
	. "patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/settings"
	"patchbay/internal/talk"
)

func TestAskingAgain(t *testing.T) {
	header := func(name, value string) http.Header { return http.Header{name: {value}} }
	busy := Reply{Status: 429, Code: "rate_limit_exceeded"}
	down := Reply{Status: 503}
	reset := Reply{Reset: true}
	half, second, two := 500*time.Millisecond, time.Second, 2*time.Second
	tests := []struct {
		name    string
		script  []Reply
		retries int
		pauses  []time.Duration
		told    string // of the failure, empty if there is an answer
	}{
		{"429 with Retry-After", []Reply{{Status: 429, Header: header("Retry-After", "3")}}, 0,
			[]time.Duration{3 * time.Second}, ""},
		{"429 with Retry-After-Ms", []Reply{{Status: 429, Header: header("Retry-After-Ms", "120.5")}}, 0,
			[]time.Duration{120*time.Millisecond + 500*time.Microsecond}, ""},
		{"429 with Retry-After of an hour", []Reply{{Status: 429, Header: header("Retry-After", "3600")}}, 0,
			[]time.Duration{maxRetryDelay}, ""},
		{"429 with a Retry-After that has passed", []Reply{{Status: 429,
			Header: header("Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT")}}, 0, []time.Duration{0}, ""},
		{"429 with nonsense", []Reply{{Status: 429, Header: header("Retry-After", "soon")}}, 0, []time.Duration{half},
			""},
		{"503 twice", []Reply{down, down}, 0, []time.Duration{half, second}, ""},
		{"500, 502, 504", []Reply{{Status: 500}, {Status: 502}, {Status: 504}}, 3, []time.Duration{half, second, two},
			""},
		{"503 for ever", []Reply{down, down, down, down}, 0, []time.Duration{half, second}, msgServer.In(i18n.English)},
		{"429 for ever", []Reply{busy, busy, busy}, 0, []time.Duration{half, second}, msgThrottled.In(i18n.English)},
		{"no retries wanted", []Reply{down}, -1, nil, msgServer.In(i18n.English)},
		{"a reset connection", []Reply{reset}, 0, []time.Duration{half}, ""},
		{"cut after the first byte", []Reply{{Body: " ", Header: header("Content-Length", "100")}}, 0, nil,
			msgBroke.In(i18n.English)},
		{"reset for ever", []Reply{reset, reset, reset}, 0, []time.Duration{half, second},
			msgUnreachable.In(i18n.English)},
		{"401", []Reply{{Status: 401}}, 0, nil, msgKey.In(i18n.English)},
		{"403", []Reply{{Status: 403}}, 0, nil, msgKey.In(i18n.English)},
		{"402", []Reply{{Status: 402}}, 0, nil, msgSpent.In(i18n.English)},
		{"429 without credit", []Reply{{Status: 429, Code: "insufficient_quota"}}, 0, nil, msgSpent.In(i18n.English)},
		{"404", []Reply{{Status: 404, Code: "model_not_found"}}, 0, nil, msgUnknown.In(i18n.English)},
		{"400", []Reply{{Status: 400}}, 0, nil, msgRefused.In(i18n.English)},
		{"400 about length", []Reply{{Status: 400, Code: "context_length_exceeded"}}, 0, nil,
			msgTooMuch.In(i18n.English)},
		{"413", []Reply{{Status: 413}}, 0, nil, msgTooMuch.In(i18n.English)},
		{"a redirect", []Reply{{Status: 307, Body: "moved", Header: header("Location",
			"https://elsewhere.example/v1?key=geheim")}}, 0, nil, msgUnknown.In(i18n.English)},
		{"a web page", []Reply{{Body: "<html>hello", Header: header("Content-Type", "text/html; charset=utf-8")}}, 0,
			nil, msgUnknown.In(i18n.English)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, tt.script...)
			b := newRig(t, s.URL, func(s *Settings) { s.Retries = tt.retries })
			h, err := b.ask(t, question("hi"))
			if !slices.Equal(b.pauses, tt.pauses) {
				t.Errorf("paused for %v, want %v", b.pauses, tt.pauses)
			}
			if want := len(tt.pauses) + 1; len(s.Requests()) != want {
				t.Errorf("asked %d times, want %d", len(s.Requests()), want)
			}
			if tt.told == "" {
				if err != nil || h.text() != "Hello there." {
					t.Errorf("got %s, %v", h, err)
				}
				return
			}
			if f := failure(t, err); f.Code != talk.BotFailed || f.Told != tt.told || f.Cause == "" {
				t.Errorf("got %+v, want %q", f, tt.told)
			}
		})
	}
}

func TestARefusedConnectionIsTriedAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	b := newRig(t, "http://"+l.Addr().String()+"/v1?key=geheim", nil)
	_, err = b.ask(t, question("hi"))
	f := failure(t, err)
	if len(b.pauses) != DefaultRetries || f.Code != talk.Unreachable || f.Told != msgUnreachable.In(i18n.English) ||
		!strings.Contains(f.Cause, "refused") {
		t.Errorf("got %+v after pauses of %v", f, b.pauses)
	}
	if all := f.Cause + b.log.String(); strings.Contains(all, "/v1") || strings.Contains(all, "geheim") {
		t.Errorf("the address got out: %s", all)
	}
}

func TestAHostThatDoesNotExistIsNotTriedAgain(t *testing.T) {
	err := &unreachableError{&net.OpError{Op: "dial", Err: &net.DNSError{Name: "x.invalid", IsNotFound: true}}}
	b := newRig(t, "http://x.invalid", nil)
	if _, again := b.retryDelay(err, 0, time.Second); again {
		t.Error("it is tried again")
	}
}

func TestRetriesBackOff(t *testing.T) {
	s := startServer(t, slices.Repeat([]Reply{{Status: 503}}, 8)...)
	b := newRig(t, s.URL, func(s *Settings) { s.Retries, s.FirstByteTimeout = 7, settings.Duration(time.Minute) })
	if _, err := b.ask(t, question("hi")); err == nil {
		t.Error("it was answered")
	}
	want := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second,
		10 * time.Second, 10 * time.Second}
	if !slices.Equal(b.pauses, want) {
		t.Errorf("pauses of %v, want %v", b.pauses, want)
	}
}

func TestNobodyWaitsLongerThanForTheFirstByte(t *testing.T) {
	s := startServer(t, Reply{Status: 503, Header: http.Header{"Retry-After": {"9"}}})
	b := newRig(t, s.URL, func(s *Settings) { s.FirstByteTimeout = settings.Duration(8 * time.Second) })
	_, err := b.ask(t, question("hi"))
	if f := failure(t, err); f.Told != msgServer.In(i18n.English) || len(b.pauses) != 0 {
		t.Errorf("got %+v after pauses of %v; want the server's error at once", f, b.pauses)
	}
}

func TestNothingIsAskedAgainAfterTheFirstByte(t *testing.T) {
	for name, last := range map[string]Step{
		"reset":            Reset(),
		"error object":     Raw(`data: {"error":{"message":"overloaded","type":"server_error","code":503}}` + "\n\n"),
		"error as text":    Raw(`data: {"error":"overloaded"}` + "\n\n"),
		"error event":      Raw("event: error\ndata: {\"message\":\"overloaded\"}\n\n"),
		"error of vLLM":    Raw(`data: {"object":"error","message":"overloaded","code":503}` + "\n\n"),
		"llama.cpp error:": Raw(`error: {"code":503,"message":"overloaded","type":"server_error"}` + "\n\n"),
		"no JSON":          Raw("data: {overloaded\n\n"),
		"JSON, but what":   Raw("data: {\"choices\":\"overloaded\"}\n\n"),
		"endless line":     Raw("data: " + strings.Repeat("overloaded", maxEvent/8) + "\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			sawProgress := make(chan struct{})
			s := startServer(t, Reply{Steps: []Step{Text("Hello"), Wait(sawProgress), last}})
			b := newRig(t, s.URL, nil)
			var got string
			err := b.Answer(testContext(t), question("hi"), func(e talk.Event) error {
				got += e.Text
				close(sawProgress)
				return nil
			})
			f := failure(t, err)
			if got != "Hello" || f.Code != talk.BotFailed || f.Told == "" || len(s.Requests()) != 1 ||
				len(b.pauses) != 0 {
				t.Errorf("got %q, %+v after %d requests", got, f, len(s.Requests()))
			}
			if strings.Contains(name, "rror") && (!strings.Contains(f.Cause, "overloaded") ||
				f.Told != msgServer.In(i18n.English)) {
				t.Errorf("the failure is %+v", f)
			}
		})
	}
}

func TestACutStreamIsNoAnswer(t *testing.T) {
	// A chunked body that ends without its last chunk.
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, _ := http.NewResponseController(w).Hijack()
		defer conn.Close()
		piece := `data: {"choices":[{"delta":{"content":"Hel"}}]}` + "\n\n"
		rw.WriteString("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
		rw.WriteString("2f\r\n" + piece[:47] + "\r\n2\r\n\n\n\r\n")
		rw.Flush()
	}))
	defer cut.Close()
	b := newRig(t, cut.URL, nil)
	h, err := b.ask(t, question("hi"))
	if f := failure(t, err); f.Told != msgBroke.In(i18n.English) || h.text() != "Hel" {
		t.Errorf("got %s, %+v", h, f)
	}
}

func TestAConnectionThatBreaksAfterTheHeadersIsTriedAgain(t *testing.T) {
	var times atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if times.Add(1) > 1 {
			w.Write([]byte(`data: {"choices":[{"delta":{"content":"Hello"}}]}` + "\n\n"))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	b := newRig(t, s.URL, nil)
	if got := b.mustAsk(t, question("hi")).text(); got != "Hello" || times.Load() != 2 {
		t.Errorf("got %q after %d requests", got, times.Load())
	}
}

func TestTheSilenceOfTheModel(t *testing.T) {
	never := make(chan struct{})
	short := settings.Duration(50 * time.Millisecond)
	tests := []struct {
		name   string
		change func(*Settings)
		reply  Reply
		want   error
	}{
		{"before the headers", func(s *Settings) { s.FirstByteTimeout = short }, Reply{Hold: never}, errFirstByte},
		{"after the headers", func(s *Settings) { s.IdleTimeout = short }, Reply{Steps: []Step{Wait(never)}}, errIdle},
		{"in the middle", func(s *Settings) { s.IdleTimeout = short }, Reply{Steps: []Step{Text("Hello"), Wait(never)}},
			errIdle},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startServer(t, tt.reply)
			b := newRig(t, s.URL, tt.change)
			_, err := b.ask(t, question("hi"))
			for len(s.Requests()) == 0 { // the answer ended before the server had read the request
				_, err = b.ask(t, question("hi"))
			}
			if f := failure(t, err); f.Code != talk.TimedOut || f.Cause != tt.want.Error() {
				t.Errorf("got %+v, want %v", f, tt.want)
			}
			if !s.Requests()[0].Disconnected() {
				t.Error("the server got to the end of its answer")
			}
		})
	}
}

func TestASlowListenerIsNotTheModelsSilence(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	s := startServer(t, Reply{Steps: []Step{Text("a"), Wait(first), Text("b"), Wait(second), Text("c")}})
	b := newRig(t, s.URL, func(s *Settings) { s.IdleTimeout = settings.Duration(500 * time.Millisecond) })
	var got string
	err := b.Answer(testContext(t), question("hi"), func(e talk.Event) error {
		switch got += e.Text; got {
		case "a":
			close(first)
		case "ab":
			<-time.After(700 * time.Millisecond) // longer than the idle timeout
			close(second)
		}
		return nil
	})
	if err != nil || got != "abc" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCommentsAreSignsOfLife(t *testing.T) {
	var steps []Step
	for range 10 {
		steps = append(steps, Delay(120*time.Millisecond), Raw(": processing\n\n"))
	}
	s := startServer(t, Reply{Steps: append(steps, Text("Hello"))})
	b := newRig(t, s.URL, func(s *Settings) { s.IdleTimeout = settings.Duration(time.Second) })
	if got := b.mustAsk(t, question("hi")).text(); got != "Hello" {
		t.Errorf("got %q", got)
	}
}

func TestAStreamThatStaysOpenAfterTheFinish(t *testing.T) {
	never := make(chan struct{})
	finish := Raw(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n")
	s := startServer(t,
		Reply{Steps: []Step{Text("Hello"), finish, Wait(never)}},
		Reply{Steps: []Step{Text("Hello"), finish, Reset()}},
		Reply{Steps: []Step{Text("Hello"), Raw("data: [DONE]\n\n"), Wait(never)}},
	)
	b := newRig(t, s.URL, nil)
	ctx := testContext(t)
	for range 3 {
		h := &recordedEvents{}
		if err := b.Answer(ctx, question("hi"), h.emit); err != nil || h.text() != "Hello" {
			t.Errorf("got %s, %v", h, err)
		}
	}
	if ctx.Err() != nil {
		t.Error("only the end of the context ended an answer")
	}
}

func TestAnEndedContextAsksNothing(t *testing.T) {
	s := startServer(t, Reply{Status: 503})
	b := newRig(t, s.URL, nil)
	ctx, cancel := context.WithCancel(t.Context())
	b.sleep = func(ctx context.Context, _ time.Duration) error {
		cancel()
		return netx.Wait(ctx, time.Hour)
	}
	if err := b.Answer(ctx, question("hi"), (&recordedEvents{}).emit); !errors.Is(err, context.Canceled) ||
		len(s.Requests()) != 1 {
		t.Errorf("got %v after %d requests", err, len(s.Requests()))
	}
}

func TestFailuresAreToldInTheLanguageOfTheTurn(t *testing.T) {
	s := startServer(t)
	s.Key = "another"
	turn := question("你好")
	turn.Lang = i18n.Chinese
	_, err := newRig(t, s.URL, nil).ask(t, turn)
	if f := failure(t, err); f.Told != msgKey.In(i18n.Chinese) ||
		f.Sentence(i18n.Chinese) != "处理出错："+msgKey.In(i18n.Chinese) {
		t.Errorf("got %+v", f)
	}
}

func TestNoSecretGetsOut(t *testing.T) {
	const key, session, query = "sk-secret-0123456789", "session-geheim", "q-geheim"
	echo := "bad key sk-secret-0123456789, or sk-sec***6789, Bearer sk-secret-0123456789, session-geheim q-geheim " +
		strings.Repeat("x", maxCause)
	for _, body := range []string{
		`{"error":{"message":"` + echo + `","code":"` + key + `"}}`,
		`{"error":"` + echo + `"}`, echo, `{"detail":[{"msg":"` + echo + `"}]}`,
		`{"error":{"message":"` + strings.Repeat("x", maxCause-10) + key + `"}}`,
	} {
		for _, status := range []int{400, 401, 404, 500} {
			s := startServer(t)
			s.Answer = func(*Request) Reply { return Reply{Status: status, Body: body} }
			b := newRig(t, s.URL+"?key="+query,
				func(s *Settings) { s.Headers = map[string]string{"X-Session": session} })
			_, err := b.ask(t, question("hi"))
			f := failure(t, err)
			check := b.Check(testContext(t))
			if check == nil {
				t.Fatal("the check finds nothing")
			}
			all := f.Told + f.Cause + check.Error() + b.log.String()
			for _, secret := range []string{key, key[:12], "sk-sec", session, query} {
				if strings.Contains(all, secret) {
					t.Errorf("%q got out: %s", secret, all)
				}
			}
			if n := len([]rune(f.Cause)); n > maxCause+100 {
				t.Errorf("the cause has %d characters", n)
			}
		}
	}
}
