package mcptest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// peerTimeout limits each operation of an external program. Starting Node.js on a busy machine
// takes seconds.
const peerTimeout = 60 * time.Second

// Peer is a third-party client that runs as a process and executes commands, which
// test/peers/mcp/commands.mjs describes. It must not be used concurrently.
type Peer struct {
	t      testing.TB
	name   string
	in     io.WriteCloser
	events chan Event
	seen   []Event // events skipped by Until
	tags   int
}

// Event is an event of a peer. Event["event"] is its name.
type Event map[string]any

// Name returns the event's name.
func (e Event) Name() string { name, _ := e["event"].(string); return name }

// Decode reads a field of the event into v.
func (e Event) Decode(field string, v any) error {
	text, err := json.Marshal(e[field])
	if err != nil {
		return err
	}
	return json.Unmarshal(text, v)
}

// Text returns the text of a call's result.
func (e Event) Text() string {
	var r struct {
		Content []struct{ Text string } `json:"content"`
	}
	if e.Decode("result", &r) != nil {
		return ""
	}
	words := ""
	for _, part := range r.Content {
		words += part.Text
	}
	return words
}

// TypeScript starts a client of the official TypeScript SDK and connects it. The way is
// "streamable" or "sse" for version 1, and "modern", "auto" or "legacy" for version 2. If it cannot
// connect, the test fails.
func TypeScript(t testing.TB, way, url, token string) *Peer {
	t.Helper()
	script := "ts-client.mjs"
	switch way {
	case "modern", "auto", "legacy":
		script = "ts-modern.mjs"
	}
	node := Node(t)
	return start(t, "TypeScript, "+way, exec.Command(node, filepath.Join(findPeers(t, "mcp"), script), url, token, way))
}

// MCPGo starts a client of mark3labs/mcp-go and connects it. The way is "streamable", "sse" or
// "auto".
func MCPGo(t testing.TB, way, url, token string) *Peer {
	t.Helper()
	args := []string{url, token}
	switch way {
	case "sse":
		args = append([]string{"-sse"}, args...)
	case "auto":
		args = append([]string{"-era", "auto"}, args...)
	}
	return start(t, "mcp-go, "+way, exec.Command(MCPGoProgram(t), args...))
}

// MCPGoProgram builds the program in test/peers/mcpgo. If its modules are unavailable, the test is
// skipped.
func MCPGoProgram(t testing.TB) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "mcpgo")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	cmd.Dir = findPeers(t, "mcpgo")
	if out, err := exec.CommandContext(t.Context(), "go", "-C", cmd.Dir, "mod",
		"download").CombinedOutput(); err != nil {
		skipOrFail(t, fmt.Sprintf("the libraries of test/peers/mcpgo cannot be had: %v: %s", err, out))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building mcpgo: %v: %s", err, out)
	}
	return program
}

func start(t testing.TB, name string, cmd *exec.Cmd) *Peer {
	t.Helper()
	p := &Peer{t: t, name: name, events: make(chan Event, 1000)}
	cmd.Stderr = newTestLog(t, name)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(p.events)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20) // a list of tools is one line
		for lines.Scan() {
			var e Event
			if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
				t.Errorf("%s says %q", name, lines.Text())
				continue
			}
			p.events <- e
		}
		if err := lines.Err(); err != nil {
			t.Errorf("%s: %v", name, err)
			_, _ = io.Copy(io.Discard, out)
		}
	}()
	t.Cleanup(func() {
		_ = in.Close() // the process ends with its input
		limit := time.AfterFunc(peerTimeout, func() { _ = cmd.Process.Kill() })
		defer limit.Stop()
		for range p.events {
			// discarded, so that the reader does not block
		}
		<-done
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ended with %v", name, err)
		}
	})
	if e := p.next("connected"); e.Name() != "connected" {
		t.Fatalf("%s could not connect: %v", name, e)
	} else {
		p.seen = append(p.seen, e)
	}
	return p
}

// next reads an event. If there is none, the test fails.
func (p *Peer) next(wanted string) Event {
	p.t.Helper()
	limit := time.NewTimer(peerTimeout)
	defer limit.Stop()
	select {
	case e, open := <-p.events:
		if !open {
			p.t.Fatalf("%s ended, want %s", p.name, wanted)
		}
		return e
	case <-limit.C:
		p.t.Fatalf("%s says nothing, want %s", p.name, wanted)
	}
	return nil
}

// Until returns the first event with a name for which ok returns true (nil: any). It keeps skipped
// events for later calls.
func (p *Peer) Until(name string, ok func(Event) bool) Event {
	p.t.Helper()
	fits := func(e Event) bool { return e.Name() == name && (ok == nil || ok(e)) }
	for i, e := range p.seen {
		if fits(e) {
			p.seen = append(p.seen[:i:i], p.seen[i+1:]...)
			return e
		}
	}
	for {
		e := p.next(name)
		if fits(e) {
			return e
		}
		p.seen = append(p.seen, e)
	}
}

// Connected returns the event of the connect: protocol, session, server, capabilities and
// instructions.
func (p *Peer) Connected() Event {
	p.t.Helper()
	return p.Until("connected", nil)
}

// Start starts a command and returns its tag. Other commands can be started while it runs.
func (p *Peer) Start(do string, args map[string]any) (tag string) {
	p.t.Helper()
	p.tags++
	tag = fmt.Sprintf("%s-%d", do, p.tags)
	line := map[string]any{"do": do, "tag": tag}
	for k, v := range args {
		line[k] = v
	}
	if _, err := p.in.Write(append(raw(line), '\n')); err != nil {
		p.t.Fatalf("%s: %v", p.name, err)
	}
	return tag
}

// Finish returns the result of the command with a tag: the event with the command's name, or the
// event failed.
func (p *Peer) Finish(tag string) Event {
	p.t.Helper()
	answers := func(e Event) bool {
		return e["tag"] == tag && e.Name() != "progress"
	}
	for i, e := range p.seen {
		if answers(e) {
			p.seen = append(p.seen[:i:i], p.seen[i+1:]...)
			return e
		}
	}
	for {
		e := p.next(tag)
		if answers(e) {
			return e
		}
		p.seen = append(p.seen, e)
	}
}

// Do executes a command, which must succeed, and returns its result.
func (p *Peer) Do(do string, args map[string]any) Event {
	p.t.Helper()
	e := p.Finish(p.Start(do, args))
	if e.Name() == "failed" {
		p.t.Fatalf("%s: %s %v failed: %v", p.name, do, args, e["message"])
	}
	return e
}

// Call calls a tool, which must succeed.
func (p *Peer) Call(name string, args map[string]any) Event {
	p.t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	return p.Do("call", map[string]any{"name": name, "args": args})
}

// ServerProgram returns the command line of a reference server, such as "server-everything".
func ServerProgram(t testing.TB, name string) []string {
	t.Helper()
	node := Node(t)
	return []string{node, filepath.Join(findPeers(t, "mcp"), "node_modules", "@modelcontextprotocol", name, "dist", "index.js")}
}
