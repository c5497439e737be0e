package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// dialing defines how to reach the server.
type dialing struct {
	url, token  string
	sse, modern bool
}

func (d dialing) client() (*client.Client, error) {
	headers := map[string]string{}
	if d.token != "" {
		headers["Authorization"] = "Bearer " + d.token
	}
	options := []client.ClientOption{
		client.WithSamplingHandler(person{}), client.WithElicitationHandler(person{}),
		client.WithRootsHandler(person{}),
	}
	if d.sse {
		t, err := transport.NewSSE(d.url, transport.WithHeaders(headers))
		if err != nil {
			return nil, err
		}
		return client.NewClient(t, append(options, client.WithProtocolVersion("2024-11-05"))...), nil
	}
	ways := []transport.StreamableHTTPCOption{transport.WithHTTPHeaders(headers)}
	if !d.modern {
		ways = append(ways, transport.WithContinuousListening()) // the event stream of a session
		options = append(options, client.WithProtocolVersion("2025-11-25"))
	}
	t, err := transport.NewStreamableHTTP(d.url, ways...)
	if err != nil {
		return nil, err
	}
	return client.NewClient(t, options...), nil
}

// command is a line of standard input.
type command struct {
	Do       string                 `json:"do"`
	Tag      any                    `json:"tag"`
	Name     string                 `json:"name"`
	Args     json.RawMessage        `json:"args"`
	Progress bool                   `json:"progress"`
	Call     any                    `json:"call"`
	Filter   mcp.SubscriptionFilter `json:"filter"`
}

// session executes the commands for one connection.
type session struct {
	c  *client.Client
	mu sync.Mutex
	// running holds the cancel functions of running calls, by tag, and of the listening stream.
	running   map[any]context.CancelFunc
	listening func()
}

// obey connects and executes commands until in ends.
func obey(ctx context.Context, d dialing, in io.Reader) error {
	c, err := d.client()
	if err != nil {
		return err
	}
	defer c.Close()
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		if n.Method == "notifications/progress" {
			emit("progress", withTag(n.Params.AdditionalFields))
			return
		}
		emit("notified", map[string]any{"method": n.Method, "params": n.Params})
	})
	if err := c.Start(ctx); err != nil {
		emit("failed", map[string]any{"do": "connect", "message": err.Error()})
		return err
	}
	hello := mcp.InitializeRequest{}
	hello.Params.ClientInfo = mcp.Implementation{Name: "mcpgo", Version: "1.0.0"}
	about, err := c.Initialize(ctx, hello)
	if err != nil {
		emit("failed", map[string]any{"do": "connect", "message": err.Error()})
		return err
	}
	emit("connected", map[string]any{
		"protocol": about.ProtocolVersion, "session": c.GetSessionId(),
		"server": about.ServerInfo, "capabilities": about.Capabilities, "instructions": about.Instructions,
	})

	s := &session{c: c, running: map[any]context.CancelFunc{}}
	defer s.stopListening()
	var working sync.WaitGroup
	defer working.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		var cmd command
		if err := json.Unmarshal(lines.Bytes(), &cmd); err != nil {
			return fmt.Errorf("command %q: %w", lines.Text(), err)
		}
		callCtx, cancel := context.WithCancel(ctx)
		if cmd.Do == "call" { // registered first, so that the next command can cancel it
			s.mu.Lock()
			s.running[cmd.Tag] = cancel
			s.mu.Unlock()
		}
		working.Go(func() {
			defer cancel()
			told, err := s.do(callCtx, cmd)
			if err != nil {
				emit("failed", map[string]any{"do": cmd.Do, "tag": cmd.Tag, "message": err.Error()})
				return
			}
			if told == nil {
				told = map[string]any{}
			}
			told["tag"] = cmd.Tag
			emit(cmd.Do, told)
		})
	}
	return nil
}

// withTag renames a progress notification's token to tag, since the tag is used as the token.
func withTag(fields map[string]any) map[string]any {
	told := map[string]any{"tag": fields["progressToken"]}
	for k, v := range fields {
		if k != "progressToken" {
			told[k] = v
		}
	}
	return told
}

func (s *session) do(ctx context.Context, cmd command) (map[string]any, error) {
	switch cmd.Do {
	case "list":
		list, err := s.c.ListTools(ctx, mcp.ListToolsRequest{})
		if err != nil {
			return nil, err
		}
		return map[string]any{"tools": list.Tools}, nil
	case "call":
		return s.call(ctx, cmd)
	case "cancel":
		s.mu.Lock()
		cancel := s.running[cmd.Call]
		s.mu.Unlock()
		if cancel == nil {
			return nil, fmt.Errorf("no call has the tag %v", cmd.Call)
		}
		cancel()
		return nil, nil
	case "ping":
		return nil, s.c.Ping(ctx)
	case "listen":
		stop, err := s.c.ListenAsync(context.WithoutCancel(ctx), cmd.Filter, func(err error) {
			emit("trouble", map[string]any{"message": err.Error()})
		})
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.listening = stop
		s.mu.Unlock()
		return nil, nil
	case "unlisten":
		s.stopListening()
		return nil, nil
	case "close":
		s.stopListening()
		return nil, s.c.Close()
	}
	return nil, fmt.Errorf("there is no command %q", cmd.Do)
}

func (s *session) stopListening() {
	s.mu.Lock()
	stop := s.listening
	s.listening = nil
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
}

func (s *session) call(ctx context.Context, cmd command) (map[string]any, error) {
	defer func() {
		s.mu.Lock()
		delete(s.running, cmd.Tag)
		s.mu.Unlock()
	}()
	request := mcp.CallToolRequest{}
	request.Params.Name = cmd.Name
	request.Params.Arguments = cmd.Args
	if len(cmd.Args) == 0 {
		request.Params.Arguments = map[string]any{}
	}
	if cmd.Progress {
		request.Params.Meta = &mcp.Meta{ProgressToken: cmd.Tag}
	}
	result, err := s.c.CallTool(ctx, request)
	if err != nil {
		return nil, err
	}
	return map[string]any{"result": result}, nil
}

// person answers the server's requests to the user.
type person struct{}

func (person) CreateMessage(_ context.Context, r mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	emit("asked", map[string]any{"method": "sampling/createMessage", "params": r.CreateMessageParams})
	return &mcp.CreateMessageResult{
		SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent("Paris")},
		Model:           "peer", StopReason: "endTurn",
	}, nil
}

// Elicit fills in every text field of a form; the tests need no other kinds.
func (person) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	emit("asked", map[string]any{"method": "elicitation/create", "params": r.Params})
	var form struct {
		Properties map[string]struct{} `json:"properties"`
	}
	text, err := json.Marshal(r.Params.RequestedSchema)
	if err == nil {
		err = json.Unmarshal(text, &form)
	}
	if err != nil {
		return nil, err
	}
	content := map[string]any{}
	for name := range form.Properties {
		content[name] = "Alice"
	}
	accepted := mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: content}
	return &mcp.ElicitationResult{ElicitationResponse: accepted}, nil
}

func (person) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	emit("asked", map[string]any{"method": "roots/list"})
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: "file:///test/root", Name: "Test Root"}}}, nil
}
