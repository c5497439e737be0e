// Package console tests the pages of the real binary in a real browser, used by mouse, touch and
// keyboard, on a phone and on a laptop.
package console

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/console/browsertest"
	"patchbay/test/built"
)

var (
	binary   string
	chromium browsertest.Chromium // shared by all windows
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "patchbay-console-")
	if err != nil {
		panic(err)
	}
	code := 1
	if binary, err = built.Program(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
		chromium.Stop()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// patience is the timeout of server operations; machines that run tests are busy.
const patience = 60 * time.Second

// The first person of most installations, who is the administrator.
const (
	ada         = "ada"
	adaPassword = "correct horse"
)

// testServer is a running installation.
type testServer struct {
	t    testing.TB
	lang string // language of the terminal and of the people, en or zh
	url  string
	env  []string

	mu    sync.Mutex
	said  bytes.Buffer // standard error
	heard chan struct{}
}

// newTestServer starts a server without accounts; env are more settings for it.
func newTestServer(t testing.TB, lang string, env ...string) *testServer {
	t.Helper()
	h := &testServer{t: t, lang: lang, heard: make(chan struct{})}
	h.env = []string{
		"PATCHBAY_DATA=" + t.TempDir(), "PATCHBAY_LISTEN=127.0.0.1:0", "LC_ALL=" + h.in("zh_CN", "en_US") + ".UTF-8",
		"PATCHBAY_XIAOZHI_MQTT=127.0.0.1:0", "PATCHBAY_XIAOZHI_AUDIO=127.0.0.1:0",
	}
	h.env = append(h.env, env...)
	cmd := h.command("serve")
	stderr, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	var reading sync.WaitGroup
	reading.Go(func() {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			h.mu.Lock()
			h.said.Write(lines.Bytes())
			h.said.WriteByte('\n')
			close(h.heard)
			h.heard = make(chan struct{})
			h.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it may have ended
		stopped := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		reading.Wait()
		err := cmd.Wait()
		stopped.Stop()
		if err != nil {
			t.Errorf("the server did not stop in order: %v", err)
		}
		if t.Failed() {
			t.Logf("the server said:\n%s", h.log())
		}
	})
	h.url = h.says(`msg=serving .*\burl=(\S+)`)
	return h
}

// newServerWithAda starts a server whose administrator is ada.
func newServerWithAda(t testing.TB) *testServer {
	t.Helper()
	return phone.server(t)
}

// server starts a server with ada as administrator, in the language of a look.
func (l look) server(t testing.TB) *testServer {
	t.Helper()
	h := newTestServer(t, l.lang)
	h.person(ada, "admin", adaPassword)
	return h
}

func (h *testServer) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), h.env...)
	return cmd
}

func (h *testServer) log() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.String()
}

// says waits until the server's output matches a pattern, and returns its first group.
func (h *testServer) says(pattern string) string {
	h.t.Helper()
	want := regexp.MustCompile(pattern)
	limit := time.After(patience)
	for {
		h.mu.Lock()
		found, heard := want.FindStringSubmatch(h.said.String()), h.heard
		h.mu.Unlock()
		if found != nil {
			return found[1]
		}
		select {
		case <-heard:
		case <-limit:
			h.t.Fatalf("the server did not say %s:\n%s", pattern, h.log())
		}
	}
}

// run runs a command in the same installation.
func (h *testServer) run(args ...string) string {
	h.t.Helper()
	return h.feed("", args...)
}

// feed is run with standard input.
func (h *testServer) feed(in string, args ...string) string {
	h.t.Helper()
	cmd := h.command(args...)
	cmd.Stdin = strings.NewReader(in)
	var wrong bytes.Buffer
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		h.t.Fatalf("patchbay %s: %v\n%s", strings.Join(args, " "), err, wrong.String())
	}
	return string(out)
}

// json is run for a command with JSON output, which it decodes.
func (h *testServer) json(into any, args ...string) {
	h.t.Helper()
	if out := h.run(append(args, "--json")...); json.Unmarshal([]byte(out), into) != nil {
		h.t.Fatalf("patchbay %s: %s", strings.Join(args, " "), out)
	}
}

