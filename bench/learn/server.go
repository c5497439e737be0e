package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // the "pgx" driver

	"patchbay/internal/account"
	"patchbay/internal/app"
	"patchbay/internal/config"
	"patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// runPostgres runs statements, each by itself.
func runPostgres(ctx context.Context, url string, statements ...string) error {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// server is a running server with the points of one person.
type server struct {
	url, key string
	client   *http.Client
	stop     func()
	points   []string // ids
	open     []string // ids of open rows of plans, of the first points
	numbers  []string // of the first points
	floor    *floor
	rand     *rand.Rand
	body     bytes.Buffer
}

// start runs a server in this process and fills it.
func start(ctx context.Context, database, folder string, points int) (*server, error) {
	remove := func() {}
	if folder == "" {
		var err error
		if folder, err = os.MkdirTemp("", "patchbay-bench-"); err != nil {
			return nil, err
		}
		remove = func() { os.RemoveAll(folder) }
	}
	c, _, err := config.Load(config.Sources{Env: []string{"HOME=" + folder}, Flags: map[string]string{
		"data": folder, "listen": "127.0.0.1:0", "database.url": database, "log.level": "error",
		"limits.call_rate": "0", "limits.streams": "0", "limits.streams_of_key": "0",
		"learn.time_zone": "Asia/Shanghai",
	}})
	if err != nil {
		return nil, err
	}
	s := &server{client: &http.Client{Timeout: time.Minute}, rand: rand.New(rand.NewPCG(1, 2))}
	running, cancel := context.WithCancel(ctx)
	ready, done := make(chan *app.Base, 1), make(chan error, 1)
	go func() {
		done <- app.Serve(running, c, app.Options{Version: "bench", Logs: os.Stderr,
			Ready: func(url string, b *app.Base) { s.url = url; ready <- b }})
	}()
	s.stop = func() {
		s.client.CloseIdleConnections()
		if s.floor != nil {
			s.floor.stop()
		}
		cancel()
		<-done
		remove()
	}
	select {
	case b := <-ready:
		err := s.fill(ctx, b, points)
		if err == nil {
			s.floor, err = newFloor(database, folder)
		}
		if err != nil {
			s.stop()
			return nil, err
		}
		return s, nil
	case err := <-done:
		cancel()
		return nil, err
	}
}

// fill adds a person, a key and points, two thirds of which have been reviewed.
func (s *server) fill(ctx context.Context, b *app.Base, points int) error {
	p, err := b.Store.People.ByName(ctx, "ada")
	known := err == nil
	if !known {
		p, err = b.Accounts.AddPerson(ctx, "ada", account.RoleAdmin, "zh", "")
	}
	if err != nil {
		return err
	}
	if _, s.key, err = b.Accounts.AddKey(ctx, account.NewKey{Person: p.ID,
		Name: "bench", Scopes: []string{account.ScopeLearn}}); err != nil {
		return err
	}
	if known {
		if err := s.look(ctx, b, p.ID); err != nil {
			return err
		}
		return s.lookAtPlans(ctx, b, p.ID)
	}
	var decks []string
	now := time.Now()
	for i := range 10 {
		d := store.Deck{ID: uuid.NewString(), Person: p.ID, Name: fmt.Sprintf("deck %d", i),
			Settings: json.RawMessage("{}"), Created: now}
		if err := b.Store.Learn.AddDeck(ctx, d); err != nil {
			return err
		}
		decks = append(decks, d.ID)
	}
	today := store.DateOf(now)
	in := b.Store.Learn.NewImport(p.ID, uuid.NewString())
	var rows []store.NewPoint
	for i := range points {
		rows = append(rows, s.point(i, decks[i%len(decks)], today, now.Add(-time.Duration(i)*time.Minute)))
		s.points = append(s.points, rows[len(rows)-1].Point.ID)
		if len(rows) == 1000 || i == points-1 {
			if err := in.Stage(ctx, rows); err != nil {
				return err
			}
			rows = nil
		}
	}
	if err := in.Finish(ctx, store.ImportEdits{}); err != nil {
		return err
	}
	return s.lookAtPlans(ctx, b, p.ID)
}

// lookAtPlans reads open rows of plans, for submit_recall.
func (s *server) lookAtPlans(ctx context.Context, b *app.Base, person string) error {
	list, err := b.Store.Learn.Points(ctx, person, store.PointFilter{}, store.PointKey{}, 1000)
	if err != nil {
		return err
	}
	numbers := make([]int64, len(list))
	for i := range list {
		numbers[i] = list[i].Number
		s.numbers = append(s.numbers, strconv.FormatInt(list[i].Number, 10))
	}
	plans, err := b.Store.Learn.Sittings(ctx, numbers)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		for _, row := range plans[n] {
			if row.Completed.IsZero() {
				s.open = append(s.open, row.ID)
			}
		}
	}
	return nil
}

