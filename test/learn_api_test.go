package test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"patchbay/internal/store"
	"patchbay/internal/store/storetest"
)

// pupilByAPI is a client of /api/v1/learn.
type pupilByAPI struct{ url, key, lang string }

// ask sends JSON and decodes the response into to, unless that is nil.
func (p pupilByAPI) ask(t *testing.T, method, path string, body, to any) (status int, text string) {
	t.Helper()
	var in io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		must(t, err)
		in = strings.NewReader(string(text))
	}
	req, err := http.NewRequestWithContext(ctx, method, p.url+"/api/v1/learn/"+path, in)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+p.key)
	req.Header.Set("Accept-Language", p.lang)
	req.Header.Set("User-Agent", "story/1")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	must(t, err)
	if to != nil && resp.StatusCode == http.StatusOK {
		must(t, json.Unmarshal(answer, to))
	}
	return resp.StatusCode, string(answer)
}

// must sends a request that must succeed.
func (p pupilByAPI) must(t *testing.T, method, path string, body, to any) {
	t.Helper()
	if status, text := p.ask(t, method, path, body, to); status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, status, text)
	}
}

// refused sends a request that must fail with a reason.
func (p pupilByAPI) refused(t *testing.T, want int, words, method, path string, body any) {
	t.Helper()
	if status, text := p.ask(t, method, path, body, nil); status != want || !strings.Contains(text, words) {
		t.Errorf("%s %s: %d %s, want %d and %q", method, path, status, text, want, words)
	}
}

// apiPoint and apiNext are the checked parts of points and questions.
type apiPoint struct {
	ID, Question, Answer, Deck, State, Due string
	Tags                                   []string
	InPlan                                 bool       `json:"is_in_review_plan"`
	Plan                                   []struct{} `json:"plan"`
}

type apiPoints struct {
	Points []apiPoint
	Next   string
}

type apiNext struct {
	Card *struct {
		Point    string `json:"knowledge_point_id"`
		Sitting  string `json:"schedule_id"`
		Question string
		Answer   string
		Grades   []struct {
			Grade         string
			Minutes, Days int
		}
	}
	Left struct {
		New, Learning, Review int
	} `json:"remaining"`
}

