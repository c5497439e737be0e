package learn

import (
	"context"
	"encoding/json"
	"strings"

	"patchbay/internal/i18n"
	"patchbay/internal/store"
	"patchbay/internal/tool"
)

// Names of the prompts.
const (
	promptQuiz = "quiz_me"
	promptMake = "make_knowledge_points"
)

const (
	msgPromptQuiz = i18n.Message("Quiz me. Get a question with next_review%s, ask it and nothing else, and wait for my recall. Then use reveal_answer, judge the meaning, tell me in one line what was right or missing, call submit_review with a grade (with schedule_id and a review_id of your own), and go on with the next question. When nothing is left, sum up.")
	msgPromptDeck = i18n.Message(" (deck “%s”)")
	msgPromptMake = i18n.Message("Make knowledge points of what follows: each asks one thing, with a definite question and a short, clear answer. First see with search_knowledge_points whether they are there already, then add them with create_knowledge_points and draft=true, show them to me, and when I agree set draft=false with update_knowledge_point.\n\n%s")
)

// Prompts implements [tool.PromptProvider].
func (p *Provider) Prompts(_ context.Context, who tool.Caller) ([]tool.Prompt, error) {
	if !mayRead(who) {
		return nil, nil
	}
	return []tool.Prompt{
		{Name: promptQuiz, Title: "Quiz me", Description: "Review the knowledge points that are due, one by one",
			Arguments: []tool.Argument{{Name: "deck", Description: "Only this deck"}}},
		{Name: promptMake, Title: "Make knowledge points", Description: "Turn a text into knowledge points",
			Arguments: []tool.Argument{{Name: "text", Description: "What is to be learned", Required: true}}},
	}, nil
}

// mayRead reports whether a caller may read a person's points.
func mayRead(who tool.Caller) bool {
	return who.Person != "" && !who.Anonymous && (who.OnlyBot == 0 || who.Channel == learnChannel)
}

// Prompt implements [tool.PromptProvider].
func (p *Provider) Prompt(ctx context.Context, c *tool.Call) (*tool.PromptResult, error) {
	if !mayRead(c.Caller) {
		return nil, tool.ErrNotFound
	}
	var a struct{ Deck, Text string }
	if len(c.Args) > 0 {
		if err := json.Unmarshal(c.Args, &a); err != nil {
			return nil, tool.Fail(tool.BadArgs, "The arguments must be texts.", err)
		}
	}
	lang := p.Service.lang(ctx, c)
	switch c.Tool {
	case promptQuiz:
		deck := ""
		if a.Deck != "" {
			deck = msgPromptDeck.In(lang, truncateBytes(a.Deck, maxName))
		}
		return &tool.PromptResult{Description: "Quiz me", Messages: []tool.Message{tool.TextMessage("user",
			msgPromptQuiz.In(lang, deck))}}, nil
	case promptMake:
		if strings.TrimSpace(a.Text) == "" {
			return nil, tool.Fail(tool.BadArgs, "text is missing: what is to be learned?", nil)
		}
		return &tool.PromptResult{Description: "Make knowledge points",
				Messages: []tool.Message{tool.TextMessage("user",
					msgPromptMake.In(lang, truncateBytes(a.Text, MaxText)))}},
			nil
	}
	return nil, tool.ErrNotFound
}

// Complete implements [tool.PromptProvider]. It completes deck names.
func (p *Provider) Complete(ctx context.Context, who tool.Caller, prompt, argument, value string) ([]string, error) {
	if prompt != promptQuiz || argument != "deck" || !mayRead(who) {
		return nil, nil
	}
	decks, err := p.Service.Store.Learn.Decks(ctx, who.Person)
	var names []string
	for _, d := range append([]store.Deck{{Name: DefaultDeck}}, decks...) {
		if strings.HasPrefix(strings.ToLower(d.Name), strings.ToLower(value)) {
			names = append(names, d.Name)
		}
	}
	return names, err
}
