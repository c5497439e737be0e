package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"patchbay/internal/netx"
	"patchbay/internal/plug/eyeclaw/connector"
	"patchbay/internal/plug/eyeclaw/sim"
	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/plug/openclaw/client/clienttest"
	"patchbay/internal/plug/openclaw/openclawtest"
	"patchbay/internal/plug/openclaw/wire"
	"patchbay/internal/proxytest"
)

// The bots of TestRestarts. Each is asked to count, and counts as in [counting].

// counting is a question, and what its answer is.
type counting struct {
	name   string // unique
	pieces int
	gap    time.Duration
}

func (c counting) text() string {
	return fmt.Sprintf("count %s %d %d", c.name, c.pieces, c.gap.Milliseconds())
}

// piece returns a piece of the answer.
func (c counting) piece(i int) string { return fmt.Sprintf("%sp%dof%d ", c.name, i, c.pieces) }

func parseCounting(text string) (c counting) {
	var gap int
	fmt.Sscanf(text, "count %s %d %d", &c.name, &c.pieces, &gap) //nolint:errcheck // it stays empty
	c.gap = time.Duration(gap) * time.Millisecond
	return c
}

// What bots report of a question.
const (
	reportBegan     = "began"
	reportFinished  = "finished"  // the bot has said everything
	reportDelivered = "delivered" // and knows that the server has it
	reportStopped   = "stopped"   // the bot was stopped before that
	reportKilled    = "killed"    // the process of the bot was killed before that
)

// report is called with what happens to a question.
type report func(question, what string)

// claws are hosts of our connector: processes that run its real code with an agent that counts.
type claws struct {
	t          *testing.T
	connection string
	folder     string // of the plugin
	state      string // folder in which it keeps answers
	node, host string
	report     report
	proxy      *proxytest.Proxy // between the connector and the server
	now        *claw
}

// claw is a process of a host.
type claw struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	ups     chan struct{} // it is connected
	reading sync.WaitGroup
	mu      sync.Mutex
	open    map[string]bool // questions that have begun and were not delivered
}

func newClaws(t *testing.T, server, token string, to report) *claws {
	t.Helper()
	peers, err := filepath.Abs("peers/openclaw")
	must(t, err)
	plugin, err := filepath.Abs("../internal/plug/eyeclaw/connector/plugin")
	must(t, err)
	c := &claws{t: t, folder: plugin, state: t.TempDir(), node: openclawtest.Node(t), host: filepath.Join(peers, "host.mjs"), report: to}
	c.proxy = proxytest.New(t, server)
	c.connection = connector.Connection("http://"+c.proxy.Addr(), token)
	c.now = c.begin()
	t.Cleanup(func() { c.kill(c.now) })
	return c
}

// begin starts a process.
func (c *claws) begin() *claw {
	c.t.Helper()
	p := &claw{cmd: exec.Command(c.node, c.host, c.folder, c.connection, c.state), ups: make(chan struct{}, 1000),
		open: map[string]bool{}}
	p.cmd.Stderr = os.Stderr
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	must(c.t, err)
	out, err := p.cmd.StdoutPipe()
	must(c.t, err)
	must(c.t, p.cmd.Start())
	p.reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			what, question, _ := strings.Cut(lines.Text(), " ")
			switch what {
			case "up":
				p.ups <- struct{}{}
			case "stopped":
				c.forgets(p, reportStopped)
			case reportBegan, reportFinished, reportDelivered:
				p.mu.Lock()
				p.open[question] = what != reportDelivered
				p.mu.Unlock()
				c.report(question, what)
			}
		}
	})
	return p
}

// reload has a process stop and start the plugin.
func (c *claws) reload(p *claw) {
	_, err := io.WriteString(p.stdin, "reload\n")
	must(c.t, err)
}

// stop ends a process as its owner does.
func (c *claws) stop(p *claw) {
	_, err := io.WriteString(p.stdin, "stop\n")
	must(c.t, err)
	c.ended(p)
}

// kill ends a process at once.
func (c *claws) kill(p *claw) {
	p.cmd.Process.Kill() //nolint:errcheck // it may have ended
	c.ended(p)
}

