package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"golang.org/x/term"

	"patchbay/internal/talk"
)

// learnPoint is a knowledge point as the tools give it.
type learnPoint struct {
	ID       string      `json:"id"`
	Question string      `json:"question"`
	Answer   string      `json:"answer"`
	Created  time.Time   `json:"created_at"`
	Deck     string      `json:"deck"`
	Tags     []string    `json:"tags"`
	State    string      `json:"state"`
	Due      string      `json:"due"`
	Plan     []learnPlan `json:"review_schedules"`
}

// learnPlan is a row of a point's plan.
type learnPlan struct {
	Day       string    `json:"review_date"`
	Number    int       `json:"review_number"`
	Completed bool      `json:"completed"`
	At        time.Time `json:"completed_at"`
	Recall    string    `json:"recall_text"`
}

// learnFilter says which points are meant.
type learnFilter struct {
	Deck string `help:"Only those of this deck." placeholder:"DECK"`
	Tag  string `help:"Only those with this tag." placeholder:"TAG"`
}

// put adds the filter to the arguments of a tool.
func (f learnFilter) put(args map[string]any) map[string]any {
	if f.Deck != "" {
		args["deck"] = f.Deck
	}
	if f.Tag != "" {
		args["tag"] = f.Tag
	}
	return args
}

// learnPage is how many points are asked for at a time, as many as the tools give.
const learnPage = 500

// learnPages reads a list of points to its end, or until use wants no more.
func learnPages(ctx context.Context, l learnCaller, name string, args map[string]any, use func(rows []json.RawMessage) (more bool)) error {
	for {
		var page struct {
			Rows []json.RawMessage `json:"knowledge_points"`
			Next string            `json:"next_cursor"`
		}
		if err := l.call(ctx, name, args, &page); err != nil {
			return err
		}
		if !use(page.Rows) || page.Next == "" {
			return nil
		}
		args["cursor"] = page.Next
	}
}

const (
	// learnWholeID is how long an id is.
	learnWholeID = 36
	// learnShortID is how much of the end of an id tables show: its beginning is the
	// time, which many have in common.
	learnShortID = 8
	// learnLeastID is how much of the end of an id is enough to name a point.
	learnLeastID = 4
)

// learnTrash is the tool that lists what was deleted.
const learnTrash = "list_deleted_knowledge_points"

func learnShort(id string) string { return id[max(0, len(id)-learnShortID):] }

// learnFind finds the whole id of a point of which somebody gave the end. List is
// the tool that lists where it may be.
func learnFind(ctx context.Context, l learnCaller, list, id string) (string, error) {
	id = strings.ToLower(strings.TrimSpace(id))
	if len(id) >= learnWholeID {
		return id, nil
	}
	if len(id) < learnLeastID {
		return "", usage(talk.Say{Zh: "%q 作为 id 太短；请至少写出它的最后 %d 个字母，learn list 会显示它们", En: "%q is too short for an id; give at least %d of its last letters, as learn list shows them"}, id, learnLeastID)
	}
	var found []string
	err := learnPages(ctx, l, list, map[string]any{"limit": learnPage}, func(rows []json.RawMessage) bool {
		for _, row := range rows {
			var p struct {
				ID string `json:"id"`
			}
			if json.Unmarshal(row, &p) == nil && strings.HasSuffix(p.ID, id) {
				found = append(found, p.ID)
			}
		}
		return true
	})
	switch {
	case err != nil:
		return "", err
	case len(found) == 0 && list == learnTrash:
		return "", talk.Say{Zh: "回收站里没有 %q；patchbay learn list --trash 会列出里面有什么", En: "there is no %q in the trash; patchbay learn list --trash shows what is"}.Wrong(id)
	case len(found) == 0:
		return "", talk.Say{Zh: "没有知识点 %q；patchbay learn list 会列出现有的", En: "there is no knowledge point %q; patchbay learn list shows those there are"}.Wrong(id)
	case len(found) > 1:
		return "", talk.Say{Zh: "以 %q 结尾的 id 有 %d 个；请多写几位", En: "%q are the last letters of %d ids; give more of them"}.Wrong(id, len(found))
	}
	return found[0], nil
}

// learnID is learnFind among the points that are not in the trash.
func learnID(ctx context.Context, l learnCaller, id string) (string, error) {
	return learnFind(ctx, l, "list_knowledge_points", id)
}

var learnStates = map[string]talk.Say{
	"draft":       {Zh: "草稿", En: "draft"},
	"not in plan": {Zh: "不复习", En: "not in plan"},
	"suspended":   {Zh: "暂停", En: "suspended"},
	"new":         {Zh: "新", En: "new"},
	"learning":    {Zh: "学习中", En: "learning"},
	"review":      {Zh: "复习", En: "review"},
	"relearning":  {Zh: "重学中", En: "relearning"},
	"done":        {Zh: "已完成", En: "done"},
}

// learnState is where a point stands, in words.
func (sh *shell) learnState(name string) string {
	if s, ok := learnStates[name]; ok {
		return s.In(sh.lang)
	}
	return name
}

// learnDue writes when a point is due: a date as it is, a moment by the clock here.
func (sh *shell) learnDue(due string) string {
	at, err := time.Parse(time.RFC3339, due)
	if err != nil {
		return due
	}
	at = at.Local()
	if at.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return at.Format("15:04")
	}
	return at.Format("2006-01-02 15:04")
}

// plainWidth is how wide lines are where nobody says how wide they may be.
const plainWidth = 100

// width is how many columns standard output has.
func (sh *shell) width() int {
	if fd, ok := terminal(sh.stdout); ok {
		if w, _, err := term.GetSize(fd); err == nil && w > 0 {
			return w
		}
	}
	return plainWidth
}

// learnHeading is a short form of a question, for messages.
func learnHeading(question string) string { return short(question, maxHeading) }

// maxHeading is how many columns of a question a message shows.
const maxHeading = 60

// asTrouble finds what a tool said in an error, or nil.
func asTrouble(err error) *learnTrouble {
	t, _ := errors.AsType[*learnTrouble](err)
	return t
}
