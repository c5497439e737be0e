package mcptest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"patchbay/internal/tool"
)

// FakeLearn stands in for Learn at its endpoint: the eight original tools, and three for quizzing
// by an assistant. It keeps its points in memory. A recall whose text is "slow" reports that it has
// started and then blocks until its context ends. It is a [tool.Provider] and safe for concurrent
// use.
type FakeLearn struct {
	stopped chan string

	mu     sync.Mutex
	next   int
	points map[string]Point
}

// Point is a knowledge point in the format of the tools.
type Point struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	Answer   string `json:"answer"`
}

// NewFakeLearn makes a FakeLearn. Stopped, if not nil, receives the name of a tool whose context
// ended.
func NewFakeLearn(stopped chan string) *FakeLearn {
	return &FakeLearn{stopped: stopped, points: map[string]Point{}}
}

// learnTools are the tools with the names of their string arguments, required ones first.
var learnTools = []struct {
	name, description string
	takes             []string
	needs             int
}{
	{"list_reviews", "查询今日需要复习的列表", nil, 0},
	{"list_knowledge_points", "查询所有知识点列表", nil, 0},
	{"get_knowledge_point", "根据ID获取单个知识点的详细信息", []string{"id"}, 1},
	{"create_knowledge_point", "创建新的知识点", []string{"question", "answer"}, 2},
	{"update_knowledge_point", "更新现有的知识点", []string{"id", "question", "answer"}, 1},
	{"delete_knowledge_point", "删除知识点", []string{"id"}, 1},
	{"submit_recall", "提交主动回忆（完成复习）", []string{"schedule_id", "recall_text"}, 2},
	{"mark_as_reviewed", "将知识点标记为已复习（更新最后一个未完成的复习计划）", []string{"knowledge_point_id", "recall_text"}, 1},
	{"next_review", "The next question that is due, without its answer.", nil, 0},
	{"reveal_answer", "The answer to a question.", []string{"id"}, 1},
	{"submit_review", "Grade a recall.", []string{"id", "grade"}, 2},
}

// Tools returns the tools to register.
func (l *FakeLearn) Tools() []tool.Tool {
	var out []tool.Tool
	for _, t := range learnTools {
		properties := map[string]any{}
		for _, name := range t.takes {
			properties[name] = map[string]string{"type": "string"}
		}
		schema := map[string]any{"type": "object", "properties": properties}
		if t.needs > 0 {
			schema["required"] = t.takes[:t.needs]
		}
		out = append(out, tool.Tool{Name: t.name, Description: t.description, Input: raw(schema)})
	}
	return out
}

// Names returns the names of the tools.
func (l *FakeLearn) Names() []string {
	var out []string
	for _, t := range learnTools {
		out = append(out, t.name)
	}
	return out
}

// Call executes a call.
func (l *FakeLearn) Call(ctx context.Context, c *tool.Call) (*tool.Result, error) {
	var a struct {
		ID, Question, Answer, Grade string
		Recall                      string `json:"recall_text"`
		Schedule                    string `json:"schedule_id"`
		Of                          string `json:"knowledge_point_id"`
	}
	if err := json.Unmarshal(c.Args, &a); err != nil {
		return nil, err
	}
	if a.Recall == "slow" {
		return nil, l.wait(ctx, c)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	id := cmp.Or(a.ID, a.Of, a.Schedule)
	point, known := l.points[id]
	switch c.Tool {
	case "list_reviews", "list_knowledge_points":
		return indented(l.sorted()), nil
	case "next_review":
		for _, p := range l.sorted() {
			return tool.JSON(map[string]string{"id": p.ID, "question": p.Question}), nil
		}
		return tool.JSON(map[string]string{"note": "Nothing is due."}), nil
	case "create_knowledge_point":
		l.next++
		p := Point{ID: fmt.Sprintf("point-%03d", l.next), Question: a.Question, Answer: a.Answer}
		l.points[p.ID] = p
		return indented(p), nil
	}
	if !known {
		return tool.ErrorResult("Knowledge point not found: " + id), nil
	}
	switch c.Tool {
	case "get_knowledge_point", "reveal_answer":
		return indented(point), nil
	case "update_knowledge_point":
		point.Question, point.Answer = cmp.Or(a.Question, point.Question), cmp.Or(a.Answer, point.Answer)
		l.points[id] = point
		return indented(point), nil
	case "delete_knowledge_point":
		delete(l.points, id)
	}
	return indented(map[string]any{"success": true, "id": id}), nil
}

// wait blocks until ctx ends.
func (l *FakeLearn) wait(ctx context.Context, c *tool.Call) error {
	if c.Progress != nil {
		c.Progress(tool.Progress{Done: 1, Message: "it has begun"})
	}
	<-ctx.Done()
	if l.stopped != nil {
		l.stopped <- c.Tool
	}
	return ctx.Err()
}

// sorted returns the points, oldest first.
func (l *FakeLearn) sorted() []Point {
	out := []Point{}
	for _, p := range l.points {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Point) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// indented returns a result in the format of this address: indented JSON in a text.
func indented(v any) *tool.Result {
	var w bytes.Buffer
	enc := json.NewEncoder(&w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		panic(err) // cannot fail for own types
	}
	return tool.Text(string(bytes.TrimSpace(w.Bytes())))
}
