// Package console drives the pages of the real binary in a real browser, as people
// use them: by mouse, by finger and by keyboard, on a phone and on a laptop.
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
	chromium browsertest.Chromium // of all windows
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

// patience is how long the server may take for anything; machines that run tests are
// busy.
const patience = 60 * time.Second

// The person that most houses begin with. She runs the installation.
const (
	ada         = "ada"
	adaPassword = "correct horse"
)

// house is a running installation.
type house struct {
	t    testing.TB
	lang string // of its terminal, and of the people in it: en or zh
	url  string
	env  []string

	mu    sync.Mutex
	said  bytes.Buffer // on standard error
	heard chan struct{}
}

// newHouse starts a server where nobody has an account.
func newHouse(t testing.TB, lang string) *house {
	t.Helper()
	h := &house{t: t, lang: lang, heard: make(chan struct{})}
	h.env = []string{
		"PATCHBAY_DATA=" + t.TempDir(), "PATCHBAY_LISTEN=127.0.0.1:0", "LC_ALL=" + h.in("zh_CN", "en_US") + ".UTF-8",
		"PATCHBAY_XIAOZHI_MQTT=127.0.0.1:0", "PATCHBAY_XIAOZHI_AUDIO=127.0.0.1:0",
	}
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

// adasHouse is one where ada has an account, who runs it.
func adasHouse(t testing.TB) *house {
	t.Helper()
	return phone.house(t)
}

// house is ada's, where everybody speaks the language of a look.
func (l look) house(t testing.TB) *house {
	t.Helper()
	h := newHouse(t, l.lang)
	h.person(ada, "admin", adaPassword)
	return h
}

func (h *house) command(args ...string) *exec.Cmd {
	cmd := exec.Command(binary, args...)
	cmd.Env = append(os.Environ(), h.env...)
	return cmd
}

func (h *house) log() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said.String()
}

// says waits until the server has said something, and returns the first group of it.
func (h *house) says(pattern string) string {
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

// run carries out a command in the same installation.
func (h *house) run(args ...string) string {
	h.t.Helper()
	return h.feed("", args...)
}

// feed is run with something to read.
func (h *house) feed(in string, args ...string) string {
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

// json is run of a command whose output is JSON.
func (h *house) json(into any, args ...string) {
	h.t.Helper()
	if out := h.run(append(args, "--json")...); json.Unmarshal([]byte(out), into) != nil {
		h.t.Fatalf("patchbay %s: %s", strings.Join(args, " "), out)
	}
}

// person opens an account.
func (h *house) person(name, role, password string) {
	h.t.Helper()
	h.feed(password+"\n", "user", "add", name, "--role", role, "--lang", h.lang, "--password-stdin")
}

// key makes a key of ada's.
func (h *house) key(name string, scopes ...string) string {
	h.t.Helper()
	var made struct{ Key string }
	h.json(&made, "key", "add", "--user", ada, "--name", name, "--scope", strings.Join(scopes, ","))
	return made.Key
}

// ask asks /api/v1 for something, with a key of scope admin.
func (h *house) ask(key, method, path string, body, into any) {
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

// token signs somebody in without a browser, and returns the cookie.
func (h *house) token(name, password string) string {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	must(h.t, err)
	resp, err := (&http.Client{Jar: jar, Timeout: patience}).PostForm(h.url+"/signin", url.Values{"name": {name}, "password": {password}})
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

// look is how somebody sees pages.
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

// looks are all that there are; the first two have nothing in common.
var looks = []look{
	phone, {1280, "zh", true},
	{390, "en", true}, {390, "zh", false}, {390, "zh", true},
	laptop, {1280, "en", true}, {1280, "zh", false},
}

// everyLook tells a story in two looks that have nothing in common, and in each before a
// release (CHECK_ALL, see test/check). They have their own things, so that each can fail by
// itself, and share Chromium. How pages look in each look, [TestEveryPage] knows.
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

// browser opens one in which nobody is signed in.
func (h *house) browser(l look) *browsertest.Browser {
	h.t.Helper()
	return h.window(h.t, l, "")
}

// window opens one for the time of a test, with the cookie of somebody, or nobody's.
func (h *house) window(t testing.TB, l look, token string) *browsertest.Browser {
	t.Helper()
	b := chromium.Window(t, h.url)
	b.Width(l.width)
	b.Dark(l.dark)
	b.Cookie("patchbay-lang", l.lang)
	if token != "" {
		b.Cookie("patchbay", token)
	}
	return b
}

// hers opens a browser in which ada has just signed in.
func (h *house) hers(l look) *browsertest.Browser {
	h.t.Helper()
	return h.window(h.t, l, h.token(ada, adaPassword))
}

// in is a text in the language of a look.
func (l look) in(zh, en string) string {
	if l.lang == "zh" {
		return zh
	}
	return en
}

// in is a text in the language of the people in a house.
func (h *house) in(zh, en string) string { return look{lang: h.lang}.in(zh, en) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
