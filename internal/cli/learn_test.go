package cli

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"patchbay/internal/plug/learn"
	"patchbay/internal/plug/openai/openaitest"
)

// withPoints returns a desk with a person who learns two capitals.
func withPoints(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("learn", "add", "Capital of France?", "Paris", "--deck", "Geography", "--tag", "europe")
	d.ok("learn", "add", "日本的首都是哪里？", "东京")
	return d
}

// points returns points by question.
func (d *desk) points(args ...string) map[string]learnPoint {
	d.t.Helper()
	var list []learnPoint
	d.json(&list, append([]string{"learn", "list"}, args...)...)
	all := map[string]learnPoint{}
	for _, p := range list {
		all[p.Question] = p
	}
	return all
}

// review answers with lines, and returns the output and the summary.
func (d *desk) review(lines string, args ...string) (talk string, sum learnSum) {
	d.t.Helper()
	o := d.do(lines, append([]string{"learn", "review", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(o.stdout), &sum); o.code != exitOK || err != nil {
		d.t.Fatalf("reviewing gives %+v (%v)", o, err)
	}
	return o.stderr, sum
}

type learnSum struct {
	Reviewed, Again int
	Left            learnLeft
}

func TestLearnAddAndList(t *testing.T) {
	d := withPoints(t)
	all := d.points()
	paris := all["Capital of France?"]
	if len(all) != 2 || paris.Answer != "Paris" || paris.Deck != "Geography" ||
		!slices.Equal(paris.Tags, []string{"europe"}) || paris.State != "new" {
		t.Errorf("listed are %+v", all)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--deck", "geography"}, "Capital of France?"},
		{[]string{"--tag", "europe"}, "Capital of France?"},
		{[]string{"--query", "首都"}, "日本的首都是哪里？"},
		{[]string{"--query", "capital", "--deck", "default"}, ""},
		{[]string{"--drafts"}, ""},
		{[]string{"--trash"}, ""},
		{[]string{"--limit", "1"}, "日本的首都是哪里？"},
	} {
		var names []string
		for name := range d.points(c.args...) {
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("list %v has %q, want %q", c.args, got, c.want)
		}
	}
	if got := d.points("--due"); len(got) != 2 {
		t.Errorf("due are %+v", got)
	}
	table := d.ok("learn", "list")
	if !strings.Contains(table, paris.ID[28:]+"  new    "+paris.Due+"  Geography  Capital of France?\n") {
		t.Errorf("the table is\n%s", table)
	}
	if got := d.ok("learn", "list", "--limit", "1"); !strings.Contains(got, "There are more") {
		t.Errorf("a short list is\n%s", got)
	}
	d.failing(exitUsage, "", []string{"learn", "list", "--limit", "0"}, "--limit is 0")
	d.failing(exitUsage, "", []string{"learn", "list", "--due", "--trash"}, "--due", "--trash")
	d.failing(exitUsage, "", []string{"learn", "add", "What?"}, "its answer")
	d.failing(exitFailed, "", []string{"learn", "list", "--deck", "Nothing"}, `no deck "Nothing"`, "Geography")
}

// Questions are cut where the table would be wider than the terminal; Chinese characters take two
// columns.
func TestLearnTableFitsTheTerminal(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("learn", "add", strings.Repeat("长", 80), "x")
	d.ok("learn", "add", strings.Repeat("w", 300), "x")
	for line := range strings.Lines(d.ok("learn", "list")) {
		if w := columns(strings.TrimSuffix(line, "\n")); w > plainWidth {
			t.Errorf("%d columns: %s", w, line)
		}
	}
}

func TestLearnAddLines(t *testing.T) {
	d := withPoints(t)
	var lines strings.Builder
	for i := range 120 { // more than the tool accepts at once
		lines.WriteString("word " + strings.Repeat("x", i) + "\tanswer\n")
	}
	o := d.do(lines.String(), "learn", "add", "--file", "-", "--deck", "Many", "--json")
	var out learnAdded
	if err := json.Unmarshal([]byte(o.stdout), &out); err != nil || len(out.Created) != 120 || len(out.Errors) != 0 ||
		o.code != exitOK {
		t.Fatalf("it gives %+v (%v)", o, err)
	}
	if got := d.points("--deck", "Many", "--all"); len(got) != 120 {
		t.Errorf("%d are listed", len(got))
	}
	o = d.do("\nno tab\ngood\tyes\nempty\t \n", "learn", "add", "--file", "-")
	if o.code != exitOK || o.stdout != "Added: 1, skipped: 2.\n" ||
		!strings.Contains(o.stderr, "line 2: there is no tab") ||
		!strings.Contains(o.stderr, "line 4: answer must not be empty") {
		t.Errorf("bad lines give %+v", o)
	}
	if o := d.do("empty\t \n", "learn", "add", "--file", "-"); o.code != exitFailed ||
		o.stderr != "line 1: answer must not be empty\n" {
		t.Errorf("nothing but bad lines gives %+v", o)
	}
	d.failing(exitFailed, "", []string{"learn", "add", "--file", "-"}, "no lines to add")
}

func TestLearnEditShowRemove(t *testing.T) {
	d := withPoints(t)
	id := d.points()["Capital of France?"].ID
	d.ok("learn", "edit", id[30:], "--answer", "**Paris**, since 987", "--tag", "a", "--tag", "b", "--suspend")
	p := d.points()["Capital of France?"]
	if p.Answer != "**Paris**, since 987" || !slices.Equal(p.Tags, []string{"a", "b"}) || p.State != "suspended" ||
		p.ID != id {
		t.Errorf("changed is %+v", p)
	}
	d.ok("learn", "edit", id, "--resume", "--tag", "", "--no-plan", "--deck", "default")
	if p := d.points()["Capital of France?"]; p.State != "not in plan" || p.Tags != nil || p.Deck != "default" {
		t.Errorf("changed is %+v", p)
	}
	d.ok("learn", "edit", id, "--plan")
	shown := d.ok("learn", "show", id[28:])
	for _, want := range []string{id + " · new · deck default", "Capital of France?\n\n**Paris**, since 987\n",
		"Plan\n   1  ", "to come", "never reviewed"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, shown)
		}
	}
	gone := d.ok("learn", "rm", id)
	if !strings.Contains(gone, "learn rm --undo "+id[28:]) {
		t.Errorf("deleting says %q", gone)
	}
	if len(d.points()) != 1 || len(d.points("--trash")) != 1 {
		t.Errorf("there are %+v", d.points())
	}
	d.failing(exitFailed, "", []string{"learn", "show", id}, "not found")
	d.failing(exitFailed, "", []string{"learn", "rm", id[28:]}, "no knowledge point", "learn list")
	d.failing(exitFailed, "", []string{"learn", "rm", "--undo", "ffff0000"}, "learn list --trash")
	d.ok("learn", "rm", "--undo", id[28:])
	if len(d.points()) != 2 {
		t.Errorf("there are %+v", d.points())
	}
	d.ok("learn", "add", "Perhaps?", "No", "--draft")
	draft := d.points("--drafts")["Perhaps?"]
	if draft.State != "draft" {
		t.Fatalf("the draft is %+v", draft)
	}
	d.ok("learn", "edit", draft.ID, "--confirm")
	if got := d.points()["Perhaps?"].State; got != "new" {
		t.Errorf("confirmed it is %s", got)
	}
	d.failing(exitUsage, "", []string{"learn", "edit", id}, "there is nothing to change")
	d.failing(exitUsage, "", []string{"learn", "show", "xy"}, "too short")
}

