package cli

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/xiaozhi/sim"
	"patchbay/internal/voice/engines/openai/openaitest"
)

// withBoards returns a desk with a running demo server to which boards connect over every
// transport.
func withBoards(t *testing.T, flags ...string) (*desk, *server) {
	t.Helper()
	d := newDesk(t)
	flags = append([]string{"--demo", "--xiaozhi-mqtt", "127.0.0.1:0", "--xiaozhi-audio", "127.0.0.1:0",
		"--xiaozhi-silence", "2s"}, flags...)
	return d, d.serve(flags...)
}

// word returns the file of a recording of one word.
func word(t *testing.T) string {
	t.Helper()
	var data []byte
	for _, p := range sim.GoodMorning()[5:22] {
		data = append(binary.BigEndian.AppendUint16(data, uint16(len(p))), p...)
	}
	name := filepath.Join(t.TempDir(), "word.opk")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestSimulateBoardOnce(t *testing.T) {
	d, s := withBoards(t)
	board := []string{"simulate", "xiaozhi", "--url", s.URL, "--mode", "manual", "--slack", "30s", "--say", word(t)}
	got := d.ok(board...)
	for _, want := range []string{"(fw242, manual)\n", "understood: 0.", "says: No speech engine", "played 1.0 s"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if verbose := d.ok(append(board, "-v")...); !strings.Contains(verbose, "state speaking") ||
		!strings.Contains(verbose, "\npackets received") {
		t.Errorf("-v shows\n%s", verbose)
	}
	var r boardReport
	d.json(&r, append(board, "--profile", "fw25", "--mac", "02-00-00-AA-BB-CC")...)
	if r.MAC != "02:00:00:aa:bb:cc" || r.Played < 0.5 || len(r.Said) != 1 || r.Saw.Boots != 1 ||
		r.Saw.Conversations != 1 || r.Saw.Received == 0 || r.Saw.Violations != nil {
		t.Errorf("as JSON it is %+v", r)
	}
}

// TestSimulateBoardTalks has a bot answer a board aloud, with the speech engine of the settings.
func TestSimulateBoardTalks(t *testing.T) {
	speech := openaitest.New(t)
	speech.Transcript = func([]int16) string { return "Good morning!" }
	d, s := withBoards(t, "--speech-url", speech.URL, "--speech-key", openaitest.Key, "--speech-format", "wav")
	got := d.ok("simulate", "xiaozhi", "--url", s.URL, "--mode", "manual", "--slack", "30s", "--say", word(t))
	spoken := speech.Spoken()
	if !slices.Contains(spoken, "Good morning!") || !strings.Contains(got, "understood: Good morning!\n") ||
		!strings.Contains(got, "says: Good morning!") {
		t.Errorf("the engine spoke %q; the board shows\n%s", spoken, got)
	}
}

// The script of --check finds no violation on either transport, and has the server call the board.
func TestSimulateBoardCheck(t *testing.T) {
	for _, transport := range []string{"websocket", "mqtt"} {
		d, s := withBoards(t, "--xiaozhi-transport", transport)
		var r boardReport
		d.json(&r, "simulate", "xiaozhi", "--data", s.Data, "--mode", "manual", "--slack", "30s", "--check",
			"--say", word(t))
		var tried []string
		for _, c := range r.Checks {
			if c.Tried {
				tried = append(tried, c.Check)
			}
			if len(c.Broken) > 0 {
				t.Errorf("over %s: %+v", transport, c)
			}
		}
		want := []string{"C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C11", "C13", "C17", "C18"}
		if transport == "mqtt" {
			want = slices.Insert(want, 12, "C15", "C16")
		}
		if !slices.Equal(tried, want) || r.Saw.Calls != 2 || r.Saw.Photos != 1 {
			t.Errorf("over %s it tried %v, want %v; calls %d, photos %d", transport, tried, want, r.Saw.Calls,
				r.Saw.Photos)
		}
	}
}

// await waits until the output matches, and returns the first group.
func (b *safeBuffer) await(t *testing.T, pattern string) string {
	t.Helper()
	look := regexp.MustCompile(pattern)
	for until := time.Now().Add(limit); time.Now().Before(until); <-time.After(5 * time.Millisecond) {
		if m := look.FindStringSubmatch(b.String()); m != nil {
			return m[len(m)-1]
		}
	}
	t.Fatalf("%s was never printed:\n%s", pattern, b)
	return ""
}

// A board shows its code until somebody approves it.
func TestSimulateBoardShowsItsCode(t *testing.T) {
	d := withParrot(t)
	s := d.serve()
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	var out, errs safeBuffer
	ended, file := make(chan int, 1), filepath.Join(t.TempDir(), "answer.wav")
	go func() {
		ended <- Run(ctx, []string{"simulate", "xiaozhi", "--url", s.URL, "--mode", "manual", "--slack", "30s",
			"--say", word(t), "--once", "--save", file}, strings.NewReader(""), &out, &errs, d.env)
	}()
	d.ok("device", "approve", out.await(t, `device approve (\d{6})\n`))
	if code := <-ended; code != 0 || !strings.Contains(out.String(), "played") {
		t.Errorf("it ends with %d: %s\n%s", code, &errs, &out)
	}
	if sound, err := os.ReadFile(file); err != nil || len(sound) < 10000 || !bytes.HasPrefix(sound, []byte("RIFF")) {
		t.Errorf("the sound has %d bytes, %v", len(sound), err)
	}
}

func TestSimulateBoardSession(t *testing.T) {
	d, s := withBoards(t)
	lines, keys := io.Pipe()
	var out, errs safeBuffer
	sh := newShell(lines, &out, &errs, d.env)
	c := &simulateXiaozhiCmd{URL: s.URL, Profile: "fw242", Mode: "auto", Slack: 30 * time.Second,
		Say: []string{word(t)}}
	opt, err := c.options(sh)
	if err != nil {
		t.Fatal(err)
	}
	speech, err := c.speech()
	if err != nil {
		t.Fatal(err)
	}
	b := newDesktopBoard(sh, c, opt, speech)
	defer b.Close()
	ctx, stop := context.WithTimeout(context.Background(), limit)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- b.session(ctx) }()
	for _, step := range []struct{ key, out, err string }{
		{"/abort", "", "the board is idle"},
		{"/drop", "", "There is no conversation"},
		{"/say 7", "", "there is no recording 7; there are 1"},
		{"/dance", "", "there is no /dance; /wake"},
		{"/say", "(?s)understood: 0.*played", ""},
		{"hello there", "says: hello there", ""}, // after a wake word, so the conversation must end first
		{"/press", "", ""},
		{"good bye", "says: good bye", ""},
	} {
		fmt.Fprintln(keys, step.key) //nolint:errcheck // a pipe
		if step.err != "" {
			errs.await(t, regexp.QuoteMeta(step.err))
		}
		if step.out != "" {
			out.await(t, step.out)
		}
	}
	fmt.Fprintln(keys, "/quit") //nolint:errcheck // a pipe
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v\n%s\n%s", err, &errs, &out)
	}
}

