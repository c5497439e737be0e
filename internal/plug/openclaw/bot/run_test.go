package bot

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"patchbay/internal/i18n"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/talk"
)

func TestExtends(t *testing.T) {
	for _, c := range []struct {
		told, text, more string
		ok               bool
	}{
		{"", "Hello", "Hello", true},
		{"Hello", "Hello there", " there", true},
		{"Hello", "Hello", "", true},
		{"Hello ", "Hello", "", true},
		{"Hello ", "Hello\n\nthere", "there", true},
		{"tok59 ", "tok59\n\nHello", "Hello", true},
		{"\n\nHello", "Hello you", " you", true},
		{"你好", "你好，世界", "，世界", true},
		{"Hello", "Help", "", false},
		{"Hello there", "Hello", "", false},
		{"a b", "ab c", " c", true},
		{"\xff", "\xfe", "", false},
	} {
		if more, ok := extension(c.told, c.text); more != c.more || ok != c.ok {
			t.Errorf("%q after %q: %q, %v", c.text, c.told, more, ok)
		}
	}
}

func TestNeutralizeCommands(t *testing.T) {
	for text, want := range map[string]string{
		"/status":                  "/ status",
		"what is /exec x /think:h": "what is / exec x / think:h",
		"line\n/new":               "line\n/ new",
		"! ls":                     "！ ls",
		" !ls":                     "！ls",
		"hey!":                     "hey!",
		"1/2 and https://a.b/c":    "1/2 and https://a.b/c",
		"/":                        "/",
		"//x":                      "/ /x",
		"暂停。":                      "“暂停。”",
		"Please stop!":             "“Please stop!”",
		"stop the music":           "stop the music",
	} {
		if got := neutralizeCommands(text); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
}

func chatDelta(text, all string, replace bool) *wire.ChatEvent {
	e := &wire.ChatEvent{RunID: "r", State: wire.ChatDelta, Delta: text, Replace: replace}
	if all != "" {
		e.Message = content(all)
	}
	return e
}

func content(text string) json.RawMessage {
	// cannot fail
	m, _ := json.Marshal(map[string]any{"role": "assistant",
		"content": []map[string]string{{"type": "text", "text": text}}})
	return m
}

func TestGrown(t *testing.T) {
	long := strings.Repeat("x", minTruncated)
	for name, c := range map[string]struct {
		text string
		e    *wire.ChatEvent
		want string
	}{
		"delta alone":        {"a", chatDelta("b", "", false), "ab"},
		"delta with all":     {"a", chatDelta("b", "ab", false), "ab"},
		"a delta was lost":   {"a", chatDelta("c", "abc", false), "abc"},
		"replaced":           {"a", chatDelta("b", "", true), "b"},
		"replaced with all":  {"a", chatDelta("b", "b", true), "b"},
		"begun anew":         {"Hello", chatDelta("H", "H", false), "H"},
		"the beginning left": {"ab" + long, chatDelta("c", long[1:]+"c", false), "ab" + long + "c"},
		"the end left":       {long + "ab", chatDelta("c", long, false), long + "abc"},
	} {
		if got := applyDelta(c.text, c.e); got != c.want {
			t.Errorf("%s: %.20q of %d bytes", name, got, len(got))
		}
	}
}

// recordedLine is a line of testdata/chats.jsonl.
type recordedLine struct {
	Session string          `json:"session"`
	Frame   json.RawMessage `json:"frame"`
	History json.RawMessage `json:"history"`
}

func recording(t testing.TB) []recordedLine {
	t.Helper()
	f, err := os.Open("testdata/chats.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []recordedLine
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var l recordedLine
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	if in.Err() != nil || len(lines) < 100 {
		t.Fatalf("%d lines: %v", len(lines), in.Err())
	}
	return lines
}

// The recorded events of a real gateway result in the recorded answers, without repetitions.
func TestRecording(t *testing.T) {
	runs, known := map[string]*run{}, map[string]string{}
	for _, l := range recording(t) {
		if l.Frame == nil {
			continue
		}
		f, err := wire.Parse(l.Frame)
		if err != nil {
			t.Fatal(err)
		}
		e, err := wire.ParseChat(f.Payload)
		if err != nil {
			t.Fatal(err)
		}
		r := runs[e.RunID]
		if r == nil {
			r = newRun(e.RunID, e.SessionKey)
			runs[e.RunID] = r
		}
		r.handleEvent(&e)
		text, _ := r.snapshot()
		if _, ok := extension(known[e.RunID], text); !ok {
			t.Errorf("%q does not go on from %q", text, known[e.RunID])
		}
		known[e.RunID] = text
	}
	ends := map[string]int{}
	for _, r := range runs {
		text, end := r.snapshot()
		if end == nil {
			ends["none"]++
			continue
		}
		a := answer{turn: said("x", "x"), emitted: text}
		code := talk.Code("fine")
		if f := talk.AsFailure(a.endError(end)); f != nil {
			code = f.Code
			if f.Told != "" {
				code += ": " + talk.Code(f.Told)
			}
		}
		ends[string(code)]++
	}
	want := map[string]int{
		"fine": 11, "no_answer": 3, "timeout": 1, "none": 1,
		"bot_failed: " + msgAborted.In(i18n.English): 3, "bot_failed: " + msgRefused.In(i18n.English): 1,
		"bot_failed: " + msgServer.In(i18n.English): 1,
		"bot_failed: " + msgKey.In(i18n.English):    1,
	}
	for what, n := range ends {
		if want[what] != n {
			t.Errorf("%d runs ended with %q, not %d", n, what, want[what])
		}
	}
	if len(ends) != len(want) {
		t.Errorf("%v", ends)
	}
}

// The recorded history of a real gateway gives the state of each run.
func TestRecord(t *testing.T) {
	var all []json.RawMessage
	for _, l := range recording(t) {
		if l.History != nil {
			all = append(all, l.History)
		}
	}
	if len(all) != 4 {
		t.Fatalf("%d records", len(all))
	}
	for _, c := range []struct {
		record    int
		run       string
		what      runState
		text, end string
	}{
		{0, "23e6dc27-d1f8-4b7a-94b6-e791af27ae76", runEnded, "Hello there, this is the fake model.", wire.ChatFinal},
		{1, "a965e146-c4c4-40e8-8b45-77fa0bb7f9d6", runEnded, "Hello there, this is the fake model.", wire.ChatFinal},
		{1, "b1d7e2a6-8c11-4653-98cd-cc2635aa3d31", runEnded, "Hello there, this is the fake", wire.ChatAborted},
		{1, "75b72cd4-a999-4a54-a085-149aa63205e4", runUnanswered, "", ""},
		{2, "c46398dd-7f91-49a1-a891-22b322b6bdd0", runEnded, "", wire.ChatError},
		{2, "8767f13d-703f-4549-907a-3934de8e9d00", runActive, "tok0 tok1 tok2 tok3 tok4 tok5 tok6", ""},
		{3, "8e4f0999-268a-4a2b-871b-494f182518a9", runEnded, "", wire.ChatFinal},
		{3, "nobody's", runUnknown, "", ""},
	} {
		id, what, text, end := findRun(c.run, all[c.record])
		state := ""
		if end != nil {
			state = end.State
		}
		if c.record == 3 && what == runEnded {
			if !strings.HasSuffix(text, "tok59\n\nHello there, this is the fake model.") {
				t.Errorf("%q", text)
			}
			text = ""
		}
		if id != c.run || what != c.what || text != c.text || state != c.end {
			t.Errorf("%s: %v, %q, %q", c.run, what, text, state)
		}
	}
}

func FuzzEvents(f *testing.F) {
	for i, l := range recording(f) {
		if l.Frame != nil && i%10 == 0 {
			f.Add([]byte(l.Frame), "tok0")
		}
	}
	f.Add([]byte(`{"type":"event","event":"chat","payload":{"runId":"r","state":"delta","deltaText":"b","replace":true}}`), "a")
	f.Fuzz(func(t *testing.T, data []byte, before string) {
		l := newGatewayLink(New(Options{}), storeBot, address{}, device{})
		frame, err := wire.Parse(data)
		if err != nil {
			return
		}
		e, _ := wire.ParseChat(frame.Payload)
		r := newRun(e.RunID, "s")
		r.text = before
		l.add(r)
		l.handleEvent(nil, frame)
		l.handleEvent(nil, frame)
		a := answer{turn: said("x", "x"), run: r, emitted: before}
		said := before
		a.emit = func(e talk.Event) error {
			if e.Kind == talk.KindText {
				said += e.Text
			}
			return nil
		}
		_, _ = a.emitNew()
		text, _ := r.snapshot()
		if _, ok := extension(before, text); ok {
			if rest, same := extension(said, text); !same || strings.TrimSpace(rest) != "" {
				t.Errorf("%q was said, and the agent has said %q", said, text)
			}
		}
	})
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(recordRestarted), "RUN")
	for _, l := range recording(f) {
		if l.History != nil {
			f.Add([]byte(l.History), "8767f13d-703f-4549-907a-3934de8e9d00")
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, id string) {
		_, what, _, end := findRun(id, data)
		if (what == runEnded) != (end != nil) {
			t.Errorf("%v, %v", what, end)
		}
	})
}
