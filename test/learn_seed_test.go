package test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"patchbay/internal/store"
)

// curl sends a body with the real curl, if it is installed.
func curl(t *testing.T, url, key, body string) (status int, text string) {
	t.Helper()
	path, err := exec.LookPath("curl")
	if err != nil {
		status, _, text, err = send(http.MethodPost, url, key, "application/json", body)
		must(t, err)
		return status, text
	}
	out, err := exec.CommandContext(t.Context(), path, "-s", "-w", "\n%{http_code}", "-X", "POST", url,
		"-H", "Content-Type: application/json", "-H", "Authorization: Bearer "+key, "-d", body).Output()
	must(t, err)
	at := bytes.LastIndexByte(out, '\n')
	status, err = strconv.Atoi(string(out[at+1:]))
	must(t, err)
	return status, string(out[:at])
}

// seedTools are the tools of the original service, as its manual names them, with their required
// arguments.
var seedTools = []struct {
	name, description string
	required          []string
}{
	{"list_reviews", "查询今日需要复习的列表", nil},
	{"list_knowledge_points", "查询所有知识点列表", nil},
	{"get_knowledge_point", "根据ID获取单个知识点的详细信息", []string{"id"}},
	{"create_knowledge_point", "创建新的知识点", []string{"question", "answer"}},
	{"update_knowledge_point", "更新现有的知识点", []string{"id"}},
	{"delete_knowledge_point", "删除知识点", []string{"id"}},
	{"submit_recall", "提交主动回忆（完成复习）", []string{"schedule_id", "recall_text"}},
	{"mark_as_reviewed", "将知识点标记为已复习（更新最后一个未完成的复习计划）", []string{"knowledge_point_id"}},
}

// The columns of the original's tables, in their order.
const (
	pointColumns    = "id user_id question answer created_at updated_at embedding is_in_review_plan"
	scheduleColumns = "id knowledge_point_id user_id review_date review_number completed completed_at created_at recall_text"
)

