package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/internal/i18n"
	"patchbay/internal/store/storetest"
)

var update = flag.Bool("update", false, "write the golden files")

// limit is a timeout for tests that hang; none comes near it.
const limit = 5 * time.Minute

// desk is the environment of a test's commands, with a data directory.
type desk struct {
	t    *testing.T
	data string
	env  []string
}

// newDesk returns a desk with an empty database.
func newDesk(t *testing.T) *desk {
	t.Helper()
	d := blankDesk(t)
	storetest.Folder(t, d.data)
	return d
}

// blankDesk returns a desk on which the program has never run.
func blankDesk(t *testing.T) *desk {
	t.Helper()
	t.Setenv("COLUMNS", "") // it would change the width of help
	home := t.TempDir()
	data := filepath.Join(home, "data")
	return &desk{t: t, data: data, env: []string{"HOME=" + home, "PATCHBAY_DATA=" + data, "LANG=en_US.UTF-8"}}
}

// outcome is the result of a command.
type outcome struct {
	stdout, stderr string
	code           int
}

// do runs a command with a text on standard input.
func (d *desk) do(stdin string, args ...string) outcome {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := Run(ctx, args, strings.NewReader(stdin), &stdout, &stderr, d.env)
	return outcome{stdout.String(), stderr.String(), code}
}

// ok runs a command that must succeed and returns its output.
func (d *desk) ok(args ...string) string {
	d.t.Helper()
	o := d.do("", args...)
	if o.code != 0 || o.stderr != "" {
		d.t.Fatalf("patchbay %s: exit code %d, stderr %q", strings.Join(args, " "), o.code, o.stderr)
	}
	return o.stdout
}

// json runs a command that must succeed with --json and decodes its output.
func (d *desk) json(into any, args ...string) {
	d.t.Helper()
	text := d.ok(append(args, "--json")...)
	if err := json.Unmarshal([]byte(text), into); err != nil {
		d.t.Fatalf("patchbay %s: %v in %q", strings.Join(args, " "), err, text)
	}
}

// failing runs a command that must fail with an exit code and print a one-line error, perhaps after
// a question, that contains all of want.
func (d *desk) failing(code int, stdin string, args []string, want ...string) {
	d.t.Helper()
	o := d.do(stdin, args...)
	if o.code != code {
		d.t.Errorf("patchbay %s: exit code %d, want %d; stderr %q", strings.Join(args, " "), o.code, code, o.stderr)
	}
	lines := strings.Split(strings.TrimSuffix(o.stderr, "\n"), "\n")
	if strings.Contains(lines[0], msgYes.In(i18n.English)) {
		lines = lines[1:]
	}
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "patchbay: ") {
		d.t.Errorf("patchbay %s: stderr is not one line of error: %q", strings.Join(args, " "), o.stderr)
	}
	for _, w := range want {
		if !strings.Contains(o.stderr, w) {
			d.t.Errorf("patchbay %s: stderr %q does not say %q", strings.Join(args, " "), o.stderr, w)
		}
	}
}

// server is a running "patchbay serve".
type server struct {
	URL    string `json:"url"`
	PID    int    `json:"pid"`
	Data   string `json:"data"`
	stderr *safeBuffer
}

// serve runs the server until the test ends.
func (d *desk) serve(args ...string) *server {
	d.t.Helper()
	s := &server{stderr: &safeBuffer{}}
	d.background(s, s.stderr, append([]string{"serve", "--json", "--listen", "127.0.0.1:0"}, args...)...)
	return s
}

// background runs a command until the test ends, and decodes the JSON that it prints first.
func (d *desk) background(into any, stderr *safeBuffer, args ...string) {
	d.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), limit)
	out, in := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, args, strings.NewReader(""), in, stderr, d.env)
		in.Close()
	}()
	d.t.Cleanup(func() {
		stop()
		if code := <-done; code != 0 {
			d.t.Errorf("patchbay %s ended with code %d: %s", args[0], code, stderr)
		}
	})
	if err := json.NewDecoder(out).Decode(into); err != nil {
		d.t.Fatalf("patchbay %s did not start: %v, %s", args[0], err, stderr)
	}
}

// golden compares text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s differs from what it was; go test -update accepts it:\n%s", path, text)
	}
}