func (c *claws) ended(p *claw) {
	p.reading.Wait()
	p.cmd.Wait() //nolint:errcheck // it was killed
	c.forgets(p, reportKilled)
}

// forgets reports what a process cannot deliver any more.
func (c *claws) forgets(p *claw, how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for question, open := range p.open {
		if open {
			c.report(question, how)
		}
	}
	clear(p.open)
}

// awaitUp waits until a process is connected.
func (c *claws) awaitUp(p *claw) {
	c.t.Helper()
	select {
	case <-p.ups:
	case <-time.After(2 * time.Minute):
		c.t.Fatal("the connector does not connect")
	}
}

// eyes is an OpenClaw with an EyeClaw plugin.
type eyes struct {
	opt    sim.Options
	plugin *sim.Plugin
	stop   func()
}

func newEyes(t *testing.T, server, token string, to report) *eyes {
	// The real plugin needs up to 37 s to connect again, this one eight.
	e := &eyes{opt: sim.Options{Server: "http://" + server, Token: token, Scale: 0.2,
		Upstream: func(ctx context.Context, chat sim.Chat, piece func(string)) error {
			c := parseCounting(chat.Message)
			to(c.name, reportBegan)
			for i := range c.pieces {
				if err := netx.Wait(ctx, c.gap); err != nil {
					return err
				}
				piece(c.piece(i))
			}
			return nil
		}}}
	e.start()
	t.Cleanup(func() { e.stop() })
	return e
}

func (e *eyes) start() {
	running, cancel := context.WithCancel(ctx)
	e.plugin = sim.New(e.opt)
	plugin, over := e.plugin, make(chan struct{})
	go func() {
		defer close(over)
		plugin.Run(running) //nolint:errcheck // it ends with its context
	}()
	e.stop = func() { cancel(); <-over }
}

// newCountingModel returns the proxy to a chat API that counts.
func newCountingModel(t *testing.T, to report) *proxytest.Proxy {
	t.Helper()
	model, err := openaitest.Start()
	must(t, err)
	t.Cleanup(model.Close)
	model.Answer = func(r *openaitest.Request) openaitest.Reply {
		c := parseCounting(r.Chat.Last().Text())
		to(c.name, reportBegan)
		var steps []openaitest.Step
		for i := range c.pieces {
			steps = append(steps, openaitest.Delay(c.gap), openaitest.Text(c.piece(i)))
		}
		return openaitest.Reply{Steps: steps}
	}
	return proxytest.New(t, strings.TrimPrefix(strings.TrimSuffix(model.URL, "/v1"), "http://"))
}

// countingGateway is an OpenClaw gateway whose agent counts. It keeps what was said in its history,
// and goes on with its answers when it has restarted, as OpenClaw does.
type countingGateway struct {
	proxy  *proxytest.Proxy
	report report
	work   sync.WaitGroup

	mu      sync.Mutex
	peer    *clienttest.Peer // the newest client
	peers   map[*clienttest.Peer]bool
	runs    []*gatewayRun
	next    int
	ctx     context.Context // ends when the gateway stops
	restart context.CancelFunc
}

// gatewayRun is an answer of the agent.
type gatewayRun struct {
	id, session string
	resumes     bool // an answer that a restart cut off
	asked       counting
	said        int // pieces
	state       string
	stop        context.CancelFunc
}

func newCountingGateway(t *testing.T, to report) *countingGateway {
	t.Helper()
	gate := clienttest.Start(t, clienttest.Options{})
	g := &countingGateway{proxy: proxytest.New(t, strings.TrimPrefix(gate.URL, "ws://")), report: to,
		peers: map[*clienttest.Peer]bool{}}
	g.ctx, g.restart = context.WithCancel(ctx)
	gate.Serve(g.serve)
	t.Cleanup(func() {
		g.mu.Lock()
		g.restart()
		g.mu.Unlock()
		g.work.Wait()
	})
	return g
}

