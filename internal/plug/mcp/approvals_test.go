package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/hub"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// approvalRig is a rig with a dangerous tool and a key that asks.
type approvalRig struct {
	*rig
	calls atomic.Int64
	asked chan store.Approval
}

const testOrigin = "https://board.example.org"

func newApprovalRig(t *testing.T, wait time.Duration) *approvalRig {
	t.Helper()
	r := &approvalRig{asked: make(chan store.Approval, 10)}
	r.rig = newRig(t, rigOptions{hub: hub.Options{ApprovalWait: wait},
		mcp: Options{Origin: func(*http.Request) string { return testOrigin }}})
	r.Hub.OnApproval(func(_ context.Context, a store.Approval) { r.asked <- a })
	r.register(t, hub.ProviderRef{ID: "a", Kind: "k", Title: "Gate", Slug: "gate", Owner: r.Person.ID},
		providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
			if c.State != "" || c.Answers != nil {
				return nil, errors.New("the provider got what was meant for the approval")
			}
			r.calls.Add(1)
			return tool.Text("unlocked " + string(c.Args)), nil
		}), tool.Tool{Name: "unlock", Title: "Unlock", Dangerous: true})
	return r
}

// client connects the official SDK's client with a key of the given rules.
func (r *approvalRig) client(t *testing.T, rules, version string, o *sdk.ClientOptions) *sdk.ClientSession {
	t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "claude", Version: "1"}, o)
	s, err := c.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: r.url + "/mcp",
		HTTPClient: withKey(r.addKey(t, "key of "+t.Name(), rules))},
		&sdk.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func callUnlock(t *testing.T, s *sdk.ClientSession, gate int) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	res, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "gate_unlock", Arguments: map[string]any{"gate": gate}})
	if err != nil {
		return "error: " + err.Error()
	}
	text := ""
	for _, c := range res.Content {
		if c, ok := c.(*sdk.TextContent); ok {
			text += c.Text
		}
	}
	return text
}

var approvalVersions = []string{"2025-06-18", "2026-07-28"}

// The owner is asked, and the call goes on when it was allowed: once, with the same arguments.
func TestOwnerApproves(t *testing.T) {
	for _, version := range approvalVersions {
		t.Run(version, func(t *testing.T) {
			r := newApprovalRig(t, 0)
			s := r.client(t, `{"ask":"owner"}`, version, nil)
			tools, err := s.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) != 1 {
				t.Fatal(tools, err)
			}
			got := make(chan string, 1)
			go func() { got <- callUnlock(t, s, 1) }()
			a := r.next(t, got)
			if a.Caller != "key of "+t.Name() || a.Tool != "gate_unlock" || a.Title != "Unlock" ||
				a.Provider != "Gate" ||
				a.Program != "claude 1" || a.Args != `{"gate":1}` {
				t.Errorf("%+v", a)
			}
			decide(t, r.Hub, a.ID, true)
			if text := <-got; text != `unlocked {"gate":1}` {
				t.Error(text)
			}
			go func() { got <- callUnlock(t, s, 1) }() // again: another question
			a = r.next(t, got)
			decide(t, r.Hub, a.ID, false)
			if text := <-got; !strings.Contains(text, "does not allow this call") {
				t.Error(text)
			}
			// A model that tries again bothers nobody.
			if text := callUnlock(t, s, 1); !strings.Contains(text, "does not allow this call") || len(r.asked) > 0 {
				t.Error(text)
			}
			if n := r.calls.Load(); n != 1 {
				t.Errorf("carried out %d times", n)
			}
		})
	}
}

// next returns the next call that waits, before the program gets its result.
func (r *approvalRig) next(t *testing.T, got chan string) store.Approval {
	t.Helper()
	select {
	case a := <-r.asked:
		return a
	case text := <-got:
		t.Fatalf("it was not asked about: %s", text)
		return store.Approval{}
	}
}

func decide(t *testing.T, h *hub.Hub, id string, allow bool) {
	t.Helper()
	if _, err := h.DecideApproval(context.Background(), id, allow, hub.Decider{}); err != nil {
		t.Error(err)
	}
}

// A call that nobody decides about ends with an address and, once allowed, can be made again.
func TestCallEndsBeforeTheDecision(t *testing.T) {
	r := newApprovalRig(t, time.Millisecond)
	s := r.client(t, `{"ask":"owner"}`, "2026-07-28", nil)
	text := callUnlock(t, s, 1)
	a := <-r.asked
	if !strings.Contains(text, testOrigin+"/approvals/"+a.ID) || !strings.Contains(text, "Call the tool again") {
		t.Error(text)
	}
	if text := callUnlock(t, s, 1); !strings.Contains(text, a.ID) || len(r.asked) > 0 {
		t.Errorf("the same call asks anew: %s", text)
	}
	decide(t, r.Hub, a.ID, true)
	if text := callUnlock(t, s, 2); strings.Contains(text, "unlocked") {
		t.Errorf("another call uses the approval: %s", text)
	}
	if text := callUnlock(t, s, 1); text != `unlocked {"gate":1}` {
		t.Error(text)
	}
	if text := callUnlock(t, s, 1); strings.Contains(text, "unlocked") {
		t.Errorf("the approval holds twice: %s", text)
	}
}

