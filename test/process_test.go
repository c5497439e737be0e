// Package test runs black-box tests of the real binary: it is built, started, killed and restarted,
// and addressed through the protocols of its peers.
package test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
	"patchbay/test/built"
)

// programFolder has the program that the tests run.
var programFolder string

// patchbay builds patchbay once, and returns its path. Tests that only read the sources do not wait
// for it.
var patchbay = sync.OnceValue(func() string {
	path, err := built.Program(programFolder)
	if err != nil {
		panic(err)
	}
	return path
})

func TestMain(m *testing.M) {
	var err error
	if programFolder, err = os.MkdirTemp("", "patchbay-test-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(programFolder)
	storetest.Main(m)
}

var ctx = context.Background()

// installation is a data folder and a database, as given by environment variables.
type installation struct {
	db  store.Options
	env []string
}

func newInstallation(o store.Options, env ...string) *installation {
	return &installation{db: o, env: append(env, "PATCHBAY_DATA="+o.Folder, "PATCHBAY_DATABASE_URL="+o.URL)}
}

func (p *installation) command(args ...string) *exec.Cmd {
	cmd := exec.Command(patchbay(), args...)
	cmd.Env = append(os.Environ(), p.env...)
	return cmd
}

// server is a running patchbay serve process.
type server struct {
	cmd     *exec.Cmd
	url     string
	logs    *bytes.Buffer
	reading *sync.WaitGroup
}

// serve starts a server and waits until it is ready.
func (p *installation) serve(t *testing.T, args ...string) *server {
	t.Helper()
	s := &server{cmd: p.command(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...),
		logs: new(bytes.Buffer), reading: new(sync.WaitGroup)}
	stderr, err := s.cmd.StderrPipe()
	must(t, err)
	must(t, s.cmd.Start())
	ready := make(chan string, 1)
	s.reading.Go(func() {
		lines := bufio.NewScanner(io.TeeReader(stderr, s.logs))
		for lines.Scan() {
			if line := lines.Text(); strings.Contains(line, "msg=serving") {
				_, url, _ := strings.Cut(line, "url=")
				url, _, _ = strings.Cut(url, " ")
				ready <- url
			}
		}
		close(ready)
	})
	t.Cleanup(func() {
		s.kill()
		if t.Failed() {
			t.Logf("log of %s:\n%s", s.url, tail(s.log(), 4000))
		}
	})
	select {
	case url, ok := <-ready:
		if !ok {
			t.Fatalf("the server ended: %s", s.logs)
		}
		s.url = url
	case <-time.After(60 * time.Second):
		t.Fatal("the server did not get ready")
	}
	return s
}

// kill kills the server, like a power failure.
func (s *server) kill() {
	s.cmd.Process.Kill()
	s.cmd.Wait()
}

// log waits for the server's end and returns everything it logged.
func (s *server) log() string {
	s.reading.Wait()
	return s.logs.String()
}

// stop stops the server gracefully and returns its exit error.
func (s *server) stop() error {
	s.cmd.Process.Signal(os.Interrupt)
	return s.cmd.Wait()
}

// run runs a command and returns its output, or fails the test.
func (p *installation) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := p.try(args...)
	if err != nil {
		t.Fatalf("patchbay %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (p *installation) try(args ...string) (string, error) {
	cmd := p.command(args...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		return errors.String(), err
	}
	return string(out), nil
}

// json runs a command with --json and decodes its output.
func (p *installation) json(t *testing.T, into any, args ...string) {
	t.Helper()
	out := p.run(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("patchbay %s: %v in %s", strings.Join(args, " "), err, out)
	}
}

type addedKey struct{ ID, Key string }

type addedBot struct {
	ID       int64  `json:"id"`
	SDKToken string `json:"sdk_token"`
}

// question returns a request body as the glasses' platform sends it.
func question(agent, user, session, text string) string {
	b, _ := json.Marshal(map[string]any{
		"metadata": map[string]any{"lang": "zh-CN"}, "agent_id": agent, "user_id": user, "message_id": session,
		"message": []any{map[string]any{"role": "user", "type": "text", "text": text, "image_url": nil}},
	})
	return string(b)
}

// answer is what the glasses received.
type answer struct {
	text string
	done bool
}

// ask asks as glasses do and passes each piece to heard, unless that is nil.
func (s *server) ask(key, body string, heard func(string)) (a answer, err error) {
	return s.askUntil(ctx, key, body, heard)
}

// askUntil is ask by glasses that disconnect when ctx ends.
func (s *server) askUntil(ctx context.Context, key, body string, heard func(string)) (a answer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/sse/rokid", strings.NewReader(body))
	if err != nil {
		return a, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	event := ""
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = name
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var m struct {
			Text    string `json:"answer_stream"`
			Message string `json:"message"`
		}
		if err := json.Unmarshal([]byte(data), &m); err != nil {
			return a, err
		}
		if event == "done" {
			a.done = true
			continue
		}
		a.text += m.Text + m.Message
		if heard != nil && m.Text != "" {
			heard(m.Text)
		}
	}
	return a, lines.Err()
}

func tail(s string, n int) string {
	if len(s) > n {
		return s[len(s)-n:]
	}
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
