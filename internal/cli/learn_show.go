package cli

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"patchbay/internal/i18n"
)

type learnShowCmd struct {
	ID         string `arg:"" name:"id" help:"The knowledge point: its id, or the end of its id as shown by learn list."`
	learnFlags `embed:""`
}

// Help returns the command's detailed help with examples.
func (learnShowCmd) Help() string {
	return `Shows a knowledge point, its schedule and all its reviews.

Examples:

    patchbay learn show 3b1f5e77
    patchbay learn show 0198c4d2-7a51-7c3e-9d2f-0d6a3b1f5e77 --json`
}

// learnReview is an entry of a point's history.
type learnReview struct {
	ID      string    `json:"review_id"`
	Kind    string    `json:"kind"`
	At      time.Time `json:"at"`
	Grade   string    `json:"grade"`
	Recall  string    `json:"recall_text"`
	Score   *int      `json:"score"`
	TookMS  int64     `json:"took_ms"`
	Channel string    `json:"channel"`
}

const (
	msgLearnAbout = i18n.Message("%s · %s · deck %s")
	msgLearnComes = i18n.Message("Due: %s")
	msgLearnTags  = i18n.Message("Tags: %s")
	msgLearnPlan  = i18n.Message("Plan")
	msgLearnOpen  = i18n.Message("to come")
	msgLearnDone  = i18n.Message("done %s")
	msgLearnPast  = i18n.Message("History")
	msgNoHistory  = i18n.Message("It was never reviewed.")
)

var learnKinds = map[string]i18n.Message{
	"review":     "review",
	"undo":       "undo",
	"reschedule": "another date",
}

// Run prints a point.
func (c *learnShowCmd) Run(ctx context.Context, sh *shell) error {
	return c.open(ctx, sh, func(l learnCaller) error {
		id, err := learnID(ctx, l, c.ID)
		if err != nil {
			return err
		}
		var row json.RawMessage
		if err := l.call(ctx, "get_knowledge_point", map[string]any{"id": id}, &row); err != nil {
			return err
		}
		history, err := learnHistory(ctx, l, id)
		if err != nil {
			return err
		}
		var p learnPoint
		if err := json.Unmarshal(row, &p); err != nil {
			return err
		}
		return sh.result(map[string]any{"knowledge_point": row, "reviews": history},
			func() { sh.learnPoint(p, history) })
	})
}

// learnHistory reads the whole history of a point.
func learnHistory(ctx context.Context, l learnCaller, id string) ([]json.RawMessage, error) {
	all := []json.RawMessage{}
	args := map[string]any{"knowledge_point_id": id, "limit": learnPage}
	for {
		var page struct {
			Rows []json.RawMessage `json:"reviews"`
			Next string            `json:"next_cursor"`
		}
		if err := l.call(ctx, "review_history", args, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Rows...)
		if page.Next == "" {
			return all, nil
		}
		args["cursor"] = page.Next
	}
}

func (sh *shell) learnPoint(p learnPoint, history []json.RawMessage) {
	sh.say(msgLearnAbout, p.ID, sh.learnState(p.State), plain(p.Deck))
	if p.Due != "" {
		sh.say(msgLearnComes, sh.learnDue(p.Due))
	}
	if len(p.Tags) > 0 {
		sh.say(msgLearnTags, plain(strings.Join(p.Tags, ", ")))
	}
	ink := sh.newStyle(sh.stdout)
	sh.printf("\n%s\n\n%s\n\n%s\n", ink.bold(strings.TrimSpace(plain(p.Question))), ink.markdown(p.Answer),
		msgLearnPlan.In(sh.lang))
	for _, row := range p.Plan {
		state := msgLearnOpen.In(sh.lang)
		if row.Completed {
			state = msgLearnDone.In(sh.lang, sh.when(row.At))
		}
		sh.printf("  %2d  %s  %s\n", row.Number, row.Day, state)
	}
	sh.printf("\n%s\n", msgLearnPast.In(sh.lang))
	if len(history) == 0 {
		sh.printf("  %s\n", msgNoHistory.In(sh.lang))
	}
	for _, row := range history {
		var r learnReview
		if json.Unmarshal(row, &r) != nil {
			continue
		}
		sh.printf("  %s\n", sh.learnReview(r))
	}
}

// learnReview formats a review on one line.
func (sh *shell) learnReview(r learnReview) string {
	parts := []string{sh.when(r.At), plain(r.Kind)}
	if kind, ok := learnKinds[r.Kind]; ok {
		parts[1] = kind.In(sh.lang)
	}
	if r.Grade != "" {
		parts = append(parts, sh.learnGrade(r.Grade))
	}
	if r.TookMS > 0 {
		parts = append(parts, took((time.Duration(r.TookMS) * time.Millisecond).Round(time.Second/10)))
	}
	if r.Channel != "" {
		parts = append(parts, plain(r.Channel))
	}
	if r.Recall != "" {
		parts = append(parts, "“"+short(r.Recall, maxHeading)+"”")
	}
	return strings.Join(parts, "  ")
}
