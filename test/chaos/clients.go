package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	rokid "patchbay/internal/plug/rokid/sim"
)

// opLimit is the timeout of every operation.
const opLimit = 40 * time.Second

// outcome is the result of an operation for the client.
type outcome int

const (
	outcomeBroken  outcome = iota // the connection broke, or no response came
	outcomeRefused                // a refusal in words
	outcomeDone                   // success
)

func (h outcome) String() string { return [...]string{"broken off", "in words", "done"}[h] }

// fresh returns a client that makes one request per connection, so that the balancer distributes
// the requests.
func fresh() *http.Client {
	return &http.Client{Timeout: opLimit, Transport: &http.Transport{DisableKeepAlives: true}}
}

// wearer is a person with glasses.
type wearer struct {
	client *http.Client
	key    string
	number int // identifies the wearer
}

// ask asks a bot. Both bots repeat what they get. first is the time until the first words, 0 if
// none came.
func (w *wearer) ask(ctx context.Context, url string, bot int64, text string) (
	o outcome, words string, first time.Duration) {
	g := rokid.New(rokid.Options{URL: url, Key: w.key, UserID: fmt.Sprintf("%032X", w.number), AgentID: fmt.Sprint(bot),
		Client: w.client, Timeout: opLimit, Lang: "en-US"})
	defer g.Close()
	a, err := g.Ask(ctx, text, nil)
	switch {
	case err != nil:
		return outcomeBroken, err.Error(), a.First
	case a.Finished && strings.HasSuffix(a.Text, text): // a notice about the number of waiting turns may precede it
		return outcomeDone, "", a.First
	case a.Finished && a.Text != "":
		return outcomeRefused, a.Text, a.First
	}
	return outcomeBroken, fmt.Sprintf("finished %t, %q, %q", a.Finished, a.Text, a.Violations), a.First
}

// caller is an MCP client without sessions.
type caller struct {
	client *http.Client
	url    string
	key    string
}

const revision = "2026-07-28"

type rpcAnswer struct {
	Result struct {
		Content []struct{ Text string }
		IsError bool
		Tools   []struct{ Name string }
	}
	Error *struct{ Message string }
}

// call calls a tool.
func (c *caller) call(ctx context.Context, name string, args any) (outcome, string) {
	a, err := c.request(ctx, "tools/call", name, map[string]any{"name": name, "arguments": args})
	words := ""
	for _, x := range a.Result.Content {
		words += x.Text
	}
	switch {
	case err != nil:
		return outcomeBroken, err.Error()
	case a.Error != nil:
		return outcomeRefused, a.Error.Message
	case a.Result.IsError:
		return outcomeRefused, words
	}
	return outcomeDone, words
}

// tools returns the names of the available tools.
func (c *caller) tools(ctx context.Context) (names []string, err error) {
	a, err := c.request(ctx, "tools/list", "", map[string]any{})
	for _, t := range a.Result.Tools {
		names = append(names, t.Name)
	}
	return names, err
}

func (c *caller) request(ctx context.Context, method, name string, params map[string]any) (a rpcAnswer, err error) {
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    revision,
		"io.modelcontextprotocol/clientCapabilities": map[string]any{},
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": "chaos", "version": "1"},
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer " + c.key, "Content-Type": "application/json",
		"Accept":               "application/json, text/event-stream",
		"Mcp-Protocol-Version": revision, "Mcp-Method": method, "Mcp-Name": name,
	} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	client := c.client
	if client == nil {
		client = fresh()
	}
	resp, err := client.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return a, err
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		text = text[bytes.LastIndex(text, []byte("data: "))+len("data: "):]
		text, _, _ = bytes.Cut(text, []byte("\n"))
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("status %d, %.200q: %w", resp.StatusCode, text, err)
	}
	if resp.StatusCode != http.StatusOK && (a.Error == nil || a.Error.Message == "") {
		return a, fmt.Errorf("status %d without words: %.200q", resp.StatusCode, text)
	}
	if a.Error == nil && a.Result.Content == nil && a.Result.Tools == nil {
		return a, errors.New("neither a result nor an error")
	}
	return a, nil
}
