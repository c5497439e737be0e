package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"patchbay/internal/control"
	"patchbay/internal/voice/engines/openai/openaitest"
)

// TestVoiceEngines manages engines without a server and with one, and tries them.
func TestVoiceEngines(t *testing.T) {
	d := withParrot(t)
	speech := openaitest.New(t)
	speech.Transcript = func([]int16) string { return "good morning" }
	if got := d.ok("voice", "engine", "list"); !strings.Contains(got, "no speech engines yet") {
		t.Errorf("an empty list is %q", got)
	}
	if got := d.ok("voice", "engine", "list", "--kinds"); !strings.Contains(got, "openai: OpenAI's interface") ||
		!strings.Contains(got, "  base_url (required)") {
		t.Errorf("the kinds are\n%s", got)
	}
	if got := d.ok("voice", "usage", "--days", "7"); !strings.Contains(got, "0:00 minutes heard, 0 characters spoken") {
		t.Errorf("the usage: %s", got)
	}
	d.failing(exitFailed, "", []string{"voice", "usage", "--days", "400"}, "choose 1 to 366")
	add := []string{"voice", "engine", "add", "cloud", "--set", "base_url=" + speech.URL, "--set", "format=wav"}
	d.failing(exitFailed, "", append(add, "--set", "api_key=sk-wrong"), "refused its key", "Nothing was saved")
	d.failing(exitFailed, "", append(add, "--kind", "morse"), `no kind of speech engine is called "morse"`)
	key := filepath.Join(t.TempDir(), "key.txt")
	if err := os.WriteFile(key, []byte(openaitest.Key), 0o600); err != nil {
		t.Fatal(err)
	}
	var added control.EngineDetail
	d.json(&added, append(add, "--set", "api_key=@"+key)...)
	if added.Number != 1 || !added.Listens || !added.Speaks || added.Found == nil || added.Where != speech.URL {
		t.Errorf("added is %+v, %+v", added, added.Found)
	}
	d.failing(exitFailed, "", append(add, "--no-check"), "called cloud already")

	d.serve()
	d.ok("voice", "engine", "add", "voice", "--use", "speak", "--no-check", "--set", "base_url=http://127.0.0.1:1/v1")
	d.failing(exitFailed, "", []string{"voice", "engine", "check", "voice"}, "cannot be reached")
	d.failing(exitFailed, "", []string{"voice", "engine", "try", "voice", "--hear", key}, "does not listen")
	if got := d.ok("voice", "engine", "move", "voice", "1"); strings.Index(got, "voice ") > strings.Index(got, "cloud") {
		t.Errorf("after the move the list is\n%s", got)
	}
	sound := filepath.Join(t.TempDir(), "said.wav")
	if got := d.ok("voice", "engine", "try", "cloud", "--say", "Good morning", "--out", sound); !strings.Contains(got,
		"720 ms of speech") {
		t.Errorf("said: %s", got)
	}
	if got := d.ok("voice", "engine", "try", "1", "--hear", sound); !strings.Contains(got, `"good morning"`) {
		t.Errorf("heard: %s", got)
	}
	d.ok("voice", "engine", "set", "voice", "--off", "--name", "spare")
	d.ok("voice", "engine", "set", "cloud", "voice=nova")
	if got := d.ok("voice", "engine", "show", "cloud"); !strings.Contains(got, "voice = nova") ||
		!strings.Contains(got, "api_key = ••••••") {
		t.Errorf("shown as\n%s", got)
	}
	if got := d.ok("voice", "engine", "list"); !strings.Contains(got, "off") || strings.Contains(got, openaitest.Key) {
		t.Errorf("the list is\n%s", got)
	}
	d.ok("voice", "engine", "rm", "spare", "--yes")
	d.failing(exitFailed, "", []string{"voice", "engine", "show", "spare"}, `no speech engine "spare"`)
}
