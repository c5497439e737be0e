package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"patchbay/internal/control"
	"patchbay/internal/plug/mcp/sim"
	"patchbay/internal/plug/mcp/upstream/signin/signintest"
)

// signInCommand runs "upstream signin" until it has printed its address. Finish writes a line to
// it, or nothing, and returns its outcome.
func (d *desk) signInCommand(name string, flags ...string) (address string, finish func(line string) outcome) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	d.t.Cleanup(cancel)
	stdin, paste := io.Pipe()
	told, stderr := io.Pipe()
	var stdout bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, append([]string{"upstream", "signin", name}, flags...), stdin, &stdout, stderr, d.env)
		stderr.Close()
	}()
	lines := bufio.NewScanner(told)
	for address == "" && lines.Scan() {
		if line, ok := strings.CutPrefix(lines.Text(), "  http"); ok {
			address = "http" + line
		}
	}
	rest := make(chan []byte, 1)
	go func() {
		text, _ := io.ReadAll(told)
		rest <- text
	}()
	return address, func(line string) outcome {
		if line != "" {
			if _, err := io.WriteString(paste, line+"\n"); err != nil {
				d.t.Error(err)
			}
		}
		paste.Close()
		code := <-done
		return outcome{stdout.String(), string(<-rest), code}
	}
}

// Somebody at a terminal signs in to a server: by the browser on another machine, whose last
// address is pasted, or while the command waits.
func TestUpstreamSignIn(t *testing.T) {
	d := withParrot(t)
	tools, err := sim.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tools.Close() })
	to, err := url.Parse(strings.TrimSuffix(tools.URL, "/mcp"))
	if err != nil {
		t.Fatal(err)
	}
	as := signintest.New(t, httputil.NewSingleHostReverseProxy(to))
	if got := d.ok("upstream", "add", "notion", "--url", as.URL+"/mcp"); !strings.Contains(got,
		"patchbay upstream signin notion") {
		t.Errorf("adding it says %q", got)
	}
	d.serve()
	d.failing(exitFailed, "", []string{"upstream", "check", "notion"}, "wants its owner to sign in", "upstream signin notion")
	d.failing(exitUsage, "", []string{"upstream", "signin", "notion", "--out", "--answer", "x"}, "exclude each other")
	d.failing(exitFailed, "", []string{"upstream", "signin", "notion", "--answer", "http://x/"}, "no answer to a sign-in")

	address, finish := d.signInCommand("notion")
	o := finish("http://x/\nhttp://x/?state=x\n" + signintest.Consent(t, address))
	if o.code != exitOK || !strings.Contains(o.stdout, as.URL) || strings.Count(o.stderr, "Paste the address of") != 2 {
		t.Fatalf("pasting the address at last ends with %+v", o)
	}
	d.awaitTool("notion_get_temperature")
	if got := d.ok("upstream", "show", "notion"); !strings.Contains(got, "Signed in at "+as.URL) {
		t.Errorf("it is shown as %s", got)
	}
	if got := d.ok("upstream", "signin", "notion", "--out"); !strings.Contains(got, "signed out of notion") {
		t.Errorf("signing out says %q", got)
	}

	if got := d.ok("upstream", "show", "notion"); !strings.Contains(got, "has signed out") ||
		!strings.Contains(got, "patchbay upstream signin notion") || strings.Contains(got, "ready") {
		t.Errorf("after signing out it is shown as %s", got)
	}
	if o := d.do("", "doctor"); !strings.Contains(o.stdout, "has signed out") {
		t.Errorf("after signing out the doctor says %s", o.stdout)
	}
	_, finish = d.signInCommand("notion")
	if o := finish("a\nb\nc"); o.code != exitFailed || strings.Count(o.stderr, "no answer to a sign-in") != 3 {
		t.Errorf("pasting three wrong addresses ends with %+v", o)
	}

	address, finish = d.signInCommand("notion", "--json")
	o = finish(signintest.Consent(t, address))
	var started control.StartedSignIn
	var state control.UpstreamSignIn
	read := json.NewDecoder(strings.NewReader(o.stdout))
	err = errors.Join(read.Decode(&started), read.Decode(&state))
	if err != nil || started.Address != address || !state.SignedIn {
		t.Errorf("with --json it prints %q, %v", o.stdout, err)
	}

	address, finish = d.signInCommand("notion")
	d.json(&state, "upstream", "signin", "notion", "--answer", signintest.Consent(t, address))
	if !state.SignedIn || state.Issuer != as.URL {
		t.Errorf("the state is %+v", state)
	}
	if o := finish(""); o.code != exitOK || !strings.Contains(o.stdout, as.URL) {
		t.Errorf("waiting ends with %+v", o)
	}
}
