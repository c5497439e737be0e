package test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// screen is the output of a command so far.
type screen struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{} // receives after each write
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// Following the README literally on an empty machine leads to a page with a signed-in user, and to
// a first answer. The commands are read from the README; the browser steps run in a headless
// browser. (TestManualRuns runs the demos that precede them.)
func TestReadmeFromNothingToAnAnswer(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct{ file, section, lang, hello string }{
		{"README.md", "## Set it up\n", "en_US.UTF-8", "Hello, ada"},
		{"README.zh-CN.md", "## 安装\n", "zh_CN.UTF-8", "你好，ada"},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(filepath.Join(root, c.file))
			must(t, err)
			_, section, ok := strings.Cut(string(text), c.section)
			if !ok {
				t.Fatalf("there is no section %q", c.section)
			}
			// A real browser does what TestManualRuns does without one.
			steps := blocksOf(regexp.MustCompile(`<!-- run: .*? -->`).ReplaceAllString(section, ""))
			if len(steps) < 4 || !strings.HasSuffix(steps[0].script, "go build -o patchbay ./cmd/patchbay\n") ||
				steps[1].script != "patchbay serve\n" || steps[3].output == "" {
				t.Fatalf("the section does not go: build, serve, a bot and a question, the answer; it goes %+v", steps)
			}
			home := t.TempDir()
			address := freeAddress(t)
			shell := func(script string) *exec.Cmd {
				cmd := exec.CommandContext(t.Context(), "bash", "-c", "exec 2>&1; set -e\n"+script)
				cmd.Dir = home
				cmd.Env = []string{"HOME=" + home, "LANG=" + c.lang,
					"PATH=" + filepath.Dir(patchbay()) + ":" + os.Getenv("PATH"), "PATCHBAY_LISTEN=" + address}
				return cmd
			}
			shown := &screen{wrote: make(chan struct{}, 1)}
			server := shell("exec " + steps[1].script)
			server.Stdout = shown
			must(t, server.Start())
			t.Cleanup(func() {
				server.Process.Signal(syscall.SIGTERM)
				server.Wait()
				if t.Failed() {
					t.Logf("the server printed:\n%s", tail(shown.String(), 4000))
				}
			})
			var at, code string
			for deadline := time.After(time.Minute); code == ""; {
				select {
				case <-shown.wrote:
				case <-deadline:
					t.Fatalf("no address and no code were shown, but\n%s", shown)
				}
				if m := regexp.MustCompile(`(http://\S+)\s.*\b([0-9A-Z]{4}-[0-9A-Z]{4})\b`).
					FindStringSubmatch(shown.String()); m != nil {
					at, code = m[1], m[2]
				}
			}
			signUp(t, at, c.lang, code, c.hello)

			out, err := shell(steps[2].script).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if missing := firstMissing(string(out), steps[3].output); missing != "" {
				t.Errorf("the first answer lacks %q; printed was\n%s", missing, out)
			}
		})
	}
}

// signUp opens an address in a browser, fills in the form, and checks that the next page greets the
// new user.
func signUp(t *testing.T, at, lang, code, greeting string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	must(t, err)
	browser := &http.Client{Jar: jar, Timeout: time.Minute}
	visit := func(req *http.Request, err error) (page string, where *url.URL) {
		t.Helper()
		must(t, err)
		req.Header.Set("Accept-Language", strings.ReplaceAll(strings.TrimSuffix(lang, ".UTF-8"), "_", "-"))
		resp, err := browser.Do(req)
		must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		must(t, err)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s\n%s", req.URL, resp.Status, text)
		}
		return string(text), resp.Request.URL
	}
	form, where := visit(http.NewRequest(http.MethodGet, at, nil))
	action := regexp.MustCompile(`<form[^>]* method="post" action="([^"]+)"`).FindStringSubmatch(form)
	if action == nil {
		t.Fatalf("%s has no form:\n%s", where, form)
	}
	values := url.Values{}
	for name, value := range map[string]string{"code": code, "name": "ada", "password": "correct horse"} {
		if !strings.Contains(form, fmt.Sprintf(`name=%q`, name)) {
			t.Fatalf("the form asks for no %s:\n%s", name, form)
		}
		values.Set(name, value)
	}
	to, err := where.Parse(action[1])
	must(t, err)
	req, err := http.NewRequest(http.MethodPost, to.String(), strings.NewReader(values.Encode()))
	must(t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	page, where := visit(req, nil)
	if !strings.Contains(page, greeting) {
		t.Errorf("%s does not say %q:\n%s", where, greeting, page)
	}
}
