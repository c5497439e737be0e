package stdio

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/plug/mcp/mcptest"
)

// The official Go SDK starts the program, in both eras.
func TestGoSDK(t *testing.T) {
	s := newServer(t)
	for _, version := range []string{"", "2025-11-25", "2024-11-05"} {
		t.Run(version, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "STDIO_URL=http://"+s.address, "STDIO_KEY="+s.key)
			var complaints log
			cmd.Stderr = &complaints
			session, err := sdk.NewClient(&sdk.Implementation{Name: "go-sdk", Version: "1"}, nil).Connect(ctx,
				&sdk.CommandTransport{Command: cmd}, &sdk.ClientSessionOptions{ProtocolVersion: version})
			if err != nil {
				t.Fatalf("%v: %s", err, &complaints)
			}
			n := 0
			for _, err := range session.Tools(ctx, nil) {
				if err != nil {
					t.Fatal(err)
				}
				n++
			}
			if n != len(s.tools) {
				t.Errorf("it lists %d tools", n)
			}
			res, err := session.CallTool(ctx, &sdk.CallToolParams{Name: "create_knowledge_point",
				Arguments: map[string]any{"question": "q", "answer": "a"}})
			if err != nil || res.IsError {
				t.Errorf("%+v, %v", res, err)
			}
			calling, stop := context.WithCancel(ctx)
			time.AfterFunc(200*time.Millisecond, stop)
			if _, err := session.CallTool(calling, &sdk.CallToolParams{Name: "submit_recall",
				Arguments: map[string]any{"schedule_id": "x", "recall_text": "slow"}}); !errors.Is(err,
				context.Canceled) {
				t.Errorf("a cancelled call: %v", err)
			}
			select {
			case <-s.stopped:
			case <-time.After(testTimeout):
				t.Error("the tool was not told that its call is cancelled")
			}
			if err := session.Close(); err != nil {
				t.Errorf("it ends with %v: %s", err, &complaints)
			}
		})
	}
}

// The official TypeScript SDK starts the program.
func TestTypeScript(t *testing.T) {
	node := mcptest.Node(t)
	s := newServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--input-type=module", "-e", `
import {Client} from "@modelcontextprotocol/sdk/client/index.js"
import {StdioClientTransport} from "@modelcontextprotocol/sdk/client/stdio.js"
const client = new Client({name: "desk", version: "1"})
await client.connect(new StdioClientTransport({command: process.argv[1], env: {STDIO_URL: process.argv[2], STDIO_KEY: process.argv[3]}}))
const {tools} = await client.listTools()
const made = await client.callTool({name: "create_knowledge_point", arguments: {question: "什么？", answer: "a"}})
console.log(JSON.stringify({server: client.getServerVersion().name, tools: tools.length, text: made.content[0].text}))
await client.close()
`, os.Args[0], "http://"+s.address, s.key)
	dir, err := filepath.Abs("../../../../test/peers/mcp")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out),
		fmt.Sprintf(`{"server":"learn-assistant","tools":%d,"text":"{\n  \"id\": \"point-001\",\n  \"question\": \"什么？\"`, len(s.tools))) {
		t.Errorf("%v: %s", err, out)
	}
}
