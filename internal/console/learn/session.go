package learn

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/console/page"
	"patchbay/internal/i18n"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store"
)

// session is the state of a review session. The pages carry it in their forms, so that the server
// keeps nothing, and a form that is sent twice gives the same result.
type session struct {
	Deck  string // as in URLs; empty means all
	Tag   string
	Query string // an expression; empty means all
	// Cram goes through all that match, whether due or not, and records nothing; After is the
	// position of the last one.
	Cram  bool
	After int64
	Done  int
	Again int
	Whole int   // most points that were left at a time; 0: not known yet
	Began int64 // in Unix seconds
	// Steps can be undone, the last one first; see [stepReview].
	Steps []string
	// Point is asked next; empty means any.
	Point  string
	Notice string // name of the notice above it
	// forgotten is the point that was forgotten just now; no form has it.
	forgotten string
}

// tellings are the notices above a question.
var tellings = map[string]i18n.Message{
	"elsewhere": msgElsewhere, "early": msgNotDue, "gone": msgGone, "unplanned": msgUnplanned, "back": msgBackAgain,
	"rests": msgRestsNow, "tomorrow": msgTomorrowNow, "marked": msgLeechMarked, "unmarked": msgLeechUnmarked,
	"leech": msgLeechNow, "stuck": msgNotUndone, "again": msgAgainNow,
}

func sessionOf(v *page.Visit) session {
	number := func(name string) int {
		n, err := strconv.Atoi(v.FormValue(name))
		if err != nil {
			return 0
		}
		return min(max(n, 0), 99999)
	}
	s := session{Deck: v.FormValue("deck"), Tag: v.FormValue("tag"), Query: v.FormValue("q"),
		Cram: v.FormValue("cram") != "", Done: number("done"), Again: number("again"), Whole: number("whole"),
		Point: v.FormValue("ask"), Notice: v.FormValue("told")}
	s.Began, _ = strconv.ParseInt(v.FormValue("began"), 10, 64) //nolint:errcheck // invalid means that it begins now
	if after, _, err := learning.CramPosition(v.FormValue("after")); err == nil {
		s.After = after
	}
	if now := time.Now().Unix(); s.Began <= 0 || s.Began > now {
		s.Began = now
	}
	for step := range strings.SplitSeq(v.FormValue("steps"), " ") {
		if len(step) > 1 && len(step) <= 120 && len(s.Steps) < stepsMost {
			s.Steps = append(s.Steps, step)
		}
	}
	return s
}

// values returns the session as URL or form values.
func (s session) values() url.Values {
	out := url.Values{"began": {strconv.FormatInt(s.Began, 10)}}
	for name, value := range map[string]string{"deck": s.Deck, "tag": s.Tag, "q": s.Query, "steps": strings.Join(s.Steps, " "),
		"ask": s.Point, "told": s.Notice} {
		if value != "" {
			out.Set(name, value)
		}
	}
	if s.Cram {
		out.Set("cram", "1")
	}
	for name, n := range map[string]int{"done": s.Done, "again": s.Again, "whole": s.Whole, "after": int(s.After)} {
		if n > 0 {
			out.Set(name, strconv.Itoa(n))
		}
	}
	return out
}

// with returns the session with one more step: its kind, and what it is about.
func (s session) with(kind byte, about string) session {
	s.Steps = append(slices.Clone(s.Steps), string(kind)+url.PathEscape(about))
	s.Steps = s.Steps[max(len(s.Steps)-stepsMost, 0):]
	return s
}

// card is the data of a session's page.
type card struct {
	session
	Entry    *learning.Entry // nil if nothing is asked now
	View     *learning.CardView
	Sitting  string
	Deck     string // name of its deck
	Left     learning.Remaining
	Total    int    // points that are left; 0 in a cram session
	Review   string // ID that the review will have
	Shown    int64  // when the question was shown, in Unix milliseconds
	Recall   string
	Revealed bool   // the answer is visible
	Wrong    string // why what was asked for was not done; empty if it was
	Judged   *learning.Judgement
	Score    int // −1 means not judged
	Grades   [4]gradeButton

	// Set if nothing is asked:
	Later time.Time // when the next point is due today; zero means none
	Clock string    // the same as local time of the person
	Next  string    // the next day with due points, and how many
}

