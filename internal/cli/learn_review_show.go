package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"patchbay/internal/i18n"
)

// learnAnswer is a question with its answer, and the effect of each grade.
type learnAnswer struct {
	Answer string            `json:"answer"`
	Recall string            `json:"last_recall"`
	Grades map[string]string `json:"grades"`
}

// learnJudgement is the comparison of a recall with the answer.
type learnJudgement struct {
	Score   int      `json:"score"`
	Grade   string   `json:"suggested_grade"`
	Right   []string `json:"right"`
	Missing []string `json:"missing"`
	Wrong   []string `json:"wrong"`
	Verdict string   `json:"verdict"`
	By      string   `json:"judged_by"`
	Why     string   `json:"note"`
}

const (
	msgReviewKeys     = i18n.Message("Enter shows the answer; then a again · h hard · g good · e easy · u undo · s suspend · d delete · q quit")
	msgReviewLeft     = i18n.Message("%d remaining (%d new) · %s")
	msgReviewKept     = i18n.Message("%s → %s")
	msgReviewLeech    = i18n.Message("This point is forgotten repeatedly: rewrite it, split it, or suspend it.")
	msgReviewLost     = i18n.Message("The grade could not be saved: %s. Press the key again to retry (it is counted once), or q to quit.")
	msgReviewAlready  = i18n.Message("It was reviewed on another device meanwhile.")
	msgReviewRefused  = i18n.Message("It failed: %s")
	msgReviewRests    = i18n.Message("It is suspended until: patchbay learn edit %s --resume%s")
	msgReviewDeleted  = i18n.Message("It is deleted. To restore it within 30 days: patchbay learn rm --undo %s%s")
	msgReviewNoStep   = i18n.Message("There is nothing to undo yet.")
	msgReviewBack     = i18n.Message("Undone; review it again:")
	msgReviewUnjudged = i18n.Message("It was not graded by a bot: %s")
	msgReviewVerdict  = i18n.Message("%d of 100: %s")
	msgReviewMissing  = i18n.Message("Missing: %s")
	msgReviewWrong    = i18n.Message("Wrong: %s")
	msgReviewByWords  = i18n.Message("(text comparison only)")
	msgReviewNothing  = i18n.Message("There is nothing to review now.")
	msgReviewLater    = i18n.Message("Later today: %d.")
	msgReviewNextDay  = i18n.Message("The next are due on %s: %d.")
	msgReviewSum      = i18n.Message("Reviewed: %d, of these again: %d, in %s.")
	msgReviewRest     = i18n.Message("Remaining: %d.")
)

func (s *learnSession) say(line i18n.Message, args ...any) {
	fmt.Fprintln(s.out, line.In(s.sh.lang, args...))
}

// newline ends the line of a prompt that the user has not ended.
func (s *learnSession) newline() { fmt.Fprintln(s.out) }

// ask shows the question.
func (s *learnSession) ask() {
	about := append([]string{s.sh.learnState(s.card.State), plain(s.card.Deck)}, s.card.Tags...)
	head := msgReviewLeft.In(s.sh.lang, s.left.total(), s.left.New, plain(strings.Join(about, " · ")))
	fmt.Fprintf(s.out, "\n%s\n%s\n> ", s.style.faint(head), s.style.bold(strings.TrimSpace(plain(s.card.Question))))
}

// show prints the answer, and the effect of each grade.
func (s *learnSession) show(a *learnAnswer) {
	if s.keys.typed == nil {
		s.newline()
	}
	fmt.Fprintf(s.out, "%s\n", s.style.markdown(a.Answer))
	var ways []string
	for _, grade := range []string{"again", "hard", "good", "easy"} {
		if to := a.Grades[grade]; to != "" {
			ways = append(ways, s.sh.learnGrade(grade)+" "+to)
		}
	}
	if len(ways) > 0 {
		fmt.Fprintln(s.out, s.style.faint(strings.Join(ways, " · ")))
	}
}

// verdict prints the comparison of a recall.
func (s *learnSession) verdict(j *learnJudgement) {
	line := msgReviewVerdict.In(s.sh.lang, j.Score, singleLine(plain(j.Verdict)))
	if j.By == "comparison" {
		line += " " + msgReviewByWords.In(s.sh.lang)
	}
	if j.Grade == "again" {
		line = s.style.bad(line)
	} else {
		line = s.style.good(line)
	}
	fmt.Fprintln(s.out, line)
	if len(j.Missing) > 0 {
		s.say(msgReviewMissing, singleLine(plain(strings.Join(j.Missing, "; "))))
	}
	if len(j.Wrong) > 0 {
		s.say(msgReviewWrong, singleLine(plain(strings.Join(j.Wrong, "; "))))
	}
}

// summary prints what was done.
func (s *learnSession) summary(ctx context.Context) error {
	n, again := s.reviews()
	spent := time.Since(s.begun)
	if s.sh.json {
		return s.sh.writeJSON(map[string]any{"reviewed": n, "again": again, "seconds": int(spent.Seconds()),
			"left": s.left}, "  ")
	}
	s.newline()
	if n > 0 {
		s.say(msgReviewSum, n, again, spent.Round(time.Second))
	}
	switch {
	case s.card != nil && s.left.total() > 0:
		s.say(msgReviewRest, s.left.total())
	case s.card == nil && ctx.Err() == nil:
		s.nothing(ctx)
	}
	return nil
}

// nothing prints that nothing is left, and when the next point is due.
func (s *learnSession) nothing(ctx context.Context) {
	s.say(msgReviewNothing)
	if s.left.Steps > 0 {
		s.say(msgReviewLater, s.left.Steps)
	}
	if s.left.Held > 0 {
		s.say(msgLearnHeld, s.left.Held)
	}
	var st learnStats
	if s.call(ctx, "learning_stats", map[string]any{"days": maxDays}, &st) != nil {
		return // best effort
	}
	for _, day := range st.Forecast {
		if day.Day > st.Today && day.Due > 0 {
			s.say(msgReviewNextDay, day.Day, day.Due)
			return
		}
	}
}
