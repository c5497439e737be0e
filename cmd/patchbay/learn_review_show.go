package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"patchbay/internal/talk"
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

var (
	sayReviewKeys = talk.Say{Zh: "回车显示答案；然后 a 重来 · h 困难 · g 良好 · e 简单 · u 撤销 · s 暂停 · d 删除 · q 结束",
		En: "Enter shows the answer; then a again · h hard · g good · e easy · u undo · s suspend · d delete · q quit"}
	sayReviewLeft  = talk.Say{Zh: "还剩 %d（新 %d）· %s", En: "%d left (%d new) · %s"}
	sayReviewKept  = talk.Say{Zh: "%s → %s", En: "%s → %s"}
	sayReviewLeech = talk.Say{Zh: "这个知识点总是忘记：改写、拆分或暂停它会更好。",
		En: "This one is forgotten again and again: better write it anew, split it, or suspend it."}
	sayReviewLost = talk.Say{Zh: "没能保存：%s。再按一次重试，不会重复计数；q 结束。",
		En: "It could not be kept: %s. Press it again to try again, which counts once; q ends."}
	sayReviewAlready = talk.Say{Zh: "它已在别的设备上复习过了。", En: "It was reviewed on another device meanwhile."}
	sayReviewRefused = talk.Say{Zh: "没有完成：%s", En: "That did not work: %s"}
	sayReviewRests   = talk.Say{Zh: "已暂停。恢复：patchbay learn edit %s --resume%s",
		En: "It rests until: patchbay learn edit %s --resume%s"}
	sayReviewDeleted = talk.Say{Zh: "已删除。30 天内可恢复：patchbay learn rm --undo %s%s",
		En: "It is deleted. Within 30 days this brings it back: patchbay learn rm --undo %s%s"}
	sayReviewNoStep   = talk.Say{Zh: "还没有可以撤销的。", En: "There is nothing to take back yet."}
	sayReviewBack     = talk.Say{Zh: "已撤销，再来一次：", En: "Taken back; once more:"}
	sayReviewUnjudged = talk.Say{Zh: "没有评判：%s", En: "Nobody judged it: %s"}
	sayReviewVerdict  = talk.Say{Zh: "%d 分：%s", En: "%d of 100: %s"}
	sayReviewMissing  = talk.Say{Zh: "缺少：%s", En: "Missing: %s"}
	sayReviewWrong    = talk.Say{Zh: "错误：%s", En: "Wrong: %s"}
	sayReviewByWords  = talk.Say{Zh: "（只比较了文字）", En: "(words compared only)"}
	sayReviewNothing  = talk.Say{Zh: "现在没有要复习的。", En: "Nothing is left to review now."}
	sayReviewLater    = talk.Say{Zh: "今天稍后还有 %d 个。", En: "Later today: %d."}
	sayReviewNextDay  = talk.Say{Zh: "下一批：%s，%d 个。", En: "The next are due on %s: %d."}
	sayReviewSum      = talk.Say{Zh: "复习了 %d 个，忘记 %d 个，用时 %s。", En: "Reviewed: %d, of these again: %d, in %s."}
	sayReviewRest     = talk.Say{Zh: "还剩 %d 个。", En: "Left: %d."}
)

func (s *learnSession) say(line talk.Say, args ...any) {
	fmt.Fprintln(s.out, line.In(s.sh.lang, args...))
}

// newline ends the line of a prompt that the user has not ended.
func (s *learnSession) newline() { fmt.Fprintln(s.out) }

// ask shows the question.
func (s *learnSession) ask() {
	about := append([]string{s.sh.learnState(s.card.State), plain(s.card.Deck)}, s.card.Tags...)
	head := sayReviewLeft.In(s.sh.lang, s.left.total(), s.left.New, plain(strings.Join(about, " · ")))
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
	line := sayReviewVerdict.In(s.sh.lang, j.Score, singleLine(plain(j.Verdict)))
	if j.By == "comparison" {
		line += " " + sayReviewByWords.In(s.sh.lang)
	}
	if j.Grade == "again" {
		line = s.style.bad(line)
	} else {
		line = s.style.good(line)
	}
	fmt.Fprintln(s.out, line)
	if len(j.Missing) > 0 {
		s.say(sayReviewMissing, singleLine(plain(strings.Join(j.Missing, "; "))))
	}
	if len(j.Wrong) > 0 {
		s.say(sayReviewWrong, singleLine(plain(strings.Join(j.Wrong, "; "))))
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
		s.say(sayReviewSum, n, again, spent.Round(time.Second))
	}
	switch {
	case s.card != nil && s.left.total() > 0:
		s.say(sayReviewRest, s.left.total())
	case s.card == nil && ctx.Err() == nil:
		s.nothing(ctx)
	}
	return nil
}

// nothing prints that nothing is left, and when the next point is due.
func (s *learnSession) nothing(ctx context.Context) {
	s.say(sayReviewNothing)
	if s.left.Steps > 0 {
		s.say(sayReviewLater, s.left.Steps)
	}
	if s.left.Held > 0 {
		s.say(sayLearnHeld, s.left.Held)
	}
	var st learnStats
	if s.call(ctx, "learning_stats", map[string]any{"days": maxDays}, &st) != nil {
		return // best effort
	}
	for _, day := range st.Forecast {
		if day.Day > st.Today && day.Due > 0 {
			s.say(sayReviewNextDay, day.Day, day.Due)
			return
		}
	}
}
