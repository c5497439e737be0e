package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"golang.org/x/term"

	"patchbay/internal/i18n"
)

// learnPoint is a knowledge point as returned by the tools.
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

// learnPlan is one entry of a point's review plan.
type learnPlan struct {
	Day       string    `json:"review_date"`
	Number    int       `json:"review_number"`
	Completed bool      `json:"completed"`
	At        time.Time `json:"completed_at"`
	Recall    string    `json:"recall_text"`
}

// learnFilter selects points.
type learnFilter struct {
	Deck string `help:"Only knowledge points of this deck." placeholder:"DECK"`
	Tag  string `help:"Only knowledge points with this tag." placeholder:"TAG"`
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

// learnPage is how many points are requested at a time, the maximum of the tools.
const learnPage = 500

// learnPages reads a list of points to its end, or until use returns false.
func learnPages(ctx context.Context, l learnCaller, name string, args map[string]any,
	use func(rows []json.RawMessage) (more bool)) error {
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
	// learnWholeID is the length of an ID.
	learnWholeID = 36
	// learnShortID is how many of an ID's last characters are shown in tables: the first ones
	// encode the time and are often equal.
	learnShortID = 8
	// learnLeastID is how many of an ID's last characters are needed to name a point.
	learnLeastID = 4
)

// learnTrash is the tool that lists deleted points.
const learnTrash = "list_deleted_knowledge_points"

func learnShort(id string) string { return id[max(0, len(id)-learnShortID):] }

// learnFind returns the whole ID of a point from its last characters. list is the tool that lists
// the points to search.
func learnFind(ctx context.Context, l learnCaller, list, id string) (string, error) {
	id = strings.ToLower(strings.TrimSpace(id))
	if len(id) >= learnWholeID {
		return id, nil
	}
	if len(id) < learnLeastID {
		return "", usage(i18n.Message("%q is too short for an id; give at least its last %d characters, as shown by learn list"), id,
			learnLeastID)
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
		return "", i18n.Message("there is no %q in the trash; patchbay learn list --trash lists the trash").Errorf(id)
	case len(found) == 0:
		return "", i18n.Message("there is no knowledge point %q; patchbay learn list lists the knowledge points").Errorf(id)
	case len(found) > 1:
		return "", i18n.Message("%q matches the end of %d ids; give more characters").Errorf(id, len(found))
	}
	return found[0], nil
}

// learnID is learnFind among the points that are not deleted.
func learnID(ctx context.Context, l learnCaller, id string) (string, error) {
	return learnFind(ctx, l, "list_knowledge_points", id)
}

var learnStates = map[string]i18n.Message{
	"draft":       "draft",
	"not in plan": "not in plan",
	"suspended":   "suspended",
	"new":         "new",
	"learning":    "learning",
	"review":      "review",
	"relearning":  "relearning",
	"done":        "done",
}

// learnState returns the name of a point's state.
func (sh *shell) learnState(name string) string {
	if s, ok := learnStates[name]; ok {
		return s.In(sh.lang)
	}
	return name
}

// learnDue formats a due time: a date as it is, a time in the local time zone.
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

// plainWidth is the line width without a terminal.
const plainWidth = 100

// width returns the number of columns of standard output.
func (sh *shell) width() int {
	if fd, ok := terminal(sh.stdout); ok {
		if w, _, err := term.GetSize(fd); err == nil && w > 0 {
			return w
		}
	}
	return plainWidth
}

// learnHeading shortens a question for messages.
func learnHeading(question string) string { return short(question, maxHeading) }

// maxHeading is how many columns of a question a message shows.
const maxHeading = 60

// asLearnError returns the error of a tool within err, or nil.
func asLearnError(err error) *learnError {
	t, _ := errors.AsType[*learnError](err)
	return t
}
