package sim

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/talk"
)

const (
	ids   = `"message_id":"1021","agent_id":"7"`
	hello = "event: message\ndata: {\"role\":\"agent\",\"type\":\"answer\",\"answer_stream\":\"你好\"," + ids +
		",\"is_finish\":false}\n\n"
	last = "event: message\ndata: {\"role\":\"agent\",\"type\":\"answer\",\"answer_stream\":\"\"," + ids +
		",\"is_finish\":true}\n\n"
	done   = "event: done\ndata: {\"role\":\"agent\",\"type\":\"answer\"," + ids + ",\"is_finish\":true}\n\n"
	failed = `{"role":"agent","type":"error","message":"Bot not found: 999","is_finish":true}`
)

// event returns a message with the given fields and those that every message has.
func event(typ, fields string, finish bool) string {
	return `event: message` + "\n" + `data: {"role":"agent","type":"` + typ + `",` + fields + `,` + ids +
		`,"is_finish":` + strconv.FormatBool(finish) + "}\n\n"
}

func ask(t *testing.T, stream string) (Answer, []Event) {
	t.Helper()
	d := newFakeServer(t, says(stream))
	var events []Event
	a, err := glasses(t, Options{URL: d.URL}).Post(t.Context(), DocumentedText("1021", "7", "你好"),
		func(e Event) { events = append(events, e) })
	if err != nil {
		t.Fatal(err)
	}
	return a, events
}

