package test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"patchbay/internal/plug/mcp/mcptest"
	"patchbay/internal/store"
)

// learnPeer is a third-party client connected to Learn's MCP endpoint.
type learnPeer struct {
	tools func(t *testing.T) []string
	call  func(t *testing.T, tool string, args given) *lesson
}

// peerOf returns a client that is controlled by commands.
func peerOf(p *mcptest.Peer) learnPeer {
	return learnPeer{
		tools: func(t *testing.T) (names []string) {
			var listed []struct{ Name string }
			must(t, p.Do("list", nil).Decode("tools", &listed))
			for _, x := range listed {
				names = append(names, x.Name)
			}
			return names
		},
		call: func(t *testing.T, tool string, args given) *lesson {
			var l lesson
			must(t, p.Call(tool, args).Decode("result", &l))
			return &l
		},
	}
}

// peerOfSDK returns a client that uses the official Go SDK.
func peerOfSDK(t *testing.T, transport sdk.Transport) learnPeer {
	limited, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	session, err := sdk.NewClient(&sdk.Implementation{Name: "go-sdk", Version: "1"}, nil).Connect(limited, transport,
		nil)
	must(t, err)
	t.Cleanup(func() { session.Close() })
	return learnPeer{
		tools: func(t *testing.T) (names []string) {
			for x, err := range session.Tools(limited, nil) {
				must(t, err)
				names = append(names, x.Name)
			}
			return names
		},
		call: func(t *testing.T, tool string, args given) *lesson {
			t.Helper()
			res, err := session.CallTool(limited, &sdk.CallToolParams{Name: tool, Arguments: args})
			must(t, err)
			text, err := json.Marshal(res)
			must(t, err)
			var l lesson
			must(t, json.Unmarshal(text, &l))
			return &l
		},
	}
}

// keyed adds a key to every request.
type keyed string

func (k keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(k))
	return http.DefaultTransport.RoundTrip(r)
}

// Third-party clients learn through every transport, each with a key of its own person, so that
// they do not see each other's points.
func TestLearnClients(t *testing.T) {
	t.Parallel()
	p := newInstallation(store.Options{Folder: t.TempDir()})
	p.run(t, "user", "add", "first")
	s := p.serve(t)
	clients := []struct {
		name    string
		connect func(t *testing.T, key string) learnPeer
	}{
		{"TypeScript, streamable", func(t *testing.T, key string) learnPeer {
			return peerOf(mcptest.TypeScript(t, "streamable", s.url+"/api/mcp", key))
		}},
		{"TypeScript, SSE", func(t *testing.T, key string) learnPeer {
			return peerOf(mcptest.TypeScript(t, "sse", s.url+"/api/mcp/sse", key))
		}},
		{"mcp-go, streamable", func(t *testing.T, key string) learnPeer {
			return peerOf(mcptest.MCPGo(t, "streamable", s.url+"/api/mcp", key))
		}},
		{"mcp-go, SSE", func(t *testing.T, key string) learnPeer {
			return peerOf(mcptest.MCPGo(t, "sse", s.url+"/api/mcp/sse", key))
		}},
		{"Go SDK, streamable", func(t *testing.T, key string) learnPeer {
			return peerOfSDK(t, &sdk.StreamableClientTransport{Endpoint: s.url + "/api/mcp",
				HTTPClient: &http.Client{Transport: keyed(key)}})
		}},
		{"Go SDK, SSE", func(t *testing.T, key string) learnPeer {
			return peerOfSDK(t, &sdk.SSEClientTransport{Endpoint: s.url + "/api/mcp/sse",
				HTTPClient: &http.Client{Transport: keyed(key)}})
		}},
	}
	for i, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			person := fmt.Sprintf("person-%d", i)
			p.run(t, "user", "add", person)
			var key addedKey
			p.json(t, &key, "key", "add", "--user", person, "--name", "desk", "--scope", "learn")
			if !strings.HasPrefix(key.Key, "sk_") || len(key.Key) != 46 {
				t.Errorf("the key has %d characters and begins with %.3s", len(key.Key), key.Key)
			}
			learnStory(t, c.connect(t, key.Key))
		})
	}
}

// card is a question.
type card struct {
	Point    string `json:"knowledge_point_id"`
	Schedule string `json:"schedule_id"`
	Question string
}

