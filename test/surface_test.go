package test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/plug/eyeclaw/sim"
	"patchbay/internal/store"
)

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	res, err := http.Get(url)
	must(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	return res.StatusCode, string(body)
}

func TestOutsideSurface(t *testing.T) {
	p := newInstallation(store.Options{Folder: t.TempDir()})
	s := p.serve(t, "--demo")
	for path, want := range map[string]int{
		"/": 200, "/healthz": 200, "/readyz": 200, "/metrics": 200, "/nothing": 404, "/media/guess": 404,
		"/sse/rokid": 405, "/metis/agent/api/sse": 405, "/api/v1/bots": 401, "/cable": 426,
	} {
		if status, body := get(t, s.url+path); status != want {
			t.Errorf("GET %s: %d %s", path, status, body)
		}
	}
	for i, path := range []string{"/sse/rokid", "/metis/agent/api/sse"} {
		req, err := http.NewRequest(http.MethodPost, s.url+path,
			strings.NewReader(question("1", "", fmt.Sprint(i), "你好")))
		must(t, err)
		req.Header.Set("Authorization", "Bearer test_token")
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		must(t, err)
		if !strings.Contains(string(text), `"answer_stream":"好"`) || !strings.Contains(string(text), "event: done") {
			t.Errorf("%s: %s", path, text)
		}
	}
	if _, text := get(t, s.url+"/metrics"); !strings.Contains(text,
		`patchbay_turns_total{channel="lingzhu",code="",kind="echo",outcome="done"}`) {
		t.Error("the turns are not counted")
	}
}

// Each refusal is logged once, with its cause and without the secret.
func TestRefusalsAreLogged(t *testing.T) {
	p := newInstallation(store.Options{Folder: t.TempDir()})
	s := p.serve(t, "--demo")
	const secret = "guess-my-secret-key"
	if _, err := s.ask(secret, question("1", "", "1", "x"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ask("test_token", `{"message_id":`, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ask("test_token", question("999", "", "1", "x"), nil); err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(s.url + "/api/v1/bots?key=" + secret)
	must(t, err)
	res.Body.Close()
	must(t, s.stop())
	log := s.log()
	for _, cause := range []string{`cause="no such key"`, `cause="Invalid JSON: syntax error`, `cause="no such bot"`,
		`cause="no key was shown"`} {
		if n := strings.Count(log, cause); n != 1 {
			t.Errorf("%s is logged %d times in\n%s", cause, n, log)
		}
	}
	if strings.Contains(log, secret) {
		t.Errorf("the secret is in the log:\n%s", log)
	}
}

// A stopping server completes running turns and refuses new ones with a message.
func TestStoppingLetsAnswersEnd(t *testing.T) {
	p := newInstallation(store.Options{Folder: t.TempDir()})
	p.run(t, "user", "add", "ada")
	var bot addedBot
	p.json(t, &bot, "bot", "add", "--name", "claw", "--kind", "eyeclaw")
	var key addedKey
	p.json(t, &key, "key", "add", "--name", "glasses", "--scope", "lingzhu", "--bot", fmt.Sprint(bot.ID))
	s := p.serve(t)
	release := make(chan struct{})
	plugin := sim.New(sim.Options{Server: s.url, Token: bot.SDKToken, Scale: 0.02,
		Upstream: func(ctx context.Context, c sim.Chat, piece func(string)) error {
			piece("before ")
			if c.Message == "slow" {
				<-release
			}
			piece("after")
			return nil
		}})
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { plugin.Run(running) })
	defer wg.Wait()
	defer stop()
	awaitAnswer(t, s, key.Key, "before after")

	heard := make(chan string, 10)
	result := make(chan answer, 1)
	go func() {
		a, err := s.ask(key.Key, question("x", "U", "2", "slow"), func(piece string) { heard <- piece })
		if err != nil {
			t.Error(err)
		}
		result <- a
	}()
	<-heard
	stopped := make(chan error, 1)
	go func() { stopped <- s.stop() }()
	for deadline := time.Now().Add(10 * time.Second); ; { // until it reports that it is stopping
		if status, body := get(t, s.url+"/readyz"); status == http.StatusServiceUnavailable &&
			strings.Contains(body, "stopping") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is still ready")
		}
	}
	asksWhileDraining(t, s, key.Key)
	close(release)
	if a := <-result; a.text != "before after" || !a.done {
		t.Errorf("heard %+v", a)
	}
	if err := <-stopped; err != nil {
		t.Errorf("it ended with %v", err)
	}
}

// asksWhileDraining asks a server that waits for its last turns. Wearers get a message in their
// language, programs a time to retry.
func asksWhileDraining(t *testing.T, s *server, key string) {
	t.Helper()
	for lang, words := range map[string]string{"zh-CN": "服务正在重启，请稍等一会儿再问一次。",
		"en-US": "The server is restarting. Please ask again in a moment."} {
		body := strings.Replace(question("x", "V", "3", "new"), "zh-CN", lang, 1)
		req, err := http.NewRequest(http.MethodPost, s.url+"/sse/rokid", strings.NewReader(body))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		must(t, err)
		if res.StatusCode != http.StatusOK || !strings.Contains(string(text), `"answer_stream":"`+words+`"`) ||
			!strings.Contains(string(text), "event: done") {
			t.Errorf("a question in %s: %d %s", lang, res.StatusCode, text)
		}
	}
	for _, c := range []struct{ method, path, accept, words string }{
		{"GET", "/", "text/html", "服务正在停止"},
		{"POST", "/api/v1/bots", "application/json", `"error":"服务正在停止`},
		{"POST", "/mcp", "application/json", `"error":"服务正在停止`},
	} {
		req, err := http.NewRequest(c.method, s.url+c.path, strings.NewReader("{}"))
		must(t, err)
		req.Header.Set("Accept", c.accept)
		req.Header.Set("Accept-Language", "zh-CN")
		res, err := http.DefaultClient.Do(req)
		must(t, err)
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		must(t, err)
		if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" ||
			!strings.Contains(string(text), c.words) {
			t.Errorf("%s %s: %d %v %s", c.method, c.path, res.StatusCode, res.Header, text)
		}
	}
	// A plugin may come back, because answers wait for it.
	if status, _ := get(t, s.url+"/cable"); status != http.StatusUpgradeRequired {
		t.Errorf("GET /cable: %d", status)
	}
	if status, body := get(t, s.url+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d %s", status, body)
	}
}