func TestAnswer_good(t *testing.T) {
	photo, navigate := `"tool_call":{"command":"take_photo","handling_required":true,"is_recall":false}`,
		`"tool_call":{"command":"take_navigation","action":"open","poi_name":"西湖","navi_type":"1"}`
	for name, c := range map[string]struct {
		stream string
		want   Answer
	}{
		"text": {": connected\n\n" + hello + ": heartbeat\n\n" + hello + last + done,
			Answer{Text: "你好你好", Pieces: 2, Comments: 2}},
		"at once": {event("answer", `"answer_stream":"好"`, true) + done, Answer{Text: "好", Pieces: 1}},
		"no space": {strings.NewReplacer(": ", ":", "\n", "\r\n").Replace(hello+last+done) + ":\r\n",
			Answer{Text: "你好", Pieces: 1, Comments: 1}},
		"CR":         {"\ufeff" + strings.ReplaceAll(hello+last+done, "\n", "\r"), Answer{Text: "你好", Pieces: 1}},
		"many lines": {strings.ReplaceAll(hello+last+done, ",", ",\ndata: "), Answer{Text: "你好", Pieces: 1}},
		"other fields": {"id: 1\nretry: 100\n" + hello + "data: " +
			strings.TrimPrefix(last, "event: message\ndata: ") + done,
			Answer{Text: "你好", Pieces: 1}},
		"nothing": {last + done, Answer{}},
		"commands": {event("tool_call", navigate, false) + event("tool_call", photo, false) + last + done,
			Answer{Commands: []talk.Command{
				{Name: "take_navigation", Args: map[string]string{"action": "open", "poi_name": "西湖",
					"navi_type": "1"}},
				{Name: "take_photo", Args: map[string]string{"handling_required": "true", "is_recall": "false"}},
			}}},
		"suggestions": {hello + event("follow_up", `"follow_up":["一","二"]`, true) + done,
			Answer{Text: "你好", Pieces: 1, FollowUp: []string{"一", "二"}}},
		"error": {"event: message\ndata: " + failed + "\n\nevent: done\ndata: " + failed + "\n\n",
			Answer{Err: "Bot not found: 999"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, events := ask(t, c.stream)
			if len(got.Violations) > 0 || !got.Finished {
				t.Errorf("finished %v, violations %q", got.Finished, got.Violations)
			}
			if e := events[len(events)-1]; e.Name != "done" || !e.Finish || e.At > got.Total {
				t.Errorf("the last event is %+v", e)
			}
			if (got.First > 0) != (c.want.Text != "" || c.want.Commands != nil) || got.First > got.Total ||
				got.Total <= 0 {
				t.Errorf("first after %v, all after %v", got.First, got.Total)
			}
			got.Finished, got.First, got.Total = false, 0, 0
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestAnswer_violations(t *testing.T) {
	message := func(data string) string { return "event: message\ndata: " + data + "\n\n" }
	without := func(s, field string) string { return strings.Replace(s, field, "", 1) }
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"nothing at all":  {"", []string{"0 messages with is_finish:true", "0 done events"}},
		"no last message": {hello + done, []string{"0 messages with is_finish:true"}},
		"two last messages": {hello + last + last + done, []string{"event 3: a message after the last one",
			"2 messages with is_finish:true"}},
		"text after the last": {last + hello + done, []string{"event 2: a message after the last one"}},
		"no done":             {hello + last, []string{"0 done events"}},
		"two dones":           {hello + last + done + done, []string{"event 4: done after done", "2 done events"}},
		"done is not last":    {hello + done + last, []string{"event 3: message after done"}},
		"done is the start":   {done + last, []string{"event 2: message after done"}},
		"DONE": {hello + last + "data: [DONE]\n\n",
			[]string{`event 3: not a JSON object: "[DONE]"`, "0 done events"}},
		"done is no JSON": {hello + last + "event: done\ndata: [DONE]\n\n",
			[]string{`event 3: not a JSON object: "[DONE]"`}},
		"done without data": {hello + last + "event: done\n\n", []string{"event 3: no data"}},
		"done with text": {last + strings.Replace(done, `"is_finish"`, `"answer_stream":"x","is_finish"`, 1),
			[]string{"event 2: done has an answer_stream"}},
		"done is false": {last + strings.Replace(done, "true", "false", 1),
			[]string{"event 2: done without is_finish:true"}},
		"list":        {message("[1]") + last + done, []string{`event 1: not a JSON object: "[1]"`}},
		"null":        {message("null") + last + done, []string{`event 1: not a JSON object: "null"`}},
		"two objects": {message("{}{}") + last + done, []string{`event 1: not a JSON object: "{}{}"`}},
		"not UTF-8":   {strings.Replace(hello, "你", "\xff", 1) + last + done, []string{"event 1: not UTF-8"}},
		"error event": {"event: error\ndata: {\"message\":\"no\"}\n\n" + last + done,
			[]string{`event 1: the platform knows no event "error"`}},
		"role": {strings.Replace(hello, `"agent"`, `"assistant"`, 1) + last + done,
			[]string{`event 1: role is "assistant"`}},
		"no role": {without(hello, `"role":"agent",`) + last + done,
			[]string{`event 1: role is ""`, "event 1: no role"}},
		"case": {strings.Replace(hello, `"role"`, `"Role"`, 1) + last + done,
			[]string{`event 1: role is ""`, "event 1: no role"}},
		"type": {strings.Replace(hello, `"answer"`, `"text"`, 1) + last + done,
			[]string{`event 1: the platform knows no type "text"`}},
		"other message": {strings.Replace(hello, "1021", "1022", 1) + last + done,
			[]string{`event 1: message_id is "1022" and not "1021"`}},
		"other agent": {hello + last + strings.Replace(done, `"7"`, `"8"`, 1),
			[]string{`event 3: agent_id is "8" and not "7"`}},
		"number": {strings.Replace(hello, `"7"`, `7`, 1) + last + done,
			[]string{`event 1: agent_id is "" and not "7"`, "event 1: agent_id is no text: 7"}},
		"no ids": {without(hello, ","+ids) + last + done,
			[]string{`event 1: message_id is "" and not "1021"`, "event 1: no message_id"}},
		"error, other id": {message(strings.Replace(failed, `"is_f`, `"agent_id":"x","is_f`, 1)) + done,
			[]string{`event 1: agent_id is "x" and not "7"`}},
		"error, no words": {message(without(failed, `"message":"Bot not found: 999",`)) + done,
			[]string{"event 1: no message"}},
		"no is_finish": {without(hello, `,"is_finish":false`) + last + done,
			[]string{"event 1: is_finish is neither true nor false"}},
		"is_finish is a text": {strings.Replace(hello, "false", `"false"`, 1) + last + done,
			[]string{"event 1: is_finish is neither true nor false"}},
		"no text": {event("answer", `"a":0`, false) + last + done, []string{"event 1: no answer_stream"}},
		"text is null": {event("answer", `"answer_stream":null`, false) + last + done,
			[]string{"event 1: answer_stream is no text: null"}},
		"no command": {event("tool_call", `"tool_call":{}`, false) + last + done,
			[]string{`event 1: the platform knows no command ""`, "event 1: no command"}},
		"no tool_call": {event("tool_call", `"x":0`, false) + last + done,
			[]string{"event 1: tool_call is no object: "}},
		"unknown command": {event("tool_call", `"tool_call":{"command":"open_app"}`, false) + last + done,
			[]string{`event 1: the platform knows no command "open_app"`}},
		"unknown argument": {event("tool_call", `"tool_call":{"command":"take_photo","params":{}}`,
			false) + last + done, []string{`event 1: take_photo with params ""`, "event 1: params is no text: {}"}},
		"value of argument": {event("tool_call", `"tool_call":{"command":"take_navigation","navi_type":"car"}`,
			false) + last + done, []string{`event 1: take_navigation with navi_type "car"`}},
		"no suggestions": {event("follow_up", `"follow_up":[]`, false) + last + done,
			[]string{"event 1: follow_up is no list of questions: []"}},
		"four suggestions": {event("follow_up", `"follow_up":["1","2","3","4"]`, false) + last + done,
			[]string{"event 1: 4 suggestions"}},
		"within an event": {hello + last + strings.TrimSuffix(done, "\n"),
			[]string{"the stream ends within an event", "0 done events"}},
		"within a line": {hello + last + done + "event: mess", []string{"the stream ends within an event"}},
		"long event": {hello + "data: " + strings.Repeat("x", maxEvent+1) + "\n\n" + last + done,
			[]string{"the stream broke: an event is longer than 1 MiB"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := ask(t, c.stream)
			for _, want := range c.want {
				if !slices.Contains(a.Violations, want) {
					t.Errorf("violations %q, want %q", a.Violations, want)
				}
			}
		})
	}
}

func TestAnswer_endless(t *testing.T) {
	for name, piece := range map[string]string{
		"text":     strings.Replace(hello, "你好", strings.Repeat("你好", 1000), 1),
		"comments": ": " + strings.Repeat("x", 1000) + "\n\n",
		"no line":  strings.Repeat("x", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			d := newFakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
				for {
					if _, err := io.WriteString(w, piece); err != nil {
						return
					}
				}
			})
			a, err := glasses(t, Options{URL: d.URL}).Post(t.Context(), DocumentedText("1021", "7", "x"), nil)
			if err != nil || a.Finished {
				t.Fatalf("finished: %v, error %v", a.Finished, err)
			}
			want := "the stream is longer than 4 MiB"
			if name == "no line" {
				want = "the stream broke: an event is longer than 1 MiB"
			}
			if !slices.Contains(a.Violations, want) || !slices.Contains(a.Violations, "0 done events") ||
				len(a.Violations) > maxViolations {
				t.Errorf("%d violations: %.200q", len(a.Violations), a.Violations)
			}
		})
	}
}