func TestLearnReview(t *testing.T) {
	d := withPoints(t)
	talk, sum := d.review("Paris\ng\n\n1\nq\n")
	if sum.Reviewed != 2 || sum.Again != 1 || sum.Left.Steps != 2 {
		t.Errorf("it ends with %+v", sum)
	}
	for _, want := range []string{"2 remaining (2 new) · new · Geography · europe\nCapital of France?\n",
		"\nParis\nagain 1 min · hard 6 min · good 10 min · easy ", "good → ", "\n日本的首都是哪里？\n", "\n东京\n", "again → "} {
		if !strings.Contains(talk, want) {
			t.Errorf("%q is not in\n%s", want, talk)
		}
	}
	id := d.points()["Capital of France?"].ID
	var shown struct{ Reviews []learnReview }
	d.json(&shown, "learn", "show", id)
	if len(shown.Reviews) != 1 || shown.Reviews[0].Grade != "good" || shown.Reviews[0].Recall != "Paris" ||
		shown.Reviews[0].Channel != "cli" || len(shown.Reviews[0].ID) != learnWholeID {
		t.Errorf("its history is %+v", shown.Reviews)
	}
	if got := d.ok("learn", "undo"); got != "Undone (again): 日本的首都是哪里？\n" {
		t.Errorf("undoing says %q", got)
	}
	d.ok("learn", "undo", "--review", shown.Reviews[0].ID)
	for question, p := range d.points() {
		if p.State != "new" {
			t.Errorf("%s is %+v", question, p)
		}
	}
	d.failing(exitFailed, "", []string{"learn", "undo", "--review", "nothing"}, "no review to undo")
	d.env = append(d.env, "LC_ALL=zh_CN.UTF-8")
	if got := d.do("Paris\nq\n", "learn", "review").stdout; !strings.Contains(got, "忘了 1 min · 困难 6 min · 记得 10 min · 简单 ") {
		t.Errorf("the grades in Chinese are in\n%s", got)
	}
}

