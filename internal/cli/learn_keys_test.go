//go:build linux

package cli

import "testing"

// On a terminal grades are single keys, lines can be edited, and Ctrl-C and Ctrl-D end the session.
func TestLearnReviewOnATerminal(t *testing.T) {
	d := newDesk(t)
	d.ok("user", "add", "ada")
	d.ok("learn", "add", "First?", "**bold** answer")
	d.ok("learn", "add", "Second?", "2")
	d.ok("learn", "add", "Third?", "3")
	type step struct{ shown, typed string }
	const grades = "] "
	for _, c := range []struct {
		name  string
		steps []step
		end   []string
	}{
		{"keys", []step{
			{"First?\x1b[0m\r\n> ", "xx\x7f\x7f德国\n"},
			// the sequence of an arrow key ends in A, but is no grade
			{"\x1b[1mbold\x1b[0m answer\r\n", ""}, {grades, "\x1b[A"}, {"", "h"},
			{"hard → ", ""}, {"Second?", "\n"}, {grades, "\x03"},
		}, []string{"Reviewed: 1, of these again: 0"}},
		{"the end at a question", []step{{"Second?", "\n"}, {grades, "x"}, {"a again", ""}, {grades, "e"},
			{"easy → ", ""}, {"Third?", ""}, {"\n> ", "\x04"}}, []string{"Reviewed: 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			session := d.typing("learn", "review")
			for _, s := range c.steps {
				session.wait(s.shown)
				session.enter(s.typed)
			}
			for _, want := range c.end {
				session.wait(want)
			}
			if code := <-session.done; code != exitOK {
				t.Errorf("exit code %d:\n%s", code, session.seen.String())
			}
		})
	}
	var shown struct{ Reviews []learnReview }
	d.json(&shown, "learn", "show", d.points()["First?"].ID)
	if len(shown.Reviews) == 0 || shown.Reviews[0].Recall != "德国" || shown.Reviews[0].Grade != "hard" {
		t.Errorf("its history is %+v", shown.Reviews)
	}
}