// stays returns a script that sends a text and then nothing until the client is gone.
func stays(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, text)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func TestAnswer_streamThatStaysOpen(t *testing.T) {
	d := newFakeServer(t, stays(hello+last+done))
	a, err := glasses(t, Options{URL: d.URL}).Post(t.Context(), DocumentedText("1021", "7", "x"), nil)
	if want := []string{"the stream stays open after done"}; err != nil || !reflect.DeepEqual(a.Violations, want) ||
		!a.Finished {
		t.Errorf("violations %q, error %v", a.Violations, err)
	}
}

func TestAnswer_tooSlow(t *testing.T) {
	d := newFakeServer(t, stays(hello))
	a, err := glasses(t, Options{URL: d.URL, Timeout: time.Second}).Post(t.Context(), DocumentedText("1021", "7", "x"),
		nil)
	if err != nil || !slices.Contains(a.Violations, "no end within 1s") || a.Text != "你好" || a.Finished {
		t.Errorf("%+v, error %v", a, err)
	}
	d = newFakeServer(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if _, err := glasses(t, Options{URL: d.URL, Timeout: 50 * time.Millisecond}).Ask(t.Context(),
		"x", nil); !errors.Is(err, errTimeout) {
		t.Errorf("error %v", err)
	}
}

func TestAnswer_callerGoes(t *testing.T) {
	gone := make(chan struct{})
	d := newFakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		stays(hello)(w, r)
		close(gone)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	a, err := glasses(t, Options{URL: d.URL}).Post(ctx, DocumentedText("1021", "7", "x"),
		func(Event) { cancel(enough) })
	if !errors.Is(err, enough) || a.Text != "你好" {
		t.Errorf("%+v, error %v", a, err)
	}
	<-gone
}

func TestAnswer_brokenConnection(t *testing.T) {
	d := newFakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, hello)
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	a, err := glasses(t, Options{URL: d.URL}).Post(t.Context(), DocumentedText("1021", "7", "x"), nil)
	if err != nil || len(a.Violations) == 0 || !strings.HasPrefix(a.Violations[0], "the stream broke: ") ||
		a.Text != "你好" {
		t.Errorf("%+v, error %v", a, err)
	}
}