func TestSimulateManyBoards(t *testing.T) {
	d, s := withBoards(t, "--xiaozhi-transport", "mqtt")
	o := d.do("", "simulate", "xiaozhi", "--url", s.URL, "--mode", "manual", "--slack", "30s", "--say", word(t),
		"--count", "6", "--talk", "2", "--ramp", "100/s", "--for", "6s", "--json")
	var f boardFigures
	if err := json.Unmarshal([]byte(o.stdout), &f); err != nil || o.code != 0 {
		t.Fatalf("%v: %+v", err, o)
	}
	if f.Boards != 6 || f.Boots != 6 || f.Failed != 0 || f.Conversations < 2 || f.Answers < 2 || f.Received == 0 ||
		f.CallHome.Max <= 0 || f.Violations != nil {
		t.Errorf("the figures are %+v", f)
	}
	if !strings.Contains(o.stderr, "5s  on 6, failed 0, talking 2") {
		t.Errorf("meanwhile it said %q", o.stderr)
	}
	// The server limits how many boards one household may have.
	o = d.do("", "simulate", "xiaozhi", "--url", s.URL, "--slack", "5m", "--count", "130", "--ramp", "1000/s", "--for",
		"0s")
	// on a slow machine it also prints progress
	if o.code != 0 || !strings.Contains(o.stdout, "boards                  130\nconfiguration requests  130") {
		t.Errorf("as text they are\n%+v", o)
	}
}

// A server that violates the protocol is reported, with exit code 1.
func TestSimulateBoardReportsWhatIsWrong(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct{ answer, broken, failed string }{
		{`{"websocket":{"url":"ws://127.0.0.1:1/","a_name_that_is_too_long":"x"}}`,
			"protocol violation: C1: the name websocket.a_name", "the board crashed"},
		{`{}`, "protocol violation: C1: there is neither", "nowhere to connect to"},
		{`{"websocket":{"url":"ws://127.0.0.1:1/"},"mqtt":{"endpoint":"127.0.0.1:1"}}`, "", "connection refused"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, c.answer) //nolint:errcheck // the test notices
		}))
		o := d.do("", "simulate", "xiaozhi", "--url", s.URL)
		s.Close()
		if o.code != exitFailed || !strings.Contains(o.stderr, c.broken) || !strings.Contains(o.stderr, c.failed) {
			t.Errorf("%s gives %+v", c.answer, o)
		}
	}
}

func TestSimulateBoardUsage(t *testing.T) {
	d := newDesk(t)
	for want, args := range map[string][]string{
		"--url must have the form":     {"--url", "board"},
		"--ramp is \"fast\"":           {"--count", "2", "--ramp", "fast"},
		"--talk is 3":                  {"--count", "2", "--talk", "3"},
		"--count is 60000":             {"--count", "60000"},
		"--count cannot be used with":  {"--count", "2", "--check"},
		"--check cannot be used with":  {"--check", "--once"},
		"--mac is \"02:00\"":           {"--mac", "02:00"},
		"--uuid is \"1\"":              {"--uuid", "1"},
		"a time cannot be negative":    {"--once", "--stay=-1s"},
		"--save requires --once":       {"--save", "answer.wav"},
		"but fw194, ":                  {"--profile", "fw1"},
		"but auto, manual or realtime": {"--mode", "loud"},
	} {
		d.failing(exitUsage, "", append([]string{"simulate", "xiaozhi"}, args...), want)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no sound and no picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.failing(exitFailed, "", []string{"simulate", "xiaozhi", "--url", "http://127.0.0.1:1", "--say", text},
		"within a packet")
	d.failing(exitFailed, "", []string{"simulate", "xiaozhi", "--url", "http://127.0.0.1:1", "--picture", text},
		"not a JPEG")
	d.failing(exitFailed, "", []string{"simulate", "xiaozhi", "--url", "http://127.0.0.1:1", "--say",
		"/does/not/exist"}, "/does/not/exist")
}
