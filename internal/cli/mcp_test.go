package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRelayToTools(t *testing.T) {
	d, s := withLamp(t)
	d.failing(exitUsage, "", []string{"mcp", "relay"}, "--scope mcp", "PATCHBAY_KEY")
	var key struct{ Key string }
	d.json(&key, "key", "add", "--name", "desk", "--scope", "mcp")
	talk := strings.Join([]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},` +
			`"clientInfo":{"name":"desk","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`,
		"nonsense",
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"lamp_state","arguments":{}}}`,
	}, "\n") + "\n"
	for _, args := range [][]string{{}, {"--server", s.URL}, {"--server", s.URL + "/mcp/"}} {
		o := d.do(talk, append([]string{"mcp", "relay", "--key", key.Key}, args...)...)
		if o.code != 0 || !strings.Contains(o.stdout, `"lamp_set"`) || !strings.Contains(o.stdout, "it is on") {
			t.Errorf("%v: %d, %s, %s", args, o.code, o.stdout, o.stderr)
		}
		for line := range strings.Lines(o.stdout) {
			if !json.Valid([]byte(line)) {
				t.Errorf("a line is no message: %q", line)
			}
		}
	}
	o := d.do(talk, "mcp", "relay", "--find", "--key", key.Key)
	if o.code != 0 || strings.Contains(o.stdout, `"lamp_set"`) || !strings.Contains(o.stdout, "it is on") {
		t.Errorf("few tools: %d, %s, %s", o.code, o.stdout, o.stderr)
	}
	o = d.do(talk, "mcp", "relay", "--key", "pb_wrong")
	if !strings.Contains(o.stdout, "the server refuses the key") {
		t.Errorf("a wrong key: %s", o.stdout)
	}
}

func TestBundle(t *testing.T) {
	d := newDesk(t)
	folder := t.TempDir()
	program := filepath.Join(folder, "program")
	if err := os.WriteFile(program, []byte("\x7fELF is what it begins with"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "desk.mcpb")
	var got bundleWritten
	d.json(&got, "mcp", "bundle", file, "--program", "linux="+program, "--server", "https://board.example.org")
	if info, err := os.Stat(file); err != nil || info.Size() != got.Bytes ||
		!strings.Contains(strings.Join(got.Platforms, " "), "linux") {
		t.Errorf("written is %+v, %v", got, err)
	}
	d.failing(exitUsage, "", []string{"mcp", "bundle", file, "--program", "beos=x"}, "win32=FILE")
	d.failing(exitFailed, "", []string{"mcp", "bundle", file, "--program", "win32=" + program},
		"is no program for win32")
	if list, _ := filepath.Glob(filepath.Join(folder, ".patchbay-*")); len(list) > 0 {
		t.Errorf("left over: %v", list)
	}
}