// gradeButton is a grade, with the time until the point is due again.
type gradeButton struct {
	Grade int
	Name  string
	Wait  string // empty if no date follows
	Keys  string // the keys that choose it, with spaces between them
}

// hidden returns the hidden form fields of a card: all that a form needs to show it again as it is.
// What is typed is not among them before the answer is visible.
func (c *card) hidden() url.Values {
	s := c.session
	s.Notice, s.Point = "", ""
	out := s.values()
	if c.Entry != nil {
		out.Set("point", c.Entry.ID)
		out.Set("sitting", c.Sitting)
		out.Set("review", c.Review)
		out.Set("at", strconv.FormatInt(c.Entry.Number, 10))
		if c.Revealed {
			out.Set("revealed", "1")
			out.Set("recall", c.Recall)
		}
		if c.Score >= 0 {
			out.Set("score", strconv.Itoa(c.Score))
		}
		if c.Judged != nil {
			judged := *c.Judged
			judged.Analysis = "" // no page shows it
			if text, err := json.Marshal(judged); err == nil {
				out.Set("judged", string(text))
			}
			if judged.Failed {
				out.Set("failed", "1")
			}
		}
		out.Set("shown", strconv.FormatInt(c.Shown, 10))
	}
	return out
}

// Edit returns the URL where the point is edited; the session continues after it.
func (c *card) Edit() string {
	s := c.session
	s.Notice, s.Point = "", c.Entry.ID
	return pointPath(c.Entry.ID) + "?" + query("back", "/learn/review?"+s.values().Encode())
}

// Goal returns the number of points of the session. It does not change while one reviews: a point
// that comes again on its steps is one point still.
func (c *card) Goal() int {
	return max(c.session.Whole, c.Finished())
}

// Finished returns how many of them need no more today.
func (c *card) Finished() int {
	if c.Cram {
		return c.session.Done
	}
	return max(c.session.Whole-c.Total, 0)
}

var gradeNames = [...]i18n.Message{msgAgain, msgHard, msgGood, msgEasy}

// gradeName returns the name of a grade.
func gradeName(v *page.Visit, g store.Grade) string {
	if g < store.Again || g > store.Easy {
		return v.Text(msgUngraded)
	}
	return v.Text(gradeNames[g-1])
}

// waitText describes when a point would be due again.
func waitText(v *page.Visit, wait time.Duration, days int) string {
	switch {
	case wait > 0 && wait < time.Hour:
		return v.Text(msgWaitMinutes, int(wait.Round(time.Minute).Minutes()))
	case wait > 0:
		return v.Text(msgWaitHours, int(wait.Round(time.Hour).Hours()))
	case days < 60:
		return v.Text(msgWaitDays, days)
	case days < 730:
		return v.Text(msgWaitMonths, float64(days)/30.4)
	}
	return v.Text(msgWaitYears, float64(days)/365)
}

// Minutes returns how long the session has taken.
func (c *card) Minutes() int { return int((time.Now().Unix() - c.Began + 30) / 60) }

// Refresh returns when a waiting page reloads itself; empty means never.
func (c *card) Refresh() string {
	wait := time.Until(c.Later)
	if c.Later.IsZero() || wait > waitMost {
		return ""
	}
	return fmt.Sprintf("load delay:%ds", max(int(wait.Seconds())+1, 2))
}

// shownGrades returns the grades that can be chosen.
func (c *card) shownGrades() []gradeButton {
	if c.Cram {
		return []gradeButton{c.Grades[0], c.Grades[2]}
	}
	return c.Grades[:]
}

// leechNext returns 1 if the point can be marked as a leech, and 0 if it is one.
func (c *card) leechNext() int {
	if slices.Contains(c.Entry.Tags, learning.LeechTag) {
		return 0
	}
	return 1
}

// fromStart returns the URL where the session begins again.
func (c *card) fromStart() string {
	return "/learn/review?" + session{Deck: c.session.Deck, Tag: c.Tag, Query: c.Query, Cram: c.Cram}.values().Encode()
}

// suggested returns the grade that the model suggests; 0 means none.
func (c *card) suggested() int {
	if c.Judged == nil {
		return 0
	}
	g, err := learning.ParseGrade(c.Judged.Grade)
	if err != nil {
		return 0
	}
	return int(g)
}
