package test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/certs/pebbletest"
	"patchbay/internal/control"
	"patchbay/internal/netx"
	"patchbay/internal/store"
)

// relayProcess is a running patchbay relay serve.
type relayProcess struct {
	t       *testing.T
	folder  string
	address string
	cmd     *exec.Cmd
	log     *bytes.Buffer
}

// start starts the relay, again on its port.
func (r *relayProcess) start() {
	r.t.Helper()
	listen := r.address
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	r.cmd = exec.Command(patchbay(), "relay", "serve", "--domain", "relay.test", "--listen", listen, "--data", r.folder,
		"--log-level", "debug", "--json")
	if r.log == nil {
		r.log = new(bytes.Buffer)
	}
	r.cmd.Stderr = r.log
	out, err := r.cmd.StdoutPipe()
	must(r.t, err)
	must(r.t, r.cmd.Start())
	var at struct{ Listen string }
	must(r.t, json.NewDecoder(bufio.NewReader(out)).Decode(&at))
	r.address = at.Listen
}

func (r *relayProcess) kill() {
	r.cmd.Process.Kill() //nolint:errcheck // it may have ended
	r.cmd.Wait()         //nolint:errcheck // it was killed
}

// holds reports whether a text is in the memory of a process (proc(5), /proc/pid/mem).
func holds(t *testing.T, pid int, text string) bool {
	t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	must(t, err)
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	must(t, err)
	defer memory.Close()
	looked := 0
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var rights string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &rights); err != nil || rights[0] != 'r' || from < 0 {
			continue
		}
		b := make([]byte, min(to-from, 1<<30))
		n, _ := memory.ReadAt(b, from) //nolint:errcheck // some pages are not there
		looked += n
		if bytes.Contains(b[:n], []byte(text)) {
			return true
		}
	}
	if looked < 1<<20 {
		t.Fatalf("only %d bytes of process %d can be read", looked, pid)
	}
	return false
}

// homeBehind is an installation that is reached through a relay.
type homeBehind struct {
	*installation
	t     *testing.T
	name  string
	key   string
	flags []string
	relay *relayProcess
	roots *x509.CertPool
	run   *server
}

// newHomeBehind adds a home at a relay, and an installation with an echo bot. Its certificate is
// one of the authority, which checks the name through the relay.
func newHomeBehind(t *testing.T, r *relayProcess, name string, authority *pebbletest.Pebble) *homeBehind {
	t.Helper()
	h := &homeBehind{installation: newInstallation(store.Options{Folder: t.TempDir()}), t: t, name: name + ".relay.test",
		relay: r, roots: authority.Roots(0)}
	var code struct{ Code string }
	h.json(t, &code, "relay", "key", "add", name, "--data", r.folder)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	must(t, os.WriteFile(ca, authority.CA, 0o600))
	h.flags = []string{"--relay", r.address, "--https-directory", authority.Directory, "--https-ca", ca}
	h.installation.run(t, "user", "add", name)
	h.installation.run(t, "bot", "add", "--name", "echo", "--kind", "echo")
	var made addedKey
	h.json(t, &made, "key", "add", "--name", "glasses", "--scope", "lingzhu")
	h.key = made.Key
	h.start("--relay-key", code.Code)
	return h
}

func (h *homeBehind) start(flags ...string) {
	h.t.Helper()
	h.run = h.serve(h.t, append(h.flags, flags...)...)
}

// ask asks the echo bot as glasses do, by https through the relay, until it answers.
func (h *homeBehind) ask(text string) {
	h.t.Helper()
	client := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: h.roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, h.relay.address)
		}}}
	var got string
	for until := time.Now().Add(time.Minute); ; {
		req, err := http.NewRequest(http.MethodPost, "https://"+h.name+"/sse/rokid",
			strings.NewReader(question("1", "wearer", "s", text)))
		must(h.t, err)
		req.Header.Set("Authorization", "Bearer "+h.key)
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err == nil {
			var b []byte
			b, err = io.ReadAll(res.Body)
			res.Body.Close()
			got = string(b)
		}
		if err == nil && strings.Contains(got, "event: done") {
			break
		}
		if time.Now().After(until) {
			h.t.Fatalf("%s does not answer: %v, %s", h.name, err, got)
		}
		netx.Wait(h.t.Context(), 20*time.Millisecond) //nolint:errcheck // the test ends then
	}
	var said strings.Builder
	for line := range strings.Lines(got) {
		var piece struct {
			Text string `json:"answer_stream"`
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok && json.Unmarshal([]byte(data), &piece) == nil {
			said.WriteString(piece.Text)
		}
	}
	if said.String() != text {
		h.t.Errorf("%s answers %q, want %q", h.name, said.String(), text)
	}
}

// link waits until the home is connected, and returns the state of its link.
func (h *homeBehind) link() control.RelayLink {
	h.t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		var links []control.RelayLink
		h.json(h.t, &links, "relay", "status")
		if len(links) == 1 && links[0].Connected {
			return links[0]
		}
		if time.Now().After(until) {
			h.t.Fatalf("%s is not linked: %+v", h.name, links)
		}
		netx.Wait(h.t.Context(), 20*time.Millisecond) //nolint:errcheck // the test ends then
	}
}

// Two homes get their certificates and answer questions through a relay, after each of the three
// was killed, and nothing that was said is in the memory or the log of the relay.
func TestRelay(t *testing.T) {
	r := &relayProcess{t: t, folder: t.TempDir()}
	r.start()
	t.Cleanup(func() { r.kill() })
	_, port, err := net.SplitHostPort(r.address)
	must(t, err)
	number, err := strconv.Atoi(port)
	must(t, err)
	authority := pebbletest.Start(t, pebbletest.Options{TLSPort: number})
	anna, ben := newHomeBehind(t, r, "anna", authority), newHomeBehind(t, r, "ben", authority)
	secret := rand.Text() // not even a part of it
	for _, h := range []*homeBehind{anna, ben} {
		h.ask("the word is " + secret)
	}
	if l := anna.link(); l.Names[0] != "anna.relay.test" {
		t.Errorf("%+v", l)
	}
	if out := anna.installation.run(t, "relay", "status"); !strings.Contains(out, "anna.relay.test") {
		t.Errorf("the status is %s", out)
	}
	if !holds(t, r.cmd.Process.Pid, "anna.relay.test") {
		t.Error("the memory of the relay cannot be searched")
	}
	if holds(t, r.cmd.Process.Pid, secret) {
		t.Error("the relay has the question in its memory")
	}

	r.kill()
	r.start()
	anna.ask("again " + secret)
	ben.ask("again " + secret)
	ben.run.kill()
	ben.start() // without the join code
	ben.ask("a third time " + secret)
	anna.ask("a third time " + secret)
	if holds(t, r.cmd.Process.Pid, secret) {
		t.Error("the relay has a question in its memory")
	}

	must(t, r.cmd.Process.Signal(os.Interrupt))
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("the relay ends with %v", err)
	}
	if log := r.log.String(); strings.Contains(log, secret) || !strings.Contains(log, "home joined") ||
		strings.Contains(log, anna.key) || strings.Contains(log, "pbjoin_") {
		t.Errorf("the log of the relay has what it should not: %s", tail(log, 4000))
	}
}