var (
	momentOf = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,3})?\+00:00$`)
	dateOf   = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
)

// members returns the member names of an object, in order.
func members(t *testing.T, text json.RawMessage) (names []string, values map[string]json.RawMessage) {
	t.Helper()
	must(t, json.Unmarshal(text, &values))
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		name, err := dec.Token()
		must(t, err)
		names = append(names, name.(string))
		var skipped json.RawMessage
		must(t, dec.Decode(&skipped))
	}
	return names, values
}

// wantRow checks a row of one of the original's tables: its columns come first, in order, and times
// have the original's format.
func wantRow(t *testing.T, text json.RawMessage, columns string) map[string]json.RawMessage {
	t.Helper()
	want := strings.Fields(columns)
	names, values := members(t, text)
	if len(names) < len(want) || !slices.Equal(names[:len(want)], want) {
		t.Errorf("the members are %q, want first %q", names, want)
	}
	for name, value := range values {
		var s string
		if json.Unmarshal(value, &s) != nil {
			continue
		}
		switch {
		case name == "review_date" && !dateOf.MatchString(s):
			t.Errorf("%s is %s", name, value)
		case strings.HasSuffix(name, "_at") && !momentOf.MatchString(s) && string(value) != "null":
			t.Errorf("%s is %s", name, value)
		}
	}
	if string(values["embedding"]) != "null" && strings.Contains(columns, "embedding") {
		t.Errorf("embedding is %s", values["embedding"])
	}
	return values
}

// seedCall sends a call as the original's manual writes it, and checks what all results have in
// common.
func seedCall(t *testing.T, url, body string) *lesson {
	t.Helper()
	status, text := curl(t, url+"/api/mcp", "test_token", body)
	var m struct {
		JSONRPC string
		ID      int
		Result  *lesson
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || status != 200 || m.JSONRPC != "2.0" || m.Result == nil ||
		len(m.Result.Content) == 0 {
		t.Fatalf("%s\n%d %s, %v", body, status, text, err)
	}
	l := m.Result
	if l.Content[0].Type != "text" {
		t.Errorf("the content is %q", l.Content[0].Type)
	}
	if !l.IsError {
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(l.text()), "", "  "); err != nil || indented.String() != l.text() {
			t.Errorf("the text is not JSON indented by two spaces: %v\n%s", err, l.text())
		}
	}
	return l
}

func seedBody(id int, tool, args string) string {
	return fmt.Sprintf(`{
  "jsonrpc": "2.0",
  "id": %d,
  "method": "tools/call",
  "params": {
    "name": "%s",
    "arguments": %s
  }
}`, id, tool, args)
}

// Clients of the original service work unchanged: requests from its manual are answered as its
// manual and its programs describe.
func TestLearnSeed(t *testing.T) {
	folder := t.TempDir()
	s := newInstallation(store.Options{Folder: folder}).serve(t, "--demo")
	endpoint := s.url + "/api/mcp"

	status, text := curl(t, endpoint, "test_token", `{
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {}
  }`)
	if want := `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"learn-assistant","version":"1.0.0"}}}`; status != 200 || text != want {
		t.Errorf("initialize: %d %s", status, text)
	}
	t.Run("tools", func(t *testing.T) { seedList(t, endpoint) })

	if l := seedCall(t, s.url, seedBody(3, "list_reviews", "{}")); l.text() != "[]" {
		t.Errorf("nothing is there, and due is %s", l.text())
	}
	t.Run("story", func(t *testing.T) { seedStory(t, s.url) })
	t.Run("mistakes", func(t *testing.T) { seedMistakes(t, s.url) })
	t.Run("keys", func(t *testing.T) {
		seedKeys(t, endpoint, newInstallation(store.Options{Folder: filepath.Join(folder, "demo")}))
	})

	for method, want := range map[string]string{
		http.MethodOptions: "",
		http.MethodGet:     `{"name":"learn-assistant","version":"1.0.0","protocol":"json-rpc-2.0","endpoint":"/api/mcp","authentication":{"type":"bearer","header":"Authorization"}}`,
	} {
		status, header, text, err := send(method, endpoint, "", "", "")
		must(t, err)
		if status != 200 || text != want || header.Get("Access-Control-Allow-Origin") != "*" ||
			!strings.HasPrefix(header.Get("Access-Control-Allow-Methods"), "POST, OPTIONS, GET") ||
			!strings.HasPrefix(header.Get("Access-Control-Allow-Headers"), "Content-Type, Authorization") {
			t.Errorf("%s: %d %s %v", method, status, text, header)
		}
	}
}

func seedList(t *testing.T, endpoint string) {
	status, text := curl(t, endpoint, "test_token", `{
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/list",
    "params": {}
  }`)
	var m struct {
		ID     int
		Result struct {
			Tools []struct {
				Name, Description string
				InputSchema       struct {
					Type       string
					Properties map[string]any
					Required   []string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || status != 200 || m.ID != 2 ||
		len(m.Result.Tools) <= len(seedTools) {
		t.Fatalf("%d %s, %v", status, text, err)
	}
	var names []string
	for _, x := range m.Result.Tools {
		names = append(names, x.Name)
	}
	for i, want := range seedTools {
		at := slices.Index(names, want.name)
		if at < 0 {
			t.Errorf("there is no %s", want.name)
			continue
		}
		if at != i {
			t.Errorf("%s is number %d, want %d", want.name, at+1, i+1)
		}
		got := m.Result.Tools[at]
		if got.Description != want.description || got.InputSchema.Type != "object" ||
			!slices.Equal(got.InputSchema.Required, want.required) {
			t.Errorf("%s is %+v", want.name, got)
		}
		for _, name := range want.required {
			if got.InputSchema.Properties[name] == nil {
				t.Errorf("%s does not know %s", want.name, name)
			}
		}
	}
}

func seedStory(t *testing.T, url string) {
	created := seedCall(t, url, `{
    "jsonrpc": "2.0",
    "id": 4,
    "method": "tools/call",
    "params": {
      "name": "create_knowledge_point",
      "arguments": {
        "question": "什么是主动回忆？",
        "answer": "主动回忆是一种学习技巧..."
      }
    }
  }`)
	row := wantRow(t, json.RawMessage(created.text()), pointColumns)
	if string(row["question"]) != `"什么是主动回忆？"` || string(row["answer"]) != `"主动回忆是一种学习技巧..."` ||
		string(row["is_in_review_plan"]) != "true" || row["review_schedules"] != nil {
		t.Errorf("created is %s", created.text())
	}
	var point, second learned
	must(t, json.Unmarshal([]byte(created.text()), &point))
	must(t, json.Unmarshal([]byte(seedCall(t, url, seedBody(6, "create_knowledge_point", `{
      "question": "第二个 <b>&</b>",
      "answer": "二"
    }`)).text()), &second))

	schedule := seedReviews(t, url, point.ID, 2)
	got := seedCall(t, url, seedBody(5, "get_knowledge_point", `{
      "id": "`+point.ID+`"
    }`))
	row = wantRow(t, json.RawMessage(got.text()), pointColumns)
	var plan []json.RawMessage
	if must(t, json.Unmarshal(row["review_schedules"], &plan)); len(plan) == 0 {
		t.Fatalf("it has no plan: %s", got.text())
	}
	for _, v := range plan {
		wantRow(t, v, scheduleColumns)
	}

	updated := seedCall(t, url, seedBody(7, "update_knowledge_point", `{
      "id": "`+point.ID+`",
      "question": "更新后的问题",
      "answer": "更新后的答案"
    }`))
	if row = wantRow(t, json.RawMessage(updated.text()), pointColumns); string(row["question"]) != `"更新后的问题"` ||
		string(row["answer"]) != `"更新后的答案"` {
		t.Errorf("updated is %s", updated.text())
	}
	var rows []json.RawMessage
	must(t, json.Unmarshal([]byte(seedCall(t, url, seedBody(4, "list_knowledge_points", "{}")).text()), &rows))
	if len(rows) != 2 || string(wantRow(t, rows[0], pointColumns)["id"]) != `"`+second.ID+`"` ||
		wantRow(t, rows[1], pointColumns)["review_schedules"] == nil {
		t.Errorf("the list is %s", rows)
	}

	seedRecalls(t, url, point.ID, second.ID, schedule)

	deletion := seedBody(8, "delete_knowledge_point", `{
      "id": "`+second.ID+`"
    }`)
	if l := seedCall(t, url, deletion); l.text() != "{\n  \"success\": true,\n  \"id\": \""+second.ID+"\"\n}" {
		t.Errorf("deleted: %s", l.text())
	}
	for _, body := range []string{deletion, seedBody(5, "get_knowledge_point", `{"id": "`+second.ID+`"}`)} {
		if l := seedCall(t, url, body); !l.IsError || !strings.Contains(l.text(), "not found") {
			t.Errorf("a deleted point: %+v", l)
		}
	}
}

// seedReviews checks the list of due points and returns the row of a point.
func seedReviews(t *testing.T, url, point string, want int) (schedule string) {
	t.Helper()
	l := seedCall(t, url, seedBody(3, "list_reviews", "{}"))
	var rows []json.RawMessage
	must(t, json.Unmarshal([]byte(l.text()), &rows))
	if len(rows) != want {
		t.Fatalf("%d are due, want %d: %s", len(rows), want, l.text())
	}
	last := ""
	for _, text := range rows {
		row := wantRow(t, text, scheduleColumns)
		wantRow(t, row["knowledge_points"], pointColumns)
		var v struct {
			ID    string
			Date  string              `json:"review_date"`
			Point string              `json:"knowledge_point_id"`
			Of    struct{ ID string } `json:"knowledge_points"`
		}
		must(t, json.Unmarshal(text, &v))
		if v.Of.ID != v.Point || v.Date < last || string(row["completed"]) != "false" ||
			string(row["completed_at"]) != "null" || string(row["recall_text"]) != "null" {
			t.Errorf("due is %s", text)
		}
		last = v.Date
		if v.Point == point {
			schedule = v.ID
		}
	}
	return schedule
}

func seedRecalls(t *testing.T, url, point, second, schedule string) {
	success := func(l *lesson, id string) {
		t.Helper()
		if l.IsError || l.text() != "{\n  \"success\": true,\n  \"schedule_id\": \""+id+"\"\n}" {
			t.Errorf("a review: %+v", l)
		}
	}
	recall := seedBody(9, "submit_recall", `{
      "schedule_id": "`+schedule+`",
      "recall_text": "我回忆的内容..."
    }`)
	for range 2 { // the second changes nothing
		success(seedCall(t, url, recall), schedule)
	}
	if l := seedCall(t, url, strings.Replace(recall, "我回忆的内容", "别的", 1)); !l.IsError || l.code() != "already_reviewed" {
		t.Errorf("another recall of the same: %+v", l)
	}
	var p learned
	must(t, json.Unmarshal([]byte(seedCall(t, url, seedBody(5, "get_knowledge_point", `{"id": "`+point+`"}`)).text()),
		&p))
	done := 0
	for _, v := range p.Schedules {
		if v.Completed {
			done++
			if v.ID != schedule || v.Recall == nil || *v.Recall != "我回忆的内容..." {
				t.Errorf("what was done is %+v", v)
			}
		}
	}
	if done != 1 {
		t.Errorf("%d reviews are done, want 1", done)
	}

	next := seedReviews(t, url, second, 1)
	success(seedCall(t, url, seedBody(10, "mark_as_reviewed", `{
      "knowledge_point_id": "`+second+`",
      "recall_text": "我回忆的内容..."
    }`)), next)
}

func seedMistakes(t *testing.T, url string) {
	const nobody = "123e4567-e89b-12d3-a456-426614174000"
	for tool, args := range map[string]string{
		"get_knowledge_point": `{"id":"` + nobody + `"}`, "update_knowledge_point": `{"id":"` + nobody +
			`","question":"q"}`, "delete_knowledge_point": `{"id":"` + nobody + `"}`,
		"submit_recall":    `{"schedule_id":"` + nobody + `","recall_text":"x"}`,
		"mark_as_reviewed": `{"knowledge_point_id":"` + nobody + `"}`,
	} {
		if l := seedCall(t, url, seedBody(1, tool, args)); !l.IsError || !strings.Contains(l.text(), "not found") ||
			!strings.Contains(l.text(), nobody) {
			t.Errorf("%s of nobody's: %+v", tool, l)
		}
	}
	for _, tool := range seedTools {
		for _, missing := range tool.required {
			args := given{}
			for _, name := range tool.required {
				if name != missing {
					args[name] = "x"
				}
			}
			_, err := pupil{url, "test_token"}.try(tool.name, args)
			if r, ok := errors.AsType[*refusal](err); !ok || r.Code != -32602 || !strings.Contains(r.Message, missing) {
				t.Errorf("%s without %s: %v", tool.name, missing, err)
			}
		}
	}
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{callOf(0, "list_reviews", "{}"), 200, `{"jsonrpc":"2.0","id":0,"result":`},
		{callOf(1, "nope", "{}"), 200,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool: nope"}}`},
		{callOf(1, "create_knowledge_point", `{"question":" ","answer":"a"}`), 200,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"question must not be empty"}}`},
		{callOf(1, "create_knowledge_point", `{"question":null,"answer":"a"}`), 200,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`},
		{callOf(1, "list_knowledge_points", `{"cursor":"nonsense"}`), 200,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`},
		{`{"jsonrpc":"2.0","id":1,"method":"nope"}`, 400,
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found: nope"}}`},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, ``},
		{`{"jsonrpc":`, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`, 200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,`},
	} {
		if status, text := curl(t, url+"/api/mcp", "test_token", c.body); status != c.status ||
			!strings.HasPrefix(text, c.want) || c.want == "" && text != "" {
			t.Errorf("%s\n got %d %s\nwant %d %s", c.body, status, text, c.status, c.want)
		}
	}
}

