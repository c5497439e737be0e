package console

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/openai/openaitest"
	openclaw "patchbay/internal/plug/openclaw/sim"
	"patchbay/internal/plug/openclaw/wire"
	rokid "patchbay/internal/plug/rokid/sim"
	xiaozhi "patchbay/internal/plug/xiaozhi/sim"
)

// furnished returns a server of ada's with content on every page.
func furnished(t testing.TB) *testServer {
	t.Helper()
	h := newServerWithAda(t)
	h.furnish()
	return h
}

// furnish creates content for every page.
func (h *testServer) furnish() {
	h.t.Helper()
	in := h.in
	model := h.model()
	cook := h.bot(in("厨房助手", "Cook"), "openai", "base_url="+model, "model=fake-1", "learn=true")
	parrot := h.bot(in("鹦鹉", "Parrot"), "echo")
	h.bot(in("小龙虾", "Lobster"), "eyeclaw")
	h.person("bob", "member", "battery staple")
	h.key(in("桌面程序", "Desktop"), "mcp")
	h.run("upstream", "add", "weather", "--user", ada, "--url", "http://127.0.0.1:9/mcp", "--no-check")

	kitchen := h.board(in("厨房", "Kitchen"), cook)
	h.waitingBoard()
	must(h.t, kitchen.Wake(h.limit()))
	h.node(in("书房电脑", "Study"), true)
	h.node(in("客厅电脑", "Den"), false)

	h.points()
	glasses := h.glasses(cook, "wearer-1")
	for _, words := range []string{in("今天晚上做什么菜？", "What shall we cook tonight?"),
		in("多大火？", "How hot should the pan be?"), in("谢谢", "Thank you")} {
		if a, err := glasses.Ask(h.limit(), words, nil); err != nil || a.Err != "" {
			h.t.Fatalf("the glasses: %v %s", err, a.Err)
		}
	}
	if a, err := h.glasses(parrot, "wearer-2").Ask(h.limit(), in("你好", "Hello"), nil); err != nil || a.Err != "" {
		h.t.Fatalf("the glasses: %v %s", err, a.Err)
	}
	h.run("device", "call", in("厨房", "Kitchen"), "self.audio_speaker.set_volume", "volume=40")
}

// limit returns the context, with its timeout, for operations of simulated peers.
func (h *testServer) limit() context.Context {
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	h.t.Cleanup(cancel)
	return ctx
}

// model starts a simulated model.
func (h *testServer) model() string {
	h.t.Helper()
	s, err := openaitest.Start()
	must(h.t, err)
	h.t.Cleanup(s.Close)
	s.Answer = func(*openaitest.Request) openaitest.Reply {
		return openaitest.Reply{Steps: []openaitest.Step{openaitest.Text(h.in("土豆韭葱汤很合适。",
			"A soup of potatoes and leek. ")), openaitest.Text(h.in("切好，小火煮二十分钟，最后加奶油。",
			"Cut them, let them simmer for twenty minutes, and add cream in the end."))}}
	}
	return s.URL
}

// bot adds a bot of ada's and returns its number.
func (h *testServer) bot(name, kind string, settings ...string) int64 {
	h.t.Helper()
	args := []string{"bot", "add", "--user", ada, "--name", name, "--kind", kind}
	for _, s := range settings {
		args = append(args, "--set", s)
	}
	var made struct {
		ID int64 `json:"id"`
	}
	h.json(&made, args...)
	return made.ID
}

// glasses returns glasses that ask one of ada's bots.
func (h *testServer) glasses(bot int64, wearer string) *rokid.Glasses {
	h.t.Helper()
	g := rokid.New(rokid.Options{URL: h.url + "/sse/rokid", Key: h.key(wearer, "lingzhu"), UserID: wearer,
		AgentID: strconv.FormatInt(bot, 10)})
	h.t.Cleanup(g.Close)
	return g
}

// board returns a simulated voice board of ada's that is turned on.
func (h *testServer) board(name string, bot int64) *xiaozhi.Board {
	h.t.Helper()
	b := h.newBoard(xiaozhi.Options{Scale: 0.01, OnEvent: func(e xiaozhi.Event) {
		if e.Kind == xiaozhi.EventCode {
			if out, err := h.command("device", "approve", e.Text, "--user", ada, "--name", name,
				"--bot", strconv.FormatInt(bot, 10)).CombinedOutput(); err != nil {
				h.t.Errorf("device approve: %v\n%s", err, out)
			}
		}
	}})
	must(h.t, b.Boot(h.limit()))
	return b
}

func (h *testServer) newBoard(o xiaozhi.Options) *xiaozhi.Board {
	o.OTA, o.Slack = h.url+"/xiaozhi/ota/", time.Minute
	b := xiaozhi.New(o)
	h.t.Cleanup(b.Close)
	return b
}