// A whole story of learning through /api/v1 alone, on both databases.
func TestLearnStoryByAPI(t *testing.T) {
	storetest.Each(t, func(t *testing.T, o store.Options) {
		place := newInstallation(o, "PATCHBAY_AUDIT_ARGS=true")
		key := learning(t, place)
		p := pupilByAPI{place.serve(t).url, key, "en"}
		p.must(t, "PATCH", "settings", given{"time_zone": "UTC",
			"day_start": time.Now().UTC().Add(12 * time.Hour).Format("15:04")}, nil)

		// Points, a deck, paging, search.
		var paris, water, third apiPoint
		p.must(t, "POST", "points", given{"question": "Capital of France?", "answer": "Paris", "deck": "Geography",
			"tags": []string{"europe", "capital/city"}}, &paris)
		p.must(t, "POST", "points", given{"question": "Water?", "answer": "H2O", "tags": []string{"chem"}}, &water)
		p.must(t, "POST", "points", given{"question": "Kept?", "answer": "yes", "is_in_review_plan": false}, &third)
		if paris.Deck != "Geography" || paris.State != "new" || !paris.InPlan || len(paris.Plan) != 1 || third.InPlan ||
			third.Tags == nil {
			t.Errorf("made %+v %+v", paris, third)
		}
		for body, words := range map[string]string{`{"question":" ","answer":"a"}`: "question must not be empty",
			`{"question":"q"}`: "answer must not be empty", `{"nonsense":1}`: "unknown field"} {
			p.refused(t, 400, words, "POST", "points", json.RawMessage(body))
		}
		p.refused(t, 400, "longer than 64 KiB", "POST", "points",
			given{"question": strings.Repeat("q", 70_000), "answer": "a"})
		p.refused(t, 400, "too large", "POST", "points", given{"question": strings.Repeat("q", 2<<20), "answer": "a"})
		pupilByAPI{p.url, p.key, "zh"}.refused(t, 400, "问题不能为空", "POST", "points", given{"answer": "a"})
		listed := func(query string) (ids []string) {
			t.Helper()
			for after := "&"; after != ""; {
				var page apiPoints
				p.must(t, "GET", "points?limit=2&"+query+after, nil, &page)
				for _, x := range page.Points {
					ids = append(ids, x.ID)
				}
				if after = ""; page.Next != "" {
					after = "&after=" + url.QueryEscape(page.Next)
				}
			}
			return ids
		}
		for query, want := range map[string][]string{
			"": {third.ID, water.ID, paris.ID}, "deck=geography": {paris.ID}, "deck=default": {third.ID, water.ID},
			"tag=capital/city": {paris.ID}, "query=water": {water.ID},
			"state=new": {paris.ID, water.ID}, "state=due": nil, "state=trash": nil, "state=draft": nil,
			"state=leech": nil, "state=learning": nil,
		} {
			if got := listed(query); !slices.Equal(got, want) {
				t.Errorf("%q lists %v, want %v", query, got, want)
			}
		}
		p.refused(t, 400, "state is due", "GET", "points?state=lost", nil)
		p.refused(t, 400, "cursor", "GET", "points?after=nonsense", nil)
		p.refused(t, 400, "from 1 to 200", "GET", "points?limit=1000", nil)
		p.refused(t, 404, "no such deck", "GET", "points?deck=nowhere", nil)

		// Change a point.
		p.must(t, "PATCH", "points/"+paris.ID, given{"answer": "Paris, on the Seine"}, &paris)
		if paris.Answer != "Paris, on the Seine" || paris.Question != "Capital of France?" || len(paris.Tags) != 2 {
			t.Errorf("changed %+v", paris)
		}
		p.refused(t, 404, "no such point", "PATCH", "points/nobodys", given{"answer": "a", "deck": "made for nothing"})
		p.refused(t, 400, "answer must not be empty", "PATCH", "points/"+paris.ID, given{"answer": ""})

		// A review: the question, its answer, a judgement, the grade, and the result.
		var next apiNext
		p.must(t, "GET", "next?deck=Geography", nil, &next)
		if next.Card == nil || next.Card.Point != paris.ID || next.Card.Answer != "" || len(next.Card.Grades) != 4 ||
			next.Card.Grades[0].Grade != "again" || next.Card.Grades[0].Minutes != 1 || next.Left.New != 1 {
			t.Fatalf("next is %+v", next)
		}
		var queue struct{ Cards []struct{ Question string } }
		p.must(t, "GET", "queue", nil, &queue)
		if len(queue.Cards) != 2 {
			t.Errorf("the queue is %+v", queue)
		}
		var shown struct{ Question, Answer string }
		p.must(t, "GET", "points/"+paris.ID+"/answer", nil, &shown)
		if shown.Answer != paris.Answer {
			t.Errorf("shown %+v", shown)
		}
		var judged struct {
			Score int
			By    string `json:"judged_by"`
		}
		p.must(t, "POST", "points/"+paris.ID+"/judge", given{"recall_text": "Paris, on the Seine"}, &judged)
		if judged.Score != 100 || judged.By != "comparison" {
			t.Errorf("judged %+v", judged)
		}
		review := given{"knowledge_point_id": paris.ID, "schedule_id": next.Card.Sitting, "review_id": "one",
			"grade": 4, "recall_text": "Paris", "score": 90, "took_ms": 1500}
		var done struct {
			Review, Grade, State, Due string
			ID                        string `json:"review_id"`
			Already                   bool
			Next                      apiNext
		}
		p.must(t, "POST", "reviews", review, &done)
		if done.ID != "one" || done.Grade != "easy" || done.State != "review" || done.Due == "" ||
			done.Next.Card == nil || done.Next.Card.Point != water.ID {
			t.Errorf("done %+v", done)
		}
		if p.must(t, "POST", "reviews", review, &done); !done.Already {
			t.Errorf("the same review counts twice: %+v", done)
		}
		p.refused(t, 409, "done already", "POST", "reviews",
			given{"knowledge_point_id": paris.ID, "schedule_id": next.Card.Sitting, "grade": "good",
				"recall_text": "else"})
		p.refused(t, 409, "not due yet", "POST", "reviews", given{"knowledge_point_id": paris.ID, "grade": "good"})
		p.refused(t, 409, "not among those", "POST", "reviews", given{"knowledge_point_id": third.ID, "grade": "good"})
		p.refused(t, 404, "no such point", "POST", "reviews", given{"knowledge_point_id": "nobodys", "grade": "good"})
		for _, bad := range []given{{"knowledge_point_id": water.ID}, {"knowledge_point_id": water.ID, "grade": 5},
			{"grade": 1}, {"knowledge_point_id": water.ID, "grade": 1, "score": 101},
			{"knowledge_point_id": water.ID, "grade": 1, "took_ms": -1}} {
			p.refused(t, 400, "error", "POST", "reviews", bad)
		}
		var history struct {
			History []struct {
				ID, Kind, Grade, Channel string
				Score                    int
			}
			Next string
		}
		p.must(t, "GET", "points/"+paris.ID+"/history", nil, &history)
		if len(history.History) != 1 || history.History[0].Grade != "easy" || history.History[0].Channel != "api" ||
			history.History[0].Score != 90 {
			t.Errorf("history %+v", history)
		}

		// Undo it: the question comes again.
		var undone struct{ Card struct{ Question string } }
		p.must(t, "POST", "undo", given{"review_id": "one"}, &undone)
		if undone.Card.Question != "Capital of France?" {
			t.Errorf("undone %+v", undone)
		}
		if got := listed("state=new"); len(got) != 2 {
			t.Errorf("new are %v", got)
		}
		p.refused(t, 400, "no review to undo", "POST", "undo", given{"review_id": "never"})
		p.must(t, "POST", "points/"+water.ID+"/due", given{"in_days": 3}, nil)
		p.refused(t, 400, "Give date", "POST", "points/"+water.ID+"/due", given{})
		p.refused(t, 400, "is not a date", "POST", "points/"+water.ID+"/due", given{"date": "tomorrow"})

		// The trash, and restoring from it.
		p.must(t, "DELETE", "points/"+paris.ID, nil, nil)
		p.refused(t, 404, "no such point", "GET", "points/"+paris.ID, nil)
		p.refused(t, 404, "no such point", "DELETE", "points/"+paris.ID, nil)
		if got := listed("state=trash"); !slices.Equal(got, []string{paris.ID}) {
			t.Errorf("the trash has %v", got)
		}
		p.must(t, "POST", "points/"+paris.ID+"/restore", nil, &paris)

		// Tags: one is renamed; two are merged only on request.
		p.must(t, "POST", "points", given{"question": "Oxygen?", "answer": "O", "tags": []string{"chemistry", "chem"}},
			nil)
		p.refused(t, 409, "points with the tag “chemistry” already (1)", "PATCH",
			"tags/chem", given{"name": "chemistry"})
		p.refused(t, 404, "No point has this tag", "PATCH", "tags/nobodys", given{"name": "x"})
		p.refused(t, 400, "needs a name", "PATCH", "tags/chem", given{"name": " # "})
		var renamed struct {
			Tag    string
			Points int
		}
		p.must(t, "PATCH", "tags/chem", given{"name": "chemistry", "merge": true}, &renamed)
		if renamed.Tag != "chemistry" || renamed.Points != 2 {
			t.Errorf("renamed %+v", renamed)
		}
		p.must(t, "PATCH", "tags/"+url.PathEscape("capital/city"), given{"name": "#capital city"}, &renamed)
		if renamed.Tag != "capital-city" || renamed.Points != 1 {
			t.Errorf("renamed %+v", renamed)
		}
		var tags struct {
			Tags []struct {
				Tag    string
				Points int
			}
			Next string
		}
		p.must(t, "GET", "tags?limit=2", nil, &tags)
		if fmt.Sprint(tags) != "{[{capital-city 1} {chemistry 2}] chemistry}" {
			t.Errorf("tags %+v", tags)
		}
		if got := listed("query=capital-city"); !slices.Equal(got, []string{paris.ID}) {
			t.Errorf("by its new tag is found %v", got)
		}

		// Decks.
		var deck struct {
			ID, Name string
			Points   int
			Settings struct{ Schedule string }
		}
		p.must(t, "GET", "decks/geography", nil, &deck)
		p.must(t, "PATCH", "decks/"+deck.ID, given{"name": "Earth", "settings": given{"schedule": "classic"}}, &deck)
		if deck.Name != "Earth" || deck.Points != 1 || deck.Settings.Schedule != "classic" {
			t.Errorf("the deck is %+v", deck)
		}
		p.refused(t, 409, "There is a deck", "POST", "decks", given{"name": "earth"})
		p.must(t, "POST", "decks", given{"name": "Moon"}, nil)
		p.refused(t, 409, "There is a deck", "PATCH", "decks/Moon", given{"name": "Earth"})
		p.refused(t, 400, "retention", "PATCH", "decks/Moon", given{"settings": given{"retention": 7}})
		p.refused(t, 404, "no such deck", "DELETE", "decks/Sun", nil)
		p.refused(t, 400, "the default deck stays", "DELETE", "decks/default", nil)
		p.must(t, "DELETE", "decks/"+deck.ID, nil, nil)
		var decks struct{ Decks []struct{ Name string } }
		p.must(t, "GET", "decks", nil, &decks)
		if fmt.Sprint(decks) != "{[{default} {Moon}]}" {
			t.Errorf("decks %v", decks)
		}

		// Settings: null resets a setting.
		var settings struct {
			Zone       string `json:"time_zone"`
			Strictness string
			Settings   struct {
				New int `json:"new_per_day"`
			}
		}
		p.must(t, "PATCH", "settings", given{"strictness": "strict", "defaults": given{"new_per_day": 7}}, &settings)
		if settings.Zone != "UTC" || settings.Strictness != "strict" || settings.Settings.New != 7 {
			t.Errorf("settings %+v", settings)
		}
		settings.Strictness = ""
		p.must(t, "PATCH", "settings", given{"strictness": nil, "defaults": given{"new_per_day": nil}}, nil)
		p.must(t, "GET", "settings", nil, &settings)
		if settings.Zone != "UTC" || settings.Strictness != "" || settings.Settings.New != 20 {
			t.Errorf("settings %+v", settings)
		}
		p.refused(t, 400, "there is no time zone", "PATCH", "settings", given{"time_zone": "Moon/Base"})

		// Statistics.
		var stats struct {
			Points   int
			Done     struct{ Reviews int } `json:"done_today"`
			Forecast []struct{ Due int }
			Weeks    []struct{ From string }
			Decks    []struct{ Name string }
		}
		p.must(t, "GET", "stats?days=30&history_days=7&weeks=12", nil, &stats)
		if stats.Points != 4 || stats.Done.Reviews != 0 || len(stats.Forecast) != 30 || len(stats.Weeks) != 12 ||
			len(stats.Decks) != 2 {
			t.Errorf("stats %+v", stats)
		}
		p.refused(t, 400, "from 0 to 365", "GET", "stats?days=1000", nil)

		// The trail has the calls that changed something, and no others; failed calls are marked as
		// such.
		var calls []struct{ Channel, Program, Provider, Tool, Outcome, Args string }
		place.json(t, &calls, "calls", "--limit", "200")
		seen := map[string]int{}
		for _, c := range calls {
			seen[c.Tool+" "+c.Outcome]++
			if c.Channel != "api" || c.Program != "story/1" || c.Provider != "learn" {
				t.Errorf("the trail has %+v", c)
			}
			if c.Tool == "rename_tag" && c.Outcome == "done" && !strings.Contains(c.Args, `"merge":true`) &&
				!strings.Contains(c.Args, "capital/city") {
				t.Errorf("the trail has %+v", c)
			}
		}
		for what, n := range map[string]int{
			"create_knowledge_point done": 4, "update_knowledge_point done": 1, "delete_knowledge_point done": 1,
			"delete_knowledge_point tool_error": 1, "restore_knowledge_point done": 1,
			"submit_review done": 2, "submit_review tool_error": 4, "undo_review done": 1, "undo_review failed": 1,
			"reschedule_knowledge_points done": 1, "rename_tag done": 2, "rename_tag tool_error": 2,
			"save_deck done": 2, "delete_deck done": 1, "update_learning_settings done": 3,
			"update_learning_settings failed": 1, "next_review done": 0, "reveal_answer done": 0,
			"analyze_recall done": 0,
		} {
			if seen[what] != n {
				t.Errorf("%q is in the trail %d times, want %d", what, seen[what], n)
			}
		}
	})
}