func (g *countingGateway) serve(p *clienttest.Peer, r wire.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.peers[p] { // requests of an older one may be left
		g.peer, g.peers[p] = p, true
	}
	switch r.Method {
	case wire.MethodChatSend:
		var m wire.ChatSend
		json.Unmarshal(r.Params, &m) //nolint:errcheck // it stays empty
		for _, run := range g.runs {
			if run.id == m.IdempotencyKey {
				p.Answer(r, wire.Run{RunID: run.id, Status: "in_flight"})
				return
			}
		}
		for _, run := range g.runs {
			if run.session == m.SessionKey && run.state == "" { // queue mode interrupt
				g.end(run, wire.ChatAborted)
			}
		}
		p.Answer(r, wire.Run{RunID: m.IdempotencyKey, Status: "started"})
		g.begin(&gatewayRun{id: m.IdempotencyKey, session: m.SessionKey, asked: parseCounting(m.Message)})
	case wire.MethodChatHistory:
		var m wire.ChatHistory
		json.Unmarshal(r.Params, &m) //nolint:errcheck // it stays empty
		p.Answer(r, g.history(m.SessionKey))
	case wire.MethodChatAbort:
		var m wire.ChatAbort
		json.Unmarshal(r.Params, &m) //nolint:errcheck // it stays empty
		for _, run := range g.runs {
			if run.id == m.RunID && run.state == "" {
				g.end(run, wire.ChatAborted)
			}
		}
		p.Answer(r, wire.AbortResult{OK: true})
	default:
		p.Answer(r, json.RawMessage(`{}`))
	}
}

// begin begins an answer. Requires mu.
func (g *countingGateway) begin(run *gatewayRun) {
	g.runs = append(g.runs, run)
	var running context.Context
	running, run.stop = context.WithCancel(g.ctx)
	g.report(run.asked.name, reportBegan)
	g.work.Go(func() {
		for netx.Wait(running, run.asked.gap) == nil {
			g.mu.Lock()
			if running.Err() == nil {
				if run.said++; run.said == run.asked.pieces {
					g.end(run, wire.ChatFinal)
				} else {
					g.tell(run, wire.ChatEvent{State: wire.ChatDelta, Delta: run.asked.piece(run.said - 1)})
				}
			}
			g.mu.Unlock()
		}
	})
}

// end ends an answer. Requires mu.
func (g *countingGateway) end(run *gatewayRun, state string) {
	run.state = state
	run.stop()
	if state == wire.ChatFinal {
		g.report(run.asked.name, reportFinished)
	}
	g.tell(run, wire.ChatEvent{State: state, StopReason: "stop"})
}

func (g *countingGateway) tell(run *gatewayRun, e wire.ChatEvent) {
	e.RunID, e.SessionKey = run.id, run.session
	e.Message, _ = json.Marshal(given{"role": "assistant", "content": []given{{"type": "text", "text": run.text()}}})
	g.peer.SendEvent(wire.EventChat, e)
}

func (r *gatewayRun) text() (s string) {
	for i := range r.said {
		s += r.asked.piece(i)
	}
	return s
}

// history returns that of a conversation. Requires mu.
func (g *countingGateway) history(session string) given {
	messages, h := []given{}, given{}
	for _, run := range g.runs {
		if run.session != session {
			continue
		}
		asked := given{"role": "user", "content": run.asked.text(), "idempotencyKey": run.id + ":user"}
		if run.resumes {
			asked["provenance"] = given{"sourceTool": "main_session_restart_recovery"}
		}
		messages = append(messages, asked)
		switch run.state {
		case "":
			h["inFlightRun"] = given{"runId": run.id, "text": run.text()}
		case wire.ChatFinal:
			messages = append(messages, given{"role": "assistant", "content": run.text(), "stopReason": "stop",
				"__openclaw": given{"runId": run.id}})
		case wire.ChatAborted:
			messages = append(messages, given{"role": "assistant", "content": run.text(), "stopReason": "aborted",
				"__openclaw": given{"runId": run.id}})
		}
	}
	h["messages"] = messages
	return h
}

// down ends the gateway, and up starts it again.
func (g *countingGateway) down() {
	g.proxy.Cut()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restart()
}

func (g *countingGateway) up() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ctx, g.restart = context.WithCancel(ctx)
	for _, run := range g.runs {
		if run.state == "" {
			run.state = "cut"
			g.next++
			g.begin(&gatewayRun{id: fmt.Sprint("recovery-", g.next), session: run.session, resumes: true,
				asked: run.asked, said: run.said})
		}
	}
	g.proxy.Pass()
}
