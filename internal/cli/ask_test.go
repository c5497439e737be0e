package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/api"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/talk"
)

// withParrot returns a desk with a person and an echo bot.
func withParrot(t *testing.T, env ...string) *desk {
	t.Helper()
	d := newDesk(t)
	d.env = append(d.env, env...)
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "parrot", "--kind", "echo")
	return d
}

func TestAskWithoutAServer(t *testing.T) {
	d := withParrot(t)
	if got := d.ok("ask", "parrot", "hello 你好"); got != "hello 你好\n" {
		t.Errorf("answered %q", got)
	}
	if got := d.ok("ask", "1", "take a photo"); got != "⟶ take_photo\n" {
		t.Errorf("answered %q", got)
	}
	if got := d.ok("ask", "1",
		"navigate to the lake"); got != "⟶ take_navigation action=\"open\" navi_type=\"1\" poi_name=\"the lake\"\n" {
		t.Errorf("answered %q", got)
	}
	photo := filepath.Join(t.TempDir(), "photo.png")
	if err := os.WriteFile(photo, samplePhoto(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.ok("ask", "1", "look:", "--image", photo); !strings.Contains(got,
		"look: I see a picture (image/png, ") {
		t.Errorf("answered %q", got)
	}
}

func TestAskAsJSONLines(t *testing.T) {
	d := withParrot(t)
	var lines []api.Line
	for line := range strings.Lines(d.ok("ask", "1", "ab", "--json")) {
		var l api.Line
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l)
	}
	if len(lines) != 3 || lines[0].Event.Text != "a" || lines[1].Event.Kind != talk.KindText || !lines[2].End ||
		lines[2].Turn == "" {
		t.Errorf("answered %+v", lines)
	}
}

func TestAskAModelWithHistory(t *testing.T) {
	model, err := openaitest.Start(openaitest.Reply{Steps: openaitest.Words("It is a tulip.", 0)},
		openaitest.Reply{Steps: openaitest.Words("Red.", 0)},
		openaitest.Reply{Status: 401, Message: "no such key"})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("bot", "add", "--name", "m", "--kind", "openai", "--set", "base_url="+model.URL, "--set", "model=m", "--set",
		"retries=-1")
	d.ok("ask", "m", "Which flower?", "--conversation", "garden")
	d.ok("ask", "m", "Which colour?", "--conversation", "garden")
	second := model.Requests()[1].Chat
	var said []string
	for _, m := range second.Messages {
		if m.Role != "system" {
			said = append(said, m.Role+": "+m.Text())
		}
	}
	if got := strings.Join(said, " | "); !strings.Contains(got,
		"user: Which flower? | assistant: It is a tulip. | user: Which colour?") {
		t.Errorf("the model was told %s", got)
	}
	d.failing(exitFailed, "", []string{"ask", "m", "And?"}, "Something went wrong", "no such key")
}

func TestAskThroughTheRunningServer(t *testing.T) {
	d := withParrot(t)
	s := d.serve()
	if got := d.ok("ask", "parrot", "hello"); got != "hello\n" {
		t.Errorf("answered %q", got)
	}
	numbers := get(t, s.URL+"/metrics")
	if !strings.Contains(numbers, `patchbay_turns_total{channel="cli",code="",kind="echo",outcome="done"} 1`) {
		t.Error("the question did not go through the server")
	}
	d.failing(exitFailed, "", []string{"ask", "nobody", "hello"}, `no bot "nobody"`, "bot list")
}

func TestAskAServerElsewhere(t *testing.T) {
	d := withParrot(t)
	var key struct{ Key string }
	d.json(&key, "key", "add", "--name", "laptop", "--scope", "operator")
	s := d.serve()
	remoteLearn := blankDesk(t) // has no access to the data
	remoteLearn.env = append(remoteLearn.env, "PATCHBAY_SERVER="+s.URL, "PATCHBAY_KEY="+key.Key)
	if got := remoteLearn.ok("ask", "parrot", "hello"); got != "hello\n" {
		t.Errorf("answered %q", got)
	}
	var rows []botRow
	remoteLearn.json(&rows, "bot", "list")
	if len(rows) != 1 || rows[0].Online == nil || !*rows[0].Online {
		t.Errorf("the bots there are %+v", rows)
	}
	remoteLearn.failing(exitFailed, "", []string{"ask", "parrot", "hello", "--key", "wrong"}, "rejects the key")
	remoteLearn.failing(exitFailed, "", []string{"bot", "list", "--server", "http://127.0.0.1:1"}, "cannot be reached")
	if _, err := os.Stat(remoteLearn.data); err == nil {
		t.Error("asking elsewhere made a data folder here")
	}
}

func TestAServerThatDiedIsNoServer(t *testing.T) {
	d := withParrot(t)
	text, _ := json.Marshal(map[string]any{"url": "http://127.0.0.1:1", "key": "k", "pid": 1})
	if err := os.WriteFile(filepath.Join(d.data, "server.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := d.ok("ask", "parrot", "hello"); got != "hello\n" {
		t.Errorf("answered %q", got)
	}
	d.ok("bot", "list")
}

// A bot that connects is asked through a server, and one that does not exist is named with a hint.
func TestAskWithoutAServerRefuses(t *testing.T) {
	d := withParrot(t)
	d.ok("bot", "add", "--name", "lobster", "--kind", "eyeclaw")
	d.failing(exitFailed, "", []string{"ask", "lobster", "hello"}, "lobster connects to a running server and answers only through it")
	for _, name := range []string{"nobody", "", ".", "..", "a/b?c"} {
		for _, args := range [][]string{{"ask", name, "hello"}, {"bot", "show", name}, {"bot", "set", name, "shared=true"},
			{"bot", "rm", name}, {"bind", name}, {"unbind", name}} {
			d.failing(exitFailed, "", args, `there is no bot "`+name+`"`, "patchbay bot list")
		}
	}
	d.failing(exitFailed, "", []string{"ask", "parrot"}, "say something")
}

// An interrupted question ends as such, not as a failure of the bot.
func TestAskInterrupted(t *testing.T) {
	d := withParrot(t)
	d.ok("bot", "set", "parrot", "pace=1m")
	ctx, stop := context.WithCancel(t.Context())
	out, in := io.Pipe()
	done := make(chan int, 1)
	var stderr safeBuffer
	go func() {
		done <- Run(ctx, []string{"ask", "parrot", "hello"}, strings.NewReader(""), in, &stderr, d.env)
		in.Close()
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	stop()
	go io.Copy(io.Discard, out) //nolint:errcheck // until the command ends
	if code := <-done; code != exitInterrupted || strings.Contains(stderr.String(), "went wrong") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}