// waitingBoard returns a board that shows a code until it is entered.
func (h *testServer) waitingBoard() (b *xiaozhi.Board, code string, on <-chan error) {
	h.t.Helper()
	codes, booted := make(chan string, 100), make(chan error, 1)
	b = h.newBoard(xiaozhi.Options{Scale: 0.2, OnEvent: func(e xiaozhi.Event) {
		if e.Kind == xiaozhi.EventCode {
			select {
			case codes <- e.Text:
			default: // no reader any more
			}
		}
	}})
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		booted <- b.Boot(ctx)
	}()
	h.t.Cleanup(func() {
		cancel()
		<-over
	})
	select {
	case code = <-codes:
	case err := <-booted:
		h.t.Fatalf("the board is on without a code: %v", err)
	case <-h.limit().Done():
		h.t.Fatal("the board shows no code")
	}
	return b, code, booted
}

// node returns a simulated OpenClaw node with a key of ada's. Its commands are approved, or
// pending.
func (h *testServer) node(name string, approve bool) *openclaw.Node {
	h.t.Helper()
	n := openclaw.NewNode(openclaw.Options{
		URL: "ws" + strings.TrimPrefix(h.url, "http"), Token: h.key("node of "+name, "node"), Name: name,
		Caps: []string{"system"}, Commands: []string{"system.which", "system.run"},
		Handler: func(_ context.Context, command string, _ json.RawMessage) (json.RawMessage, error) {
			return json.Marshal(map[string]any{"command": command, "bins": map[string]string{"git": "/usr/bin/git"}})
		},
	})
	h.t.Cleanup(n.Close)
	must(h.t, n.AwaitConnected(h.limit()))
	h.await(name+" wants to be of use", func() bool {
		var p struct{ Nodes []wire.NodeRequest }
		h.json(&p, "pair", "list")
		return slices.ContainsFunc(p.Nodes, func(r wire.NodeRequest) bool { return r.NodeID == n.ID() })
	})
	if approve {
		h.run("pair", "approve", name)
	}
	return n
}

// await polls for a condition that has no notification.
func (h *testServer) await(what string, so func() bool) {
	h.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !so() {
		select {
		case <-tick.C:
		case <-limit:
			h.t.Fatalf("it never happened that %s", what)
		}
	}
}

// points adds geography and German points for ada, some of them already reviewed.
func (h *testServer) points() {
	h.t.Helper()
	in := h.in
	h.feed(in("法国的首都是哪里？\t巴黎\n地球上最长的河是哪一条？\t**尼罗河**，长约 6650 公里\n最高的山是哪一座？\t珠穆朗玛峰，8848 米\n",
		"What is the capital of France?\tParis\nWhich river is the longest on Earth?\tThe **Nile**, some 6,650 km\nWhich mountain is the highest?\tMount Everest, 8,848 m\n"),
		"learn", "add", "--user", ada, "--file", "-", "--deck", in("地理", "Geography"), "--tag", in("世界", "world"))
	h.feed("der Hund\tthe dog\ndie Katze\tthe cat\ndas Haus\tthe house\nder Baum\tthe tree\n", "learn", "add",
		"--user", ada, "--file", "-", "--deck", in("德语", "German"))
	key := h.key("study", "learn")
	var list struct {
		Points []struct {
			ID string `json:"id"`
		} `json:"knowledge_points"`
	}
	h.tool(key, "list_knowledge_points", map[string]any{}, &list)
	if len(list.Points) != 7 {
		h.t.Fatalf("there are %d points", len(list.Points))
	}
	for i, p := range list.Points {
		if i%2 == 0 {
			h.tool(key, "submit_review", map[string]any{"knowledge_point_id": p.ID,
				"grade": []string{"good", "easy", "hard", "again"}[i/2%4], "recall_text": "…"}, nil)
		}
	}
}

// tool calls one of Learn's tools.
func (h *testServer) tool(key, name string, args, into any) {
	h.t.Helper()
	var answer struct {
		Result struct {
			Structured json.RawMessage `json:"structuredContent"`
			IsError    bool            `json:"isError"`
			Content    json.RawMessage `json:"content"`
		} `json:"result"`
		Error json.RawMessage `json:"error"`
	}
	h.ask(key, http.MethodPost, "/api/mcp", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{"name": name, "arguments": args}}, &answer)
	if answer.Error != nil || answer.Result.IsError {
		h.t.Fatalf("%s: %s %s", name, answer.Error, answer.Result.Content)
	}
	if into != nil {
		must(h.t, json.Unmarshal(answer.Result.Structured, into))
	}
}