// The steps of a session can be undone in it, one after the other.
func TestLearnReviewTakesBack(t *testing.T) {
	d := withPoints(t)
	d.ok("learn", "add", "Third?", "3")
	talk, sum := d.review("u\ns\nd\nu\nu\n u \nx\nh\nu\n\nu\n\ne\nq\n")
	if sum.Reviewed != 1 || sum.Again != 0 || sum.Left.New != 2 {
		t.Errorf("it ends with %+v:\n%s", sum, talk)
	}
	for _, want := range []string{"nothing to undo", "It is suspended until: patchbay learn edit ",
		"patchbay learn rm --undo ", "Undone; review it again:\n\n2 remaining", "Undone; review it again:\n\n3 remaining", "hard → ",
		"easy → "} {
		if !strings.Contains(talk, want) {
			t.Errorf("%q is not in\n%s", want, talk)
		}
	}
	all := d.points()
	if all["Capital of France?"].State != "review" || all["日本的首都是哪里？"].State != "new" {
		t.Errorf("there are %+v", all)
	}
}

func TestLearnReviewEnds(t *testing.T) {
	d := withPoints(t)
	for _, c := range []struct {
		lines string
		args  []string
		want  int
	}{
		{"", nil, 0}, {"q\n", nil, 0}, {"\n", nil, 0}, {"\nq\n", nil, 0},
		{"\ne\n\ne\n", []string{"--limit", "1"}, 1},
		{"\ne\n", []string{"--deck", "Geography"}, 0}, // done above
	} {
		if talk, sum := d.review(c.lines, c.args...); sum.Reviewed != c.want {
			t.Errorf("%q %v gives %+v:\n%s", c.lines, c.args, sum, talk)
		}
	}
	o := d.do("\ne\n", "learn", "review")
	for _, want := range []string{"Reviewed: 1, of these again: 0, in ", "There is nothing to review now.\n",
		"The next are due on "} {
		if !strings.Contains(o.stdout, want) || o.code != exitOK {
			t.Errorf("%q is not in\n%s", want, o.stdout)
		}
	}
	d.env = append(d.env, "LC_ALL=zh_CN.UTF-8")
	if got := d.ok("learn", "review"); !strings.Contains(got, "现在没有要复习的。") {
		t.Errorf("in Chinese it says %q", got)
	}
	d.failing(exitUsage, "", []string{"learn", "review", "--limit", "-1"}, "--limit")
}

// Without a model, words are compared; Enter accepts the suggested grade.
func TestLearnReviewJudges(t *testing.T) {
	d := withPoints(t)
	talk, sum := d.review("Paris\n\nwhat I never knew\n\nq\n", "--judge")
	if sum.Reviewed != 2 || sum.Again != 1 || !strings.Contains(talk, "100 of 100") ||
		!strings.Contains(talk, "[again]") {
		t.Errorf("it ends with %+v:\n%s", sum, talk)
	}
	var shown struct{ Reviews []learnReview }
	d.json(&shown, "learn", "show", d.points()["Capital of France?"].ID)
	if len(shown.Reviews) != 1 || shown.Reviews[0].Score == nil || *shown.Reviews[0].Score != 100 {
		t.Errorf("its history is %+v", shown.Reviews)
	}
}

// A model of the learner judges, also while no server runs.
func TestLearnReviewJudgedByAModel(t *testing.T) {
	model, err := openaitest.Start(openaitest.Reply{Steps: openaitest.Words(
		`{"score":40,"right":[],"missing":["the city"],"wrong":[],"advice":"","verdict":"Not quite."}`, 0)})
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	d := withPoints(t)
	d.ok("bot", "add", "--name", "m", "--kind", "openai", "--set", "base_url="+model.URL, "--set", "model=m")
	if talk, sum := d.review("Lyon\n\nq\n", "--judge"); sum.Reviewed != 1 || !strings.Contains(talk, "40 of 100") {
		t.Errorf("it ends with %+v:\n%s", sum, talk)
	}
}

