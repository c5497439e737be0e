//go:build linux

package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/openai/openaitest"
	"patchbay/internal/plug/openclaw/openclawtest"
)

// OpenClaw's own programs for people: its chat window in the terminal, and its MCP server.
func TestOpenClawOperators(t *testing.T) {
	if testing.Short() {
		t.Skip("starts OpenClaw")
	}
	openclawtest.LoadSchema(t) // skips the test without it
	model, err := openaitest.Start()
	must(t, err)
	t.Cleanup(model.Close)
	model.Answer = func(r *openaitest.Request) openaitest.Reply {
		asked := r.Chat.Last().Text()
		if asked == "ponder" {
			return openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("One moment please, "), openaitest.Text("I think "),
				openaitest.Wait(t.Context().Done())}}
		}
		if asked == "what do I know" && len(r.Chat.Results()) == 0 {
			return openaitest.Reply{Steps: openaitest.CallInPieces(0, "call_1", "list_knowledge_points", "{}")}
		}
		return openaitest.Reply{Steps: []openaitest.Step{openaitest.Text("reply to "), openaitest.Text(asked)}}
	}
	h := newClawServer(t)
	h.run(t, "bot", "add", "--name", "lobster", "--kind", "openai", "--set", "base_url="+model.URL, "--set", "model=m",
		"--set", "allow_tools=list_knowledge_points")
	if !t.Run("tui", func(t *testing.T) { terminal(t, h) }) {
		return
	}
	t.Run("mcp serve", func(t *testing.T) { channelServer(t, h) })
}

// terminal chats in the terminal.
func terminal(t *testing.T, h *clawServer) {
	tui := openclawtest.RunInTerminal(t, h.socket(), h.operator, "tui")
	tui.AwaitOutput("gateway connected")
	say := func(text string) {
		tui.Type(text + "\r")
		tui.AwaitOutput("reply to " + text)
	}
	say("which flower is that")
	tui.Type("/new\r")
	tui.AwaitOutput("new session: agent:")
	say("second question")
	for i := range 5 { // typed the moment the answer is there
		say(fmt.Sprintf("quick question %d", i))
	}
	tui.Type("ponder\r")
	tui.AwaitOutput("One moment")
	tui.Type("\x1b") // stops the answer
	tui.AwaitOutput("aborted")
	say("third question")
	tui.Type("/verbose full\r")
	tui.AwaitOutput("| verbose full")
	tui.Type("what do I know\r")
	tui.AwaitOutput("List Knowledge Points")
	tui.AwaitOutput("reply to what do I know")
	tui.Type("/reset\r")
	tui.AwaitOutput(" reset")
	say("fourth question")
	tui.Type("/sessions\r")
	tui.AwaitOutput("which flower is that (main)")
}

// channelServer lists conversations, reads them and speaks in them, as an MCP client of OpenClaw's
// MCP server.
func channelServer(t *testing.T, h *clawServer) {
	call := h.channelClient(t)
	type message struct {
		Role    string
		Content []struct{ Text string }
	}
	var list struct {
		Conversations []struct{ SessionKey, Channel, DerivedTitle string }
	}
	call("conversations_list", given{"search": "which flower"}, &list)
	if len(list.Conversations) != 1 || list.Conversations[0].Channel != "openclaw" {
		t.Fatalf("%+v", list)
	}
	key := list.Conversations[0].SessionKey
	var read struct{ Messages []message }
	call("messages_read", given{"session_key": key}, &read)
	if len(read.Messages) != 2 || read.Messages[1].Content[0].Text != "reply to which flower is that" {
		t.Errorf("%+v", read)
	}
	var sent struct{ Result struct{ OK bool } }
	call("messages_send", given{"session_key": key, "text": "Dinner is ready."}, &sent)
	var event struct {
		Event struct{ SessionKey, Role, Text string }
	}
	call("events_wait", given{"session_key": key, "timeout_ms": int(openclawtest.Timeout / time.Millisecond)}, &event)
	if !sent.Result.OK || event.Event.Text != "Dinner is ready." || event.Event.Role != "assistant" {
		t.Errorf("%+v %+v", sent, event)
	}
	// Another program asks, and the client hears of it.
	if out := h.cli(h.operator, "gateway", "call", "chat.send", "--params",
		`{"sessionKey":"main","message":"and now?","idempotencyKey":"x"}`, "--json"); !strings.Contains(out, "started") {
		t.Errorf("chat.send: %s", out)
	}
	call("events_wait", given{"session_key": key, "after_cursor": 2, "timeout_ms": 60000}, &event)
	if event.Event.Text != "reply to and now?" {
		t.Errorf("%+v", event)
	}
}
