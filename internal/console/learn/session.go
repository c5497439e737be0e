package learn

import (
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
	Done  int
	Again int
	Began int64 // in Unix seconds
	// Steps can be undone, the last one first: "r" and the ID of a review, or "s" and that of a
	// suspended point.
	Steps []string
	// Point is asked next; empty means any.
	Point  string
	Notice string // name of the notice above it
}

// tellings are the notices above a question.
var tellings = map[string]i18n.Message{
	"elsewhere": msgElsewhere, "early": msgNotDue, "gone": msgGone, "unplanned": msgUnplanned, "back": msgBackAgain,
	"rests": msgRestsNow, "tomorrow": msgTomorrowNow, "leech": msgLeechNow, "stuck": msgNotUndone,
}

func sessionOf(v *page.Visit) session {
	number := func(name string) int {
		n, err := strconv.Atoi(v.FormValue(name))
		if err != nil {
			return 0
		}
		return min(max(n, 0), 99999)
	}
	s := session{Deck: v.FormValue("deck"), Tag: v.FormValue("tag"), Done: number("done"), Again: number("again"),
		Point: v.FormValue("ask"), Notice: v.FormValue("told")}
	s.Began, _ = strconv.ParseInt(v.FormValue("began"), 10, 64) //nolint:errcheck // invalid means that it begins now
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
	for name, value := range map[string]string{"deck": s.Deck, "tag": s.Tag, "steps": strings.Join(s.Steps, " "),
		"ask": s.Point, "told": s.Notice} {
		if value != "" {
			out.Set(name, value)
		}
	}
	for name, n := range map[string]int{"done": s.Done, "again": s.Again} {
		if n > 0 {
			out.Set(name, strconv.Itoa(n))
		}
	}
	return out
}

// with returns the session with one more step.
func (s session) with(step string) session {
	s.Steps = append(slices.Clone(s.Steps), step)
	s.Steps = s.Steps[max(len(s.Steps)-stepsMost, 0):]
	return s
}

// card is the data of a session's page.
type card struct {
	session
	Entry    *learning.Entry // nil if nothing is asked now
	Sitting  string
	Deck     string // name of its deck
	Left     learning.Remaining
	Review   string // ID that the review will have
	Shown    int64  // when the question was shown, in Unix milliseconds
	Recall   string
	Revealed bool // the answer is visible
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
	Wait  string
}

// hidden returns the hidden form fields of a card.
func (c *card) hidden() url.Values {
	s := c.session
	s.Notice, s.Point = "", ""
	out := s.values()
	if c.Entry != nil {
		out.Set("point", c.Entry.ID)
		out.Set("sitting", c.Sitting)
		out.Set("review", c.Review)
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

// Number returns the number of the question within the session.
func (c *card) Number() int { return c.session.Done + 1 }

// Whole returns the expected number of questions.
func (c *card) Whole() int { return max(c.session.Done+c.Left.Total(), c.Number()) }

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
