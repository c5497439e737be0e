package engines

import (
	"context"
	"errors"
	"io"
	"time"

	"patchbay/internal/check"
	"patchbay/internal/i18n"
	"patchbay/internal/voice/engine"
)

// checkTimeout limits the test of an engine.
const checkTimeout = 20 * time.Second

// Texts of the report.
const (
	CheckName     = i18n.Message("speech engine %s")
	msgFailed     = i18n.Message("%[1]s (%[2]v)")
	msgHears      = i18n.Message("it listens")
	msgSpeaks     = i18n.Message("it speaks")
	msgBoth       = i18n.Message("it listens and speaks")
	AdviceAddress = i18n.Message("Set the address and the key in the configuration: %s")
)

// Check checks that an engine listens and speaks, which may cost a little. Setting is the key in
// the configuration.
func Check(ctx context.Context, r *check.Report, setting string, e engine.Engine) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	found := msgBoth
	switch {
	case e.Speaker == nil:
		found = msgHears
	case e.Listener == nil:
		found = msgSpeaks
	}
	err := listen(ctx, e.Listener)
	if err == nil {
		err = speak(ctx, e.Speaker)
	}
	if e := engine.AsError(err); e != nil {
		r.Fail(CheckName.With(setting), msgFailed.With(e.In(r.Lang), e.Err), AdviceAddress.With(setting))
		return
	}
	r.OK(CheckName.With(setting), found.With())
}

// listen has a listener hear a second of silence.
func listen(ctx context.Context, l engine.Listener) error {
	if l == nil {
		return nil
	}
	u, err := l.Listen(ctx, engine.Hints{})
	if err != nil {
		return err
	}
	defer u.Close()
	if err := errors.Join(u.Write(make([]int16, engine.Rate)), u.Finish()); err != nil {
		return err
	}
	for {
		t, err := u.Next()
		if err != nil || t.Final {
			return err
		}
	}
}

// speak has a speaker say a word.
func speak(ctx context.Context, s engine.Speaker) error {
	if s == nil {
		return nil
	}
	speech, err := s.Speak(ctx, engine.Manner{})
	if err != nil {
		return err
	}
	defer speech.Close()
	if err := errors.Join(speech.Write("OK."), speech.Finish()); err != nil {
		return err
	}
	clip, err := speech.Next()
	if err != nil {
		return err
	}
	defer clip.Sound.Close()
	n, err := io.Copy(io.Discard, clip.Sound)
	if err == nil && n == 0 {
		err = engine.Errorf(engine.Broken, "no sound came")
	}
	return err
}