func TestAnswer_noStream(t *testing.T) {
	d := newFakeServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/401":
			http.Error(w, `{"error":"Unauthorized"}`, http.StatusUnauthorized)
		case "/moved":
			http.Redirect(w, r, "/401", http.StatusTemporaryRedirect)
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, hello+last+done)
		}
	})
	g := glasses(t, Options{URL: d.URL + "/401"})
	_, err := g.Ask(t.Context(), "x", nil)
	if e, ok := errors.AsType[*StatusError](err); !ok || e.Code != 401 || e.Body != `{"error":"Unauthorized"}` {
		t.Errorf("error %v", err)
	}
	if _, header := d.request(0); header["Authorization"] != nil {
		t.Error("an Authorization header without a key")
	}
	g.URL = d.URL + "/moved"
	_, err = g.Ask(t.Context(), "x", nil)
	if e, ok := errors.AsType[*StatusError](err); !ok || e.Code != 307 {
		t.Errorf("error %v", err)
	}
	g.URL = d.URL + "/json"
	a, err := g.Post(t.Context(), DocumentedText("1021", "7", "x"), nil)
	if want := []string{`Content-Type is "application/json"`}; err != nil || !reflect.DeepEqual(a.Violations, want) {
		t.Errorf("violations %q, error %v", a.Violations, err)
	}
	g.URL, g.Key = "http://127.0.0.1:1/", "sesame"
	if _, err = g.Ask(t.Context(), "x", nil); err == nil || strings.Contains(err.Error(), "sesame") {
		t.Errorf("error %v", err)
	}
}

// TestAnswer_isReadAsItComes checks that events arrive while the stream is open, and that pieces
// may be split anywhere.
func TestAnswer_isReadAsItComes(t *testing.T) {
	next := make(chan struct{})
	stream := []byte(": connected\r\n\r\n" + hello + strings.ReplaceAll(hello, "\n", "\r\n") + last + done)
	d := newFakeServer(t, func(w http.ResponseWriter, _ *http.Request) {
		first := bytes.Index(stream, []byte(hello)) + len(hello)
		for i, b := range stream {
			w.Write([]byte{b})
			http.NewResponseController(w).Flush()
			if i == first {
				<-next
			}
		}
	})
	n := 0
	a, err := glasses(t, Options{URL: d.URL, KeepRaw: true}).Post(t.Context(), DocumentedText("1021", "7", "x"),
		func(e Event) {
			if n++; n == 1 {
				close(next)
			}
		})
	if err != nil || a.Text != "你好你好" || len(a.Violations) > 0 || n != 4 {
		t.Errorf("%+v after %d events, error %v", a, n, err)
	}
	if !bytes.Equal(a.Raw, stream) {
		t.Errorf("raw: %q", a.Raw)
	}
}
