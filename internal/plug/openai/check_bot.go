package openai

import (
	"context"
	"log/slog"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
)

// checkTimeout is the timeout of a test request to a model.
const checkTimeout = 20 * time.Second

const (
	msgBotAnswers  = i18n.Message("the model can be asked")
	msgModelBefore = i18n.Message("it can be asked now, but the server has met this: %s")
)

// CheckBot checks that the model of a bot with a number answers. Problem is what the running server
// met last; it may be about something else.
func CheckBot(ctx context.Context, r *check.Report, name i18n.Text, number int64, s Settings, problem string) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	b, err := New(s, Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		defer b.Close()
		err = b.Check(ctx)
	}
	switch {
	case err != nil:
		r.Error(name, err, check.AdviceSettings.With(number, r.Flags))
	case problem != "":
		r.Warn(name, msgModelBefore.With(problem), check.AdviceAsk.With(number, r.Flags))
	default:
		r.OK(name, msgBotAnswers.With())
	}
}