// look reads the existing points.
func (s *server) look(ctx context.Context, b *app.Base, person string) error {
	var f store.PointFilter
	var after store.PointKey
	for {
		list, err := b.Store.Learn.Points(ctx, person, f, after, 1000)
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			s.points = append(s.points, list[i].ID)
		}
		after = f.Key(&list[len(list)-1])
	}
}

var subjects = strings.Fields("主动回忆 分散学习 光合作用 线性代数 傅里叶变换 唐宋诗词 有机化学 微观经济 操作系统 数据结构 grammar vocabulary thermodynamics biology history geography physics probability networks compilers")

func (s *server) point(i int, deck string, today store.Day, created time.Time) store.NewPoint {
	subject, other := subjects[i%len(subjects)], subjects[(i/7)%len(subjects)]
	p := store.Point{
		ID: uuid.NewString(), Deck: deck, InPlan: true, Created: created, Updated: created,
		Tags:     []string{subject, fmt.Sprintf("chapter-%d", i%200)},
		Question: fmt.Sprintf("%s：第 %d 个问题是什么？What is fact number %d about %s?", subject, i, i, other),
		Answer:   fmt.Sprintf("这是关于 %s 的第 %d 条知识，它和 %s 有关。\n\nFact %d says that %s depends on %s in %d ways, as chapter %d explains.", subject, i, other, i, subject, other, i%9, i%200),
	}
	p.Words = learn.IndexWords(p.Question, p.Answer, p.Tags...)
	n := store.NewPoint{Point: p}
	sitting := store.Sitting{ID: uuid.NewString(), Day: today, Number: 1, Created: created}
	if i%3 != 0 {
		due := today + store.Day(i%300) - 1
		last := created.Add(-240 * time.Hour)
		n.Point.Card = store.Card{Phase: store.Review, Stability: 20, Difficulty: 5, Due: due, Reps: 3, LastAt: last,
			LastDay: today - 10}
		sitting.Day, sitting.Number = due, 4
		for k := range 3 {
			at := last.Add(-time.Duration(2-k) * 72 * time.Hour)
			n.Sittings = append(n.Sittings, store.Sitting{ID: uuid.NewString(), Day: today - 10, Number: k + 1,
				Created: created, Completed: at, Recall: "我记得"})
			n.Log = append(n.Log, store.LogEntry{ID: uuid.NewString(), Kind: store.LogReview, At: at,
				Day: store.DateOf(at), Grade: store.Good, Queue: store.QueueDay, Score: -1})
		}
	} else {
		n.Point.Card.Due = today
	}
	n.Sittings = append(n.Sittings, sitting)
	return n
}

// call calls a tool and reads the whole response.
func (s *server) call(ctx context.Context, tool string, args any) (time.Duration, int, error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{"name": tool, "arguments": args}})
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/api/mcp", bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.key)
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	s.body.Reset()
	_, err = s.body.ReadFrom(resp.Body)
	took := time.Since(began)
	if err != nil {
		return 0, 0, err
	}
	// A good response is not decoded, so that the garbage is the server's.
	text := s.body.Bytes()
	if bytes.Contains(text, []byte(`"isError":true`)) || bytes.Contains(text, []byte(`"error":{`)) {
		return 0, 0, fmt.Errorf("failed: %s", text)
	}
	return took, s.body.Len(), nil
}

// step is a tool with its arguments.
type step struct {
	tool string // [floorName] for the bare handler
	args func(i int) any
	// prepare is what is called before each call, unmeasured.
	prepare *step
}

// run calls the tool, or the bare handler.
func (s *server) run(ctx context.Context, t *step, i int) (time.Duration, int, error) {
	if t.tool == floorName {
		var numbers []string
		for range floorReads {
			numbers = append(numbers, s.numbers[s.rand.IntN(len(s.numbers))])
		}
		return s.floor.call(ctx, s.client, numbers)
	}
	return s.call(ctx, t.tool, t.args(i))
}