// person creates an account.
func (h *testServer) person(name, role, password string) {
	h.t.Helper()
	h.feed(password+"\n", "user", "add", name, "--role", role, "--lang", h.lang, "--password-stdin")
}

// key creates a key of ada's.
func (h *testServer) key(name string, scopes ...string) string {
	h.t.Helper()
	var made struct{ Key string }
	h.json(&made, "key", "add", "--user", ada, "--name", name, "--scope", strings.Join(scopes, ","))
	return made.Key
}

// ask makes a request to /api/v1 with a key of scope admin.
func (h *testServer) ask(key, method, path string, body, into any) {
	h.t.Helper()
	text, err := json.Marshal(body)
	must(h.t, err)
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, h.url+path, bytes.NewReader(text))
	must(h.t, err)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	must(h.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	must(h.t, err)
	if resp.StatusCode >= 300 {
		h.t.Fatalf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	if into != nil {
		must(h.t, json.Unmarshal(answer, into))
	}
}

// token signs a person in without a browser and returns the cookie.
func (h *testServer) token(name, password string) string {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	must(h.t, err)
	resp, err := (&http.Client{Jar: jar, Timeout: patience}).PostForm(h.url+"/signin",
		url.Values{"name": {name}, "password": {password}})
	must(h.t, err)
	resp.Body.Close()
	site, err := url.Parse(h.url)
	must(h.t, err)
	for _, c := range jar.Cookies(site) {
		if c.Name == "patchbay" {
			return c.Value
		}
	}
	h.t.Fatalf("%s cannot sign in: %s", name, resp.Status)
	return ""
}

// look is a combination of settings in which pages are shown.
type look struct {
	width int64
	lang  string // en or zh
	dark  bool
}

func (l look) String() string {
	ground := "light"
	if l.dark {
		ground = "dark"
	}
	return fmt.Sprint(l.width, "-", l.lang, "-", ground)
}

var (
	phone  = look{390, "en", false}
	laptop = look{1280, "en", false}
)

// looks are all tested looks; the first two have no setting in common.
var looks = []look{
	phone, {1280, "zh", true},
	{390, "en", true}, {390, "zh", false}, {390, "zh", true},
	laptop, {1280, "en", true}, {1280, "zh", false},
}

// everyLook runs a story in two looks that have nothing in common, or in all looks before a release
// (CHECK_ALL, see test/check). Each look has its own server, so that it can fail alone; Chromium is
// shared. [TestEveryPage] checks the pages in each look.
func everyLook(t *testing.T, story func(t *testing.T, l look)) {
	t.Helper()
	told := looks[:2]
	if os.Getenv("CHECK_ALL") != "" {
		told = looks
	}
	for _, l := range told {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			story(t, l)
		})
	}
}

// browser opens a browser in which nobody is signed in.
func (h *testServer) browser(l look) *browsertest.Browser {
	h.t.Helper()
	return h.window(h.t, l, "")
}

// window opens a browser window for the time of a test, with a person's cookie or without one.
func (h *testServer) window(t testing.TB, l look, token string) *browsertest.Browser {
	t.Helper()
	b := chromium.Window(t, h.url)
	b.SetWidth(l.width)
	b.SetDark(l.dark)
	b.Cookie("patchbay-lang", l.lang)
	if token != "" {
		b.Cookie("patchbay", token)
	}
	return b
}

// adaBrowser opens a browser in which ada has just signed in.
func (h *testServer) adaBrowser(l look) *browsertest.Browser {
	h.t.Helper()
	return h.window(h.t, l, h.token(ada, adaPassword))
}

// in returns the text in the language of a look.
func (l look) in(zh, en string) string {
	if l.lang == "zh" {
		return zh
	}
	return en
}

// in returns the text in the language of the server's people.
func (h *testServer) in(zh, en string) string { return look{lang: h.lang}.in(zh, en) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
