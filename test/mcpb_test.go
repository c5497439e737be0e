package test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/store"
)

// TestBundleForClaudeDesktop writes a bundle, checks it with the official command line, unpacks it,
// and starts its program as Claude Desktop does, with the official SDKs of both eras.
func TestBundleForClaudeDesktop(t *testing.T) {
	t.Parallel()
	node := mcptest.Node(t)
	official := mcptest.Installed(t, "mcpb", "@anthropic-ai/mcpb/dist/cli/cli.js")
	p := newInstallation(store.Options{Folder: t.TempDir()})
	p.run(t, "user", "add", "ada")
	p.run(t, "bot", "add", "--name", "parrot", "--kind", "echo")
	s := p.serve(t)
	var key addedKey
	p.json(t, &key, "key", "add", "--name", "desktop", "--scope", "mcp")

	folder := t.TempDir()
	file, again := filepath.Join(folder, "desk.mcpb"), filepath.Join(folder, "again.mcpb")
	p.run(t, "mcp", "bundle", file, "--server", s.url)
	p.run(t, "mcp", "bundle", again, "--server", s.url)
	first, err := os.ReadFile(file)
	must(t, err)
	second, err := os.ReadFile(again)
	must(t, err)
	if !bytes.Equal(first, second) {
		t.Error("the same bundle has other bytes")
	}
	unpacked := filepath.Join(folder, "unpacked")
	check := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(limited(t, time.Minute), node, append([]string{official}, args...)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("mcpb %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	check("info", file)
	check("unpack", file, unpacked)
	if out := check("validate", filepath.Join(unpacked, "manifest.json")); !strings.Contains(out, "passes") {
		t.Errorf("the manifest is found %s", out)
	}
	for _, era := range []string{"@modelcontextprotocol/sdk", "@modelcontextprotocol/client"} {
		t.Run(era, func(t *testing.T) { useBundle(t, node, unpacked, s.url, key.Key, era) })
	}
}

// desktop starts the program of an unpacked bundle as its manifest says, and calls a tool.
const desktop = `
const [folder, server, key, era] = process.argv.slice(1)
import {readFileSync} from "node:fs"
const config = JSON.parse(readFileSync(folder + "/manifest.json")).server.mcp_config
const fill = text => text.replaceAll("${__dirname}", folder).replaceAll("${user_config.server}", server).replaceAll("${user_config.key}", key)
const command = fill(config.platform_overrides[process.platform].command)
const env = Object.fromEntries(Object.entries(config.env).map(([name, value]) => [name, fill(value)]))
const old = era === "@modelcontextprotocol/sdk"
const {Client} = await import(old ? era + "/client/index.js" : era)
const {StdioClientTransport} = await import(old ? era + "/client/stdio.js" : era + "/stdio")
const client = new Client({name: "desk", version: "1"}, old ? {} : {versionNegotiation: {mode: {pin: "2026-07-28"}}})
await client.connect(new StdioClientTransport({command, args: config.args, env}))
const {tools} = await client.listTools()
const answer = await client.callTool({name: "send_message", arguments: {botId: "parrot", message: "hello 你好"}})
console.log(JSON.stringify({tools: tools.map(t => t.name), text: answer.content[0].text}))
await client.close()
`

func useBundle(t *testing.T, node, folder, server, key, era string) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, "--input-type=module", "-e", desktop, folder, server, key, era)
	dir, err := filepath.Abs("peers/mcp")
	must(t, err)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, &stderr)
	}
	var got struct {
		Tools []string
		Text  string
	}
	if err := json.Unmarshal(out, &got); err != nil || got.Text != "hello 你好" ||
		!strings.Contains(fmt.Sprint(got.Tools), "send_message") {
		t.Errorf("the program got %s", out)
	}
}