func seedKeys(t *testing.T, endpoint string, p *installation) {
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`
	var mine, other addedKey
	p.json(t, &mine, "key", "add", "--name", "mine", "--scope", "learn")
	p.json(t, &other, "key", "add", "--name", "other", "--scope", "lingzhu")
	if status, text := curl(t, endpoint, mine.Key, list); status != 200 || !strings.Contains(text, "mark_as_reviewed") {
		t.Errorf("a good key: %d %.200s", status, text)
	}
	p.run(t, "key", "revoke", mine.ID)
	for name, key := range map[string]string{"none": "", "not a key": "sk_nonsense", "without scope": other.Key,
		"revoked": mine.Key} {
		want := `{"error":{"code":-32000,"message":"` + map[bool]string{true: "Unauthorized: API key required",
			false: "Unauthorized: Invalid API key"}[key == ""] + `"}}`
		deadline := time.Now().Add(time.Minute)
		for { // servers cache a key for a moment
			status, _, text, err := send(http.MethodPost, endpoint, key, "application/json", list)
			must(t, err)
			if status == 401 && text == want {
				break
			}
			if name != "revoked" || time.Now().After(deadline) {
				t.Errorf("%s: %d %s, want %s", name, status, cmp.Or(text, "nothing"), want)
				break
			}
		}
	}
}
