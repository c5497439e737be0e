package eyeclaw

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"patchbay/internal/i18n"
	"patchbay/internal/talk"
)

// FuzzFrame handles one arbitrary message on a subscribed socket with two running turns.
func FuzzFrame(f *testing.F) {
	ident := `"{\"channel\":\"BotChannel\",\"bot_id\":\"7\"}"`
	for _, data := range []string{
		`{"type":"stream_chunk","content":"嘿。","session_id":"t1","sequence":0}`,
		`{"type":"stream_chunk","content":"\n\n","sequence":-1}`,
		`{"type":"stream_chunk","chunk":7,"session_id":null,"sequence":1e9}`,
		`{"type":"stream_end","session_id":"t1"}`,
		`{"type":"stream_summary","session_id":"t1","total_content":"嘿。🦞","total_chunks":2,"content_hash":"-1"}`,
		`{"type":"stream_summary","session_id":"t1","total_content":{},"total_chunks":[]}`,
		`{"type":"stream_error","error":{"a":["HTTP error: 404"]},"session_id":"t2"}`,
		`{"type":"stream_error","error":"HTTP error: 404 - Not Found","session_id":"t2"}`,
		`{"action":"ping","timestamp":"x"}`, `{"action":"status"}`, `{"action":"log","level":{},"message":"\ud83e"}`,
		`{"action":"execute_command","command":{"a":[1,2]},"params":{}}`,
		`{"action":"response","content":"x","session_id":"t1"}`,
		`{"action":"command_result"}`, `{"type":"pong"}`, `{}`, ``,
	} {
		s, _ := json.Marshal(data)
		f.Add([]byte(`{"command":"message","identifier":` + ident + `,"data":` + string(s) + `}`))
	}
	for _, s := range []string{
		`{"command":"subscribe","identifier":` + ident + `}`, `{"command":"unsubscribe","identifier":` + ident + `}`,
		`{"command":"subscribe","identifier":"{\"channel\":\"RokidStreamChannel\"}"}`,
		`{"command":"subscribe","identifier":null}`,
		`{"command":"message","identifier":` + ident + `,"data":{"action":"ping"}}`, `{"command":7}`, `null`, `[]`,
		"\xff", ``,
	} {
		f.Add([]byte(s))
	}
	s := New(Options{Registry: nobody{}, Timings: Timings{Ping: time.Hour}})
	f.Cleanup(func() { _ = s.Shutdown(f.Context()) })
	f.Fuzz(func(t *testing.T, b []byte) {
		h := newPluginBot(s, Bot{Number: 7})
		defer h.stop()
		c := newConn(h, socket{}, "ip", "http://x")
		if !h.addConn(c) {
			t.Fatal("no room")
		}
		c.handle([]byte(`{"command":"subscribe","identifier":` + ident + `}`))
		var turns []*turn
		for _, id := range []string{"t1", "t2"} {
			tr, err := h.openTurn(&talk.Turn{ID: id})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := h.dispatch(t.Context(), tr, nil); err != nil {
				t.Fatal(err)
			}
			turns = append(turns, tr)
		}
		c.handle(b)
		c.handle(b)
		h.connLost(c)
		for len(c.out) > 0 {
			o := <-c.out
			if !json.Valid(o.frame) {
				t.Errorf("in answer to %q the server says %q", b, o.frame)
			}
			if len(o.frame) > 2*len(b)+maxLogEcho+1024 {
				t.Errorf("%d bytes are answered by %d", len(b), len(o.frame))
			}
		}
		for _, tr := range turns {
			for st := h.next(tr); st.piece != ""; st = h.next(tr) {
				if !utf8.ValidString(st.piece) {
					t.Errorf("%q makes the invalid text %q", b, st.piece)
				}
			}
			if tr.emitted > tr.emittable || tr.emittable > tr.text.Len() {
				t.Errorf("taken %d of %d of %d", tr.emitted, tr.emittable, tr.text.Len())
			}
			h.closeTurn(tr)
		}
	})
}

type nobody struct{}

func (nobody) Attach(int64, talk.Bot, int, int) func() { return func() {} }
func (nobody) Renew(int64)                             {}

// FuzzSettle checks what must hold for every receipt and summary: no received text is lost, and
// additional text is in the summary.
func FuzzSettle(f *testing.F) {
	f.Add("told", "held", "left", "lefttoldmissingheld", uint8(2), int8(3), false, false)
	f.Add("", "", "", "all of it", uint8(0), int8(3), false, true)
	f.Add("c0 ", "", "c0 c1 ", "c0 c1 c0 and more", uint8(1), int8(2), false, false)
	f.Add("a", "", "", "ba", uint8(1), int8(-1), true, false)
	f.Fuzz(func(t *testing.T, told, held, left, content string, chunks uint8, total int8, overlapped, unsure bool) {
		r := receipt{emitted: told, buffered: held, chunks: int(chunks), overlapped: overlapped,
			leftover: leftover{[]byte(left), unsure}}
		rest, anomaly := r.reconcile(&summary{content, int(total)})
		if rest == held {
			return
		}
		switch {
		case anomaly != "":
			t.Errorf("an anomaly (%s) changed %q into %q", anomaly, held, rest)
		case overlapped:
			t.Error("the summary of an overlapped answer was believed")
		case !strings.HasSuffix(content, told+rest):
			t.Errorf("%q and %q are not the end of %q", told, rest, content)
		case len(rest) < len(held):
			t.Errorf("%q was received, %q is told", held, rest)
		}
	})
}

// FuzzExplain checks that texts for people are short and printable.
func FuzzExplain(f *testing.F) {
	for _, s := range []string{"", "HTTP error: 404 - Not Found", "OpenClaw API error: 500 - <html>", "Bearer x",
		"https://u:p@h/p?token=1", "a\x00b\xff", strings.Repeat("很", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		failure, _ := explain(s, i18n.English)
		if n := utf8.RuneCountInString(failure.Told); n > maxPublicMessage {
			t.Errorf("%d characters: %q", n, failure.Told)
		}
		if len(failure.Cause) > maxCause+len(errIncompatible)+8 || failure.Cause == "" {
			t.Errorf("cause of %d bytes", len(failure.Cause))
		}
		if strings.ContainsAny(failure.Told, "\n\r\x00\x1b") || utf8.ValidString(s) && !utf8.ValidString(failure.Told) {
			t.Errorf("told %q", failure.Told)
		}
	})
}