// story returns a call of every tool that answers at once, after the bare handler. There is no
// model: recalls are compared, and questions are answered by quoting. The deck that is deleted is
// empty: what takes long in a full one is moving its points. Bulk edits change 10 points.
// fit_memory and simulate_retention are left out: they compute for seconds and report progress.
func (s *server) story() []step {
	type m = map[string]any
	fixed := func(args m) func(int) any { return func(int) any { return args } }
	any1 := func() string { return s.points[s.rand.IntN(len(s.points))] }
	id := func(name string) func(int) any { return func(int) any { return m{name: any1()} } }
	subject := func() string { return subjects[s.rand.IntN(len(subjects))] }
	var deleted, reviewed []string
	run := uuid.NewString()[:8] // a kept database has the tags of earlier runs
	edit := step{tool: "edit_knowledge_points", args: func(i int) any {
		at := s.rand.IntN(len(s.points) - 10)
		return m{"ids": s.points[at : at+10], "add_tags": []string{fmt.Sprintf("%s-%d", run, i%500)}}
	}}
	return []step{
		{tool: floorName},
		{tool: "list_reviews", args: fixed(m{})},
		{tool: "list_knowledge_points", args: fixed(m{"limit": 20})},
		{tool: "list_knowledge_points", args: func(int) any { return m{"limit": 20, "tag": subject()} }},
		{tool: "list_knowledge_points", args: func(int) any {
			return m{"limit": 20, "query": "is:due -tag:" + subject()}
		}},
		{tool: "list_knowledge_points", args: func(int) any {
			return m{"limit": 20, "query": "forgotten:7d tag:" + subject()}
		}},
		{tool: "get_knowledge_point", args: id("id")},
		{tool: "search_knowledge_points", args: func(int) any { return m{"query": subject()} }},
		{tool: "search_knowledge_points", args: func(i int) any {
			return m{"query": fmt.Sprintf("请问 %s 的第 %d 条知识是什么", subject(), i)}
		}},
		{tool: "create_knowledge_point", args: func(i int) any {
			return m{"question": fmt.Sprintf("新的问题 %d?", i), "answer": "新的答案", "deck": "deck 1",
				"tags": []string{"new"}}
		}},
		{tool: "create_knowledge_point", args: func(i int) any {
			return m{"question": fmt.Sprintf("{{c1::Paris}} is the capital of {{c2::France}}, %d", i),
				"answer": "a cloze", "media": []m{{"name": fmt.Sprintf("map-%d.png", i), "data": dot}}}
		}},
		{tool: "create_knowledge_points", args: func(i int) any {
			var list []m
			for k := range 10 {
				list = append(list, m{"question": fmt.Sprintf("question %d.%d", i, k), "answer": "answer"})
			}
			return m{"points": list}
		}},
		{tool: "update_knowledge_point", args: func(i int) any {
			return m{"id": any1(),
				"answer": fmt.Sprintf("better answer %d", i)}
		}},
		{tool: "next_review", args: fixed(m{})},
		{tool: "next_review", args: func(int) any { return m{"query": "is:due tag:" + subject()} }},
		{tool: "next_review", args: func(int) any { return m{"query": "tag:" + subject(), "cram": true} }},
		{tool: "reveal_answer", args: id("knowledge_point_id")},
		{tool: "submit_review", args: func(i int) any {
			reviewed = append(reviewed, uuid.NewString())
			return m{"knowledge_point_id": any1(), "grade": []string{"again", "hard", "good", "easy"}[i%4],
				"early": true, "review_id": reviewed[i], "recall_text": "我想起来了"}
		}},
		{tool: "undo_review", args: func(i int) any { return m{"review_id": reviewed[len(reviewed)-1-i]} }},
		{tool: "mark_as_reviewed", args: func(i int) any {
			return m{"knowledge_point_id": s.points[(i*7+3)%len(s.points)/3*3], "recall_text": "想起来了"}
		}},
		{tool: "submit_recall", args: func(i int) any { return m{"schedule_id": s.open[i], "recall_text": "想起来了"} }},
		{tool: "reschedule_knowledge_points", args: func(i int) any { return m{"ids": []string{any1()}, "in_days": i % 30} }},
		edit,
		{tool: "undo_edit", args: fixed(m{}), prepare: &edit},
		{tool: "delete_knowledge_point", args: func(i int) any {
			at := len(s.points) - 1
			deleted = append(deleted, s.points[at])
			s.points = s.points[:at]
			return m{"id": deleted[i]}
		}},
		{tool: "restore_knowledge_point", args: func(i int) any { return m{"id": deleted[i]} }},
		{tool: "list_deleted_knowledge_points", args: fixed(m{"limit": 20})},
		{tool: "list_decks", args: fixed(m{})},
		{tool: "save_deck", args: func(i int) any { return m{"name": "deck 2", "settings": m{"new_per_day": 10 + i%10}} }},
		{tool: "delete_deck", args: func(i int) any { return m{"name": fmt.Sprintf("empty %d", i)} },
			prepare: &step{tool: "save_deck", args: func(i int) any { return m{"name": fmt.Sprintf("empty %d", i)} }}},
		{tool: "list_tags", args: fixed(m{})},
		{tool: "learning_stats", args: fixed(m{})},
		{tool: "review_history", args: id("knowledge_point_id")},
		{tool: "analyze_recall", args: func(int) any { return m{"knowledge_point_id": any1(), "recall_text": "这条知识和 grammar 有关"} }},
		{tool: "ask_knowledge", args: func(i int) any { return m{"question": subject() + " 是什么？"} }},
		{tool: "get_learning_settings", args: fixed(m{})},
		{tool: "update_learning_settings", args: func(i int) any { return m{"defaults": m{"new_per_day": 10 + i%10}} }},
	}
}

// dot is a picture of one pixel, in base64.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
