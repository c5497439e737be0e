package learn

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"patchbay/internal/console/page"
	learning "patchbay/internal/plug/learn"
	"patchbay/internal/store"
	"patchbay/internal/talk"
)

// session is where somebody is in a session of reviews. Pages carry it along, so that
// nothing of it is kept here, and sending a form twice says the same twice.
type session struct {
	Deck  string // as addresses name it; empty: all
	Tag   string
	Done  int
	Again int
	Began int64 // in seconds
	// Steps can be taken back, the last one first: "r" and the id of a review, or "s"
	// and that of a point that was let rest.
	Steps []string
	// Point is asked next; empty: whichever is.
	Point string
	Told  string // what is told above it, by its name
}

// tellings are what is told above a question.
var tellings = map[string]talk.Say{
	"elsewhere": sayElsewhere, "early": sayNotDue, "gone": sayGone, "unplanned": sayUnplanned, "back": sayBackAgain, "rests": sayRestsNow, "tomorrow": sayTomorrowNow, "leech": sayLeechNow, "stuck": sayNotUndone,
}

func sessionOf(v *page.Visit) session {
	number := func(name string) int {
		n, err := strconv.Atoi(v.FormValue(name))
		if err != nil {
			return 0
		}
		return min(max(n, 0), 99999)
	}
	s := session{Deck: v.FormValue("deck"), Tag: v.FormValue("tag"), Done: number("done"), Again: number("again"), Point: v.FormValue("ask"), Told: v.FormValue("told")}
	s.Began, _ = strconv.ParseInt(v.FormValue("began"), 10, 64) //nolint:errcheck // then it begins now
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

// values are the session as an address or a form has it.
func (s session) values() url.Values {
	out := url.Values{"began": {strconv.FormatInt(s.Began, 10)}}
	for name, value := range map[string]string{"deck": s.Deck, "tag": s.Tag, "steps": strings.Join(s.Steps, " "), "ask": s.Point, "told": s.Told} {
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

// with notes a step.
func (s session) with(step string) session {
	s.Steps = append(slices.Clone(s.Steps), step)
	s.Steps = s.Steps[max(len(s.Steps)-stepsMost, 0):]
	return s
}

// card is what a page of the session shows.
type card struct {
	session
	Entry   *learning.Entry // nil: nothing is asked now
	Sitting string
	Deck    string // its deck's name
	Left    learning.Left
	Review  string // the id that the review will have
	Shown   int64  // when the question was, in milliseconds
	Recall  string
	Open    bool // the answer is to be seen
	Judged  *learning.Judgement
	Score   int // −1: not judged
	Grades  [4]gradeButton

	// If nothing is asked:
	Later time.Time // when the next is due today; zero: none is
	Clock string    // the same, as the person's clock shows it
	Next  string    // the next day on which something is due, and how much
}

// gradeButton is a grade, and when the point would come again.
type gradeButton struct {
	Grade int
	Name  string
	Wait  string
}

// hidden are the fields that forms of a card carry along.
func (c *card) hidden() url.Values {
	s := c.session
	s.Told, s.Point = "", ""
	out := s.values()
	if c.Entry != nil {
		out.Set("point", c.Entry.ID)
		out.Set("sitting", c.Sitting)
		out.Set("review", c.Review)
		out.Set("shown", strconv.FormatInt(c.Shown, 10))
	}
	return out
}

// Edit is where the point is edited, from where the session goes on.
func (c *card) Edit() string {
	s := c.session
	s.Told, s.Point = "", c.Entry.ID
	return pointPath(c.Entry.ID) + "?" + query("back", "/learn/review?"+s.values().Encode())
}

// Number is which question of the session this is.
func (c *card) Number() int { return c.session.Done + 1 }

// Whole is how many there will be, as far as anybody knows.
func (c *card) Whole() int { return max(c.session.Done+c.Left.Total(), c.Number()) }

var gradeNames = [...]talk.Say{sayAgain, sayHard, sayGood, sayEasy}

// gradeName is a grade in words.
func gradeName(v *page.Visit, g store.Grade) string {
	if g < store.Again || g > store.Easy {
		return v.Say(sayUngraded)
	}
	return v.Say(gradeNames[g-1])
}

// waitText says when a point would come again.
func waitText(v *page.Visit, wait time.Duration, days int) string {
	switch {
	case wait > 0 && wait < time.Hour:
		return v.Say(sayWaitMinutes, int(wait.Round(time.Minute).Minutes()))
	case wait > 0:
		return v.Say(sayWaitHours, int(wait.Round(time.Hour).Hours()))
	case days < 60:
		return v.Say(sayWaitDays, days)
	case days < 730:
		return v.Say(sayWaitMonths, float64(days)/30.4)
	}
	return v.Say(sayWaitYears, float64(days)/365)
}

// Minutes is how long the session has taken.
func (c *card) Minutes() int { return int((time.Now().Unix() - c.Began + 30) / 60) }

// Refresh is when a page that waits asks again by itself; empty: it does not.
func (c *card) Refresh() string {
	wait := time.Until(c.Later)
	if c.Later.IsZero() || wait > waitMost {
		return ""
	}
	return fmt.Sprintf("load delay:%ds", max(int(wait.Seconds())+1, 2))
}

// suggested is the grade that a judgement suggests; 0: none does.
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
