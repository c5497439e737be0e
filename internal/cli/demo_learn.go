package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"patchbay/internal/i18n"
)

const (
	msgCapital   = i18n.Message("What is the capital of France?")
	msgParis     = i18n.Message("Paris")
	msgFormula   = i18n.Message("What is the chemical formula of water?")
	msgQuizMe    = i18n.Message("quiz me")
	msgForgot    = i18n.Message("I forgot")
	msgStopQuiz  = i18n.Message("quiz\x04stop")
	msgLearnNote = i18n.Message("a program added %d points; %d were reviewed on the glasses, %d forgotten; FSRS schedules the next reviews")
)

// playLearn adds knowledge points as a program, and reviews them by voice with glasses.
func playLearn(ctx context.Context, st *demoRun) error {
	key, err := st.newKey(ctx, "study", "learn")
	if err != nil {
		return err
	}
	cards := [][2]string{{msgCapital.In(st.sh.lang), msgParis.In(st.sh.lang)}, {msgFormula.In(st.sh.lang), "H2O"}}
	for _, c := range cards {
		st.line("⇢", "create_knowledge_point "+c[0])
		if err := st.learn(ctx, key, "create_knowledge_point", map[string]any{"question": c[0], "answer": c[1]},
			nil); err != nil {
			return err
		}
	}
	// No model judges here: the recall is compared with the answer.
	if err := st.learn(ctx, key, "update_learning_settings", map[string]any{"bot": "none"}, nil); err != nil {
		return err
	}
	// The glasses that were bound by a photo: others may not see the owner's points.
	g := st.glasses(stranger, platformAgent)
	for _, turn := range []struct{ say, hear string }{
		{msgQuizMe.In(st.sh.lang), cards[0][0]}, {cards[0][1], cards[1][0]}, {msgForgot.In(st.sh.lang), "H2O"},
		{msgStopQuiz.In(st.sh.lang), "2"},
	} {
		heard, err := g.say(ctx, turn.say)
		if err == nil {
			err = heard.expect(turn.hear)
		}
		if err != nil {
			return err
		}
	}
	var stats struct {
		Done struct{ Reviews, Again int } `json:"done_today"`
	}
	if err := st.learn(ctx, key, "learning_stats", map[string]any{}, &stats); err != nil {
		return err
	}
	if stats.Done.Reviews != 2 || stats.Done.Again != 1 {
		return fmt.Errorf("%d reviews are counted, %d of them forgotten, instead of 2 and 1", stats.Done.Reviews,
			stats.Done.Again)
	}
	st.note = msgLearnNote.In(st.sh.lang, len(cards), stats.Done.Reviews, stats.Done.Again)
	return nil
}

// learn calls a tool at Learn's endpoint, as programs without an MCP library do.
func (st *demoRun) learn(ctx context.Context, key, tool string, args map[string]any, into any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{"name": tool, "arguments": args}})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, st.url+"/api/mcp", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var m struct {
		Result struct {
			Content    []struct{ Text string }
			Structured json.RawMessage `json:"structuredContent"`
			IsError    bool
		}
		Error *struct{ Message string }
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, programLimit)).Decode(&m); err != nil {
		return fmt.Errorf("%s is answered %s: %w", tool, resp.Status, err)
	}
	switch {
	case m.Error != nil:
		return errors.New(m.Error.Message)
	case m.Result.IsError && len(m.Result.Content) > 0:
		return errors.New(m.Result.Content[0].Text)
	case into != nil:
		return json.Unmarshal(m.Result.Structured, into)
	}
	return nil
}
