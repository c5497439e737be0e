package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// pupil is a program that calls Learn's MCP endpoint with plain JSON-RPC.
type pupil struct{ url, key string }

// learnClient has a timeout beyond the delays of a busy machine.
var learnClient = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

// send makes a request as curl does, and returns the response.
func send(method, url, key, kind, body string) (status int, header http.Header, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Accept", "*/*")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := learnClient.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, res.Header, string(b), err
}

// lesson is the result of a call.
type lesson struct {
	Content    []struct{ Type, Text string }
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool
}

// text returns the text that a client of the original service reads.
func (l *lesson) text() string {
	if len(l.Content) == 0 {
		return ""
	}
	return l.Content[0].Text
}

// code returns the error code of a failed call.
func (l *lesson) code() string {
	var v struct{ Error string }
	if len(l.Structured) == 0 || json.Unmarshal(l.Structured, &v) != nil {
		return ""
	}
	return v.Error
}

// refusal is a JSON-RPC error.
type refusal struct {
	Code    int
	Message string
}

func (r *refusal) Error() string { return fmt.Sprintf("%d: %s", r.Code, r.Message) }

// try calls a tool.
func (p pupil) try(tool string, args any) (*lesson, error) {
	given, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	status, _, text, err := send(http.MethodPost, p.url+"/api/mcp", p.key,
		"application/json", callOf(1, tool, string(given)))
	if err != nil {
		return nil, err
	}
	var m struct {
		Result *lesson
		Error  *refusal
	}
	switch err := json.Unmarshal([]byte(text), &m); {
	case err != nil:
		return nil, fmt.Errorf("%s: %d %q: %w", tool, status, text, err)
	case m.Error != nil:
		return nil, m.Error
	case m.Result == nil || status != http.StatusOK:
		return nil, fmt.Errorf("%s: %d %s", tool, status, text)
	}
	return m.Result, nil
}

// ask calls a tool and decodes the structured content.
func (p pupil) ask(tool string, args, into any) error {
	l, err := p.try(tool, args)
	switch {
	case err != nil:
		return fmt.Errorf("%s %v: %w", tool, args, err)
	case l.IsError:
		return fmt.Errorf("%s %v: %s", tool, args, l.text())
	}
	return json.Unmarshal(l.Structured, into)
}

// call is ask for calls that must succeed.
func (p pupil) call(t *testing.T, tool string, args, into any) {
	t.Helper()
	must(t, p.ask(tool, args, into))
}

// given are the arguments of a call.
type given map[string]any

// learned is a point in results for programs.
type learned struct {
	ID        string
	Question  string
	Answer    string
	Deck      string
	Tags      []string
	State     string
	Due       string
	Plan      bool `json:"is_in_review_plan"`
	Schedules []struct {
		ID        string
		Date      string `json:"review_date"`
		Number    int    `json:"review_number"`
		Completed bool
		Recall    *string `json:"recall_text"`
	} `json:"review_schedules"`
}

// open returns the ID of the earliest open row of the plan.
func (p *learned) open() string {
	for _, s := range p.Schedules {
		if !s.Completed {
			return s.ID
		}
	}
	return ""
}

// page reads all pages of a list of points.
func (p pupil) page(tool string, args given) ([]learned, error) {
	var all []learned
	for args["limit"] = 500; ; {
		var page struct {
			Points []learned `json:"knowledge_points"`
			Next   *string   `json:"next_cursor"`
		}
		if err := p.ask(tool, args, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Points...)
		if page.Next == nil {
			return all, nil
		}
		args["cursor"] = *page.Next
	}
}

// learning returns a person's key at a server without other data.
func learning(t *testing.T, p *installation) string {
	t.Helper()
	p.run(t, "user", "add", "ada")
	var key addedKey
	p.json(t, &key, "key", "add", "--name", "desk", "--scope", "learn")
	return key.Key
}