// A key's access to points is limited by its scope and rules, and to its own person.
func TestLearnAPIKeys(t *testing.T) {
	place := newInstallation(store.Options{Folder: t.TempDir()})
	place.run(t, "user", "add", "ada")
	place.run(t, "user", "add", "bob")
	var bot addedBot
	place.json(t, &bot, "bot", "add", "--user", "ada", "--name", "parrot", "--kind", "echo")
	s := place.serve(t)
	with := func(args ...string) pupilByAPI {
		t.Helper()
		var key addedKey
		place.json(t, &key, append([]string{"key", "add", "--name", "k"}, args...)...)
		return pupilByAPI{s.url, key.Key, "en"}
	}
	var point apiPoint
	ada := with("--user", "ada", "--scope", "learn")
	ada.must(t, "POST", "points", given{"question": "q", "answer": "a", "tags": []string{"t"}}, &point)
	for _, scope := range []string{"operator", "admin"} {
		own := with("--user", "ada", "--scope", scope)
		own.must(t, "GET", "points/"+point.ID, nil, nil)
		own.must(t, "PATCH", "points/"+point.ID, given{"answer": "b"}, nil)
		if status, _, text, err := send(http.MethodGet, s.url+"/api/v1/learn/export?format=csv", own.key, "",
			""); err != nil || status != http.StatusOK || !strings.Contains(text, "q,b") {
			t.Errorf("%s: %d %s %v", scope, status, text, err)
		}
	}
	for _, path := range []string{"points/" + point.ID, "points/" + point.ID + "/answer",
		"points/" + point.ID + "/history"} {
		with("--user", "bob", "--scope", "learn").refused(t, 404, "no such point", "GET", path, nil)
	}
	with("--user", "ada", "--scope", "mcp").refused(t, 401, "scope learn, operator or admin", "GET", "points", nil)
	with("--user", "ada", "--scope", "operator", "--bot", fmt.Sprint(bot.ID)).refused(t, 403, "for one bot alone",
		"GET", "points", nil)
	reader := with("--user", "ada", "--scope", "learn", "--allow-tool", "list_*", "--allow-tool", "get_*")
	reader.must(t, "GET", "points", nil, nil)
	reader.must(t, "GET", "points/"+point.ID, nil, nil)
	reader.refused(t, 403, "create_knowledge_point", "POST", "points", given{"question": "q", "answer": "a"})
	reader.refused(t, 403, "update_knowledge_point", "PATCH", "tags/t", given{"name": "u"})
	reader.refused(t, 403, "reveal_answer", "GET", "points/"+point.ID+"/answer", nil)
	if status, _, _, err := send(http.MethodGet, s.url+"/api/v1/bots", ada.key, "", ""); err != nil ||
		status != http.StatusUnauthorized {
		t.Errorf("a key for Learn opens more: %d %v", status, err)
	}
	slow := with("--user", "ada", "--scope", "learn", "--rate", "1")
	for n := 1; ; n++ { // some requests are saved up
		status, text := slow.ask(t, "GET", "tags", nil, nil)
		if status == http.StatusTooManyRequests && strings.Contains(text, "wait a minute") {
			break
		}
		if status != http.StatusOK || n > 30 {
			t.Fatalf("call %d of a key that may make one a minute: %d %s", n, status, text)
		}
	}
}