func TestLearnStats(t *testing.T) {
	d := withPoints(t)
	d.review("\ne\nq\n")
	got := d.ok("learn", "stats", "--days", "30")
	for _, want := range []string{"Remaining for today: 1 (1 new).", "Done today: 1 (1 new, 0 again)", "Days in a row: 1.",
		"100% remembered", " 1 █\n", "Geography  1       0    0\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	var s learnStats
	d.json(&s, "learn", "stats", "--days", "3")
	if s.Points != 2 || len(s.Forecast) != 3 || s.Left.New != 1 {
		t.Errorf("it is %+v", s)
	}
	d.failing(exitUsage, "", []string{"learn", "stats", "--days", "0"}, "--days is 0")
}

func TestLearnSettings(t *testing.T) {
	d := withPoints(t)
	var p learnProfile
	d.json(&p, "learn", "set", "--time-zone", "Asia/Shanghai", "--day-start", "05:30", "--new-per-day", "7",
		"--retention", "0.85", "--steps", "none", "--remind", "20:00", "--via", "glasses,webhook", "--webhook",
		"https://example.org/hook")
	if p.Zone != "Asia/Shanghai" || p.DayStart != "05:30" || p.Settings.New != 7 || p.Settings.Retention != 0.85 ||
		len(p.Settings.Steps) != 0 || p.Remind.At != "20:00" || len(p.Remind.Via) != 2 {
		t.Errorf("the settings are %+v", p)
	}
	p = learnProfile{}
	d.json(&p, "learn", "set", "--remind", "", "--new-per-day", "", "--steps", "1,10")
	if p.Remind.At != "" || p.Remind.Webhook != "https://example.org/hook" || p.Settings.New != 20 ||
		p.Settings.Retention != 0.85 || !slices.Equal(p.Settings.Steps, []int{1, 10}) {
		t.Errorf("the settings are %+v", p)
	}
	if got := d.ok("learn", "set"); !strings.Contains(got, "Asia/Shanghai\n") || !strings.Contains(got, "  1,10\n") {
		t.Errorf("they are shown as\n%s", got)
	}
	d.failing(exitFailed, "", []string{"learn", "set", "--time-zone", "Mars"}, `no time zone "Mars"`)
	d.failing(exitFailed, "", []string{"learn", "set", "--schedule", "magic"}, "magic")
	for _, args := range [][]string{{"--retention", "90"}, {"--new-per-day", "many"}, {"--steps", "1m"}} {
		d.failing(exitUsage, "", append([]string{"learn", "set"}, args...), args[0], args[1])
	}
}

func TestLearnDecks(t *testing.T) {
	d := withPoints(t)
	d.ok("learn", "deck", "Geography", "--schedule", "classic")
	d.ok("learn", "deck", "Geography", "--rename", "World")
	got := d.ok("learn", "deck")
	if !strings.Contains(got, "World    1       0    0    classic   schedule=classic\n") {
		t.Errorf("the decks are\n%s", got)
	}
	d.ok("learn", "deck", "World", "--schedule", "")
	d.ok("learn", "deck", "Empty", "--new")
	var decks []learnDeckRow
	d.json(&decks, "learn", "deck", "world")
	if len(decks) != 1 || decks[0].Settings.Schedule != "fsrs" || decks[0].Points != 1 {
		t.Errorf("the deck is %+v", decks)
	}
	d.ok("learn", "deck", "World", "--rm")
	if got := d.points()["Capital of France?"].Deck; got != learn.DefaultDeck {
		t.Errorf("it is in %s", got)
	}
	d.failing(exitFailed, "", []string{"learn", "deck", "World"}, `no deck "World"`, "--new")
	d.failing(exitFailed, "", []string{"learn", "deck", "World", "--rename", "X"}, `no deck "World"`)
	d.failing(exitFailed, "", []string{"learn", "deck", "default", "--rm"}, "default deck stays")
	d.failing(exitUsage, "", []string{"learn", "deck", "--rm"}, "name of a deck")
}

func TestInk(t *testing.T) {
	const text = "# Head\n- one **bold** and `co*de*`\n* two\n\n```go\nx := 1\n```\na ** b ** c \x1b[31mred"
	if got := (style{}).markdown(text); got != strings.ReplaceAll(text, "\x1b", "") {
		t.Errorf("without ink it is %q", got)
	}
	want := "\x1b[1mHead\x1b[0m\n• one \x1b[1mbold\x1b[0m and \x1b[36mco*de*\x1b[0m\n• two\n\n    \x1b[36mx := 1\x1b[0m\na ** b ** c [31mred"
	if got := (style{true}).markdown(text); got != want {
		t.Errorf("with ink it is %q, want %q", got, want)
	}
}

// No text from outside can control the terminal.
func FuzzInk(f *testing.F) {
	f.Add("# a\n- **b** `c`\n```\nd\n```")
	f.Add("\x1b[31m**\x1b]0;t\x07**`\x1b`")
	f.Add("**a*b** **** ``")
	f.Fuzz(func(t *testing.T, text string) {
		if got := (style{}).markdown(text); strings.ContainsAny(got, "\x1b\x07\r\x00") {
			t.Errorf("%q is written as %q", text, got)
		}
		got := (style{true}).markdown(text)
		for _, code := range []string{"0", "1", "36"} {
			got = strings.ReplaceAll(got, "\x1b["+code+"m", "")
		}
		if strings.ContainsAny(got, "\x1b\x07\r\x00") {
			t.Errorf("%q is written as %q", text, got)
		}
	})
}