// A program with dialogs shows the question if its owner permits that, and the address otherwise.
func TestProgramAsks(t *testing.T) {
	for _, version := range approvalVersions {
		for _, c := range []struct {
			name, rules, action string
			content             map[string]any
			want                string
		}{
			{"allowed", `{"ask":"program"}`, "accept", map[string]any{"decision": "once"}, `unlocked {"gate":1}`},
			{"refused", `{"ask":"program"}`, "accept", map[string]any{"decision": "no"}, "does not allow"},
			{"declined", `{"ask":"program"}`, "decline", nil, "does not allow"},
			{"closed", `{"ask":"program"}`, "cancel", nil, "has not answered yet"},
			{"only the owner decides", `{"ask":"owner"}`, "accept", map[string]any{"decision": "once"},
				"has not answered yet"},
		} {
			t.Run(version+"/"+c.name, func(t *testing.T) {
				r := newApprovalRig(t, time.Millisecond)
				var dialogs []*sdk.ElicitParams
				s := r.client(t, c.rules, version, &sdk.ClientOptions{
					Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
						Form: &sdk.FormElicitationCapabilities{}}},
					ElicitationHandler: func(_ context.Context, in *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
						dialogs = append(dialogs, in.Params)
						return &sdk.ElicitResult{Action: c.action, Content: c.content}, nil
					}})
				text := callUnlock(t, s, 1)
				if !strings.Contains(text, c.want) {
					t.Error(text)
				}
				if strings.Contains(c.rules, "program") != (len(dialogs) == 1) {
					t.Errorf("%d dialogs", len(dialogs))
				}
			})
		}
	}
}

// A program that opens addresses leads its person to the page about the call.
func TestProgramOpensThePage(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			r := newApprovalRig(t, 0)
			s := r.client(t, `{"ask":"owner"}`, version, &sdk.ClientOptions{
				Capabilities: &sdk.ClientCapabilities{Elicitation: &sdk.ElicitationCapabilities{
					URL: &sdk.URLElicitationCapabilities{}}},
				ElicitationHandler: func(_ context.Context, in *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					id, ok := strings.CutPrefix(in.Params.URL, testOrigin+"/approvals/")
					if !ok || in.Params.Mode != "url" {
						return nil, fmt.Errorf("%+v", in.Params)
					}
					decide(t, r.Hub, id, true) // the person goes there
					return &sdk.ElicitResult{Action: "accept"}, nil
				}})
			if text := callUnlock(t, s, 1); text != `unlocked {"gate":1}` {
				t.Error(text)
			}
		})
	}
}

// What a provider asks itself comes after the approval, which covers its answer too, but no call
// with other arguments.
func TestProviderAsksAfterTheApproval(t *testing.T) {
	for _, version := range approvalVersions {
		t.Run(version, func(t *testing.T) {
			r := newApprovalRig(t, 0)
			r.register(t, hub.ProviderRef{ID: "b", Kind: "k", Title: "Safe", Slug: "safe", Owner: r.Person.ID},
				providerFunc(func(_ context.Context, c *tool.Call) (*tool.Result, error) {
					if c.State == "" {
						return &tool.Result{InputRequired: &tool.InputRequired{State: "s",
							Requests: map[string]tool.Request{
								"code": {Method: "elicitation/create",
									Params: []byte(`{"message":"Code?","requestedSchema":{"type":"object","properties":{}}}`)}}}}, nil
					}
					return tool.Text("opened " + string(c.Args)), nil
				}), tool.Tool{Name: "open", Dangerous: true})
			s := r.client(t, `{"ask":"owner"}`, version, &sdk.ClientOptions{
				ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
					return &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
				}})
			done := make(chan string, 1)
			go func() {
				res, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "safe_open"})
				if err != nil {
					done <- err.Error()
					return
				}
				done <- res.Content[0].(*sdk.TextContent).Text
			}()
			a := r.next(t, done)
			decide(t, r.Hub, a.ID, true)
			if text := <-done; text != "opened {}" {
				t.Error(text)
			}
			if len(r.asked) > 0 {
				t.Error("the answer to the provider was asked about again")
			}
		})
	}
}
