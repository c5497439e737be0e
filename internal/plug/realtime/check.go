package realtime

import (
	"context"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/voice/engine"
	"patchbay/internal/voice/realtime"
)

// checkTimeout limits the test of a bot.
const checkTimeout = 20 * time.Second

const (
	msgFailed = i18n.Message("%[1]s (%[2]v)")
	msgReady  = i18n.Message("the realtime model can be asked")
)

// CheckBot checks that a session with the model of a bot with a number can be opened, which costs
// nothing.
func CheckBot(ctx context.Context, r *check.Report, name i18n.Text, number int64, s Settings, o Options) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	b, err := New(s, o)
	if err == nil {
		err = b.check(ctx)
	}
	if e := engine.AsError(err); err != nil && e != nil && e.Class != engine.Broken {
		r.Fail(name, msgFailed.With(e.In(r.Lang), e.Err), check.AdviceSettings.With(number, r.Flags))
		return
	}
	if err != nil {
		r.Error(name, err, check.AdviceSettings.With(number, r.Flags))
		return
	}
	r.OK(name, msgReady.With())
}

// check opens a session, and waits until the service has accepted its configuration.
func (b *Bot) check(ctx context.Context) error {
	config := b.settings.session(b.options.Spelling)
	conn, err := realtime.Open(ctx, b.options, &config)
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		e, err := conn.Next(ctx)
		switch {
		case err != nil:
			return err
		case e.Type == realtime.Failed:
			return e.Err.In()
		case e.Type == realtime.SessionUpdated:
			return nil
		}
	}
}