// learnStory is an evening of learning with an assistant.
func learnStory(t *testing.T, c learnPeer) {
	do := func(tool string, args given, into any) *lesson {
		t.Helper()
		l := c.call(t, tool, args)
		if l.IsError {
			t.Fatalf("%s %v: %s", tool, args, l.text())
		}
		said := l.Structured
		if len(said) == 0 { // a session of a protocol revision without it
			said = []byte(l.text())
		}
		if err := json.Unmarshal(said, into); err != nil {
			t.Fatalf("%s: %v in %s", tool, err, said)
		}
		return l
	}
	listed := c.tools(t)
	for _, name := range []string{"list_reviews", "mark_as_reviewed", "next_review", "reveal_answer", "submit_review",
		"undo_review", "restore_knowledge_point"} {
		if !slices.Contains(listed, name) {
			t.Errorf("%s is not among %q", name, listed)
		}
	}
	const secret = "只有这里才有的答案"
	ids := map[string]string{}
	for i := range 3 {
		var p learned
		do("create_knowledge_point", given{"question": fmt.Sprintf("问题 %d <&>", i),
			"answer": fmt.Sprintf("%s %d", secret, i), "tags": []string{"晚上"}}, &p)
		ids[p.Question] = p.ID
	}

	var next struct {
		Done bool
		Card *card
	}
	if l := do("next_review", given{}, &next); next.Done || next.Card == nil || next.Card.Question != "问题 0 <&>" ||
		strings.Contains(fmt.Sprint(l.Content)+string(l.Structured), secret) {
		t.Fatalf("asked is %s", l.Structured)
	}
	first := *next.Card
	var revealed struct {
		Answer string
		Grades map[string]string
	}
	if do("reveal_answer", given{"knowledge_point_id": first.Point}, &revealed); revealed.Answer != secret+" 0" ||
		len(revealed.Grades) != 4 {
		t.Errorf("revealed is %+v", revealed)
	}
	var reviewed struct {
		Success, Already bool
		Review           string `json:"review_id"`
		Next             *card  `json:"next_card"`
	}
	review := given{"knowledge_point_id": first.Point, "schedule_id": first.Schedule, "grade": "good",
		"review_id": "r-1", "recall_text": "我记得", "score": 90}
	for _, again := range []bool{false, true} {
		reviewed.Already = false
		if l := do("submit_review", review, &reviewed); !reviewed.Success || reviewed.Already != again ||
			reviewed.Review != "r-1" || reviewed.Next == nil || reviewed.Next.Question != "问题 1 <&>" ||
			strings.Contains(fmt.Sprint(l.Content)+string(l.Structured), secret) {
			t.Errorf("sent again %t: %s", again, l.Structured)
		}
	}
	review["review_id"] = "r-2"
	if l := c.call(t, "submit_review", review); !l.IsError || l.code() != "already_reviewed" {
		t.Errorf("the same row of the plan twice: %s %s", l.text(), l.Structured)
	}
	var undone struct {
		Success bool
		Review  string `json:"review_id"`
		Card    card
	}
	if do("undo_review", given{}, &undone); !undone.Success || undone.Review != "r-1" || undone.Card != first {
		t.Errorf("undone is %+v, want %+v", undone, first)
	}
	var history struct {
		Reviews []struct{ Kind, Undoes string }
	}
	if do("review_history", given{"knowledge_point_id": first.Point}, &history); len(history.Reviews) != 2 ||
		history.Reviews[1].Kind != "undo" || history.Reviews[1].Undoes != "r-1" {
		t.Errorf("the history is %+v", history)
	}

	paged(t, do, ids)

	id := ids["问题 1 <&>"]
	var done struct{ Success bool }
	do("delete_knowledge_point", given{"id": id}, &done)
	if l := c.call(t, "get_knowledge_point", given{"id": id}); !l.IsError {
		t.Errorf("a deleted point: %s", l.text())
	}
	var trash struct {
		Points []learned `json:"knowledge_points"`
	}
	if do("list_deleted_knowledge_points", given{}, &trash); len(trash.Points) != 1 || trash.Points[0].ID != id {
		t.Errorf("the trash is %+v", trash)
	}
	var back learned
	if do("restore_knowledge_point", given{"id": id}, &back); back.ID != id || back.State != "new" ||
		back.open() == "" {
		t.Errorf("brought back is %+v", back)
	}
	paged(t, do, ids)
}

// paged lists the points one per page until there are no more.
func paged(t *testing.T, do func(string, given, any) *lesson, want map[string]string) {
	t.Helper()
	seen := map[string]string{}
	args := given{"limit": 1, "tag": "晚上"}
	for range 10 {
		var page struct {
			Points []learned `json:"knowledge_points"`
			Next   *string   `json:"next_cursor"`
		}
		do("list_knowledge_points", args, &page)
		if len(page.Points) != 1 || seen[page.Points[0].Question] != "" {
			t.Fatalf("a page is %+v", page)
		}
		seen[page.Points[0].Question] = page.Points[0].ID
		if page.Next == nil {
			break
		}
		args["cursor"] = *page.Next
	}
	if fmt.Sprint(seen) != fmt.Sprint(want) {
		t.Errorf("paged %v, want %v", seen, want)
	}
}
